"""The main loop as a whole: what it reports, when it stops, and that it stops when numbers go wrong."""

import math

import numpy as np
import pytest
import torch
from test_update import train_config

from puffertoolkit.errors import UserError
from puffertoolkit.policies import MLPEncoder, NoCore, Policy
from puffertoolkit.seeding import SeedTree
from puffertoolkit.trainer.trainer import Trainer

CPU = torch.device("cpu")


def trainer(vector, **changes):
    cfg = train_config(horizon=4, minibatch_size=8, checkpoint_interval_s=1e9, **changes)
    torch.manual_seed(0)
    policy = Policy(vector.single_observation_space, vector.single_action_space, 16, MLPEncoder, NoCore)
    return Trainer(cfg, vector, policy, SeedTree(0), CPU)


def run(trained, **callbacks):
    rows, saves = [], []
    trained.train(rows.append, lambda: saves.append(trained.step), **callbacks)
    return rows, saves


def test_reports_every_iteration_and_saves_at_the_end(scripted):
    rows, saves = run(trainer(scripted(4), total_timesteps=40))
    assert [row["step"] for row in rows] == [16, 32, 48]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert saves == [48]
    assert all(math.isfinite(value) for row in rows for value in row.values())


def test_dead_agents_do_not_count_as_steps(scripted):
    dead = {(t, 0) for t in range(100)}
    rows, _ = run(trainer(scripted(4, dead=dead), total_timesteps=24))
    assert [row["step"] for row in rows] == [12, 24]


def test_stops_when_asked_with_a_checkpoint(scripted):
    trained = trainer(scripted(4), total_timesteps=10**9)
    rows, saves = run(trained, should_stop=lambda: trained.epoch == 2)
    assert len(rows) == 2
    assert saves == [32]


def test_saves_at_intervals(scripted):
    trained = trainer(scripted(4), total_timesteps=48)
    trained.cfg.checkpoint_interval_s = 0.0
    assert run(trained)[1] == [16, 32, 48, 48]


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_a_loss_that_is_not_finite_stops_the_run_and_saves_nothing(scripted, alpha):
    trained = trainer(scripted(4), total_timesteps=10**6, priority_alpha=alpha)
    saves = []

    def poison(row):
        if row["epoch"] == 2:
            with torch.no_grad():
                next(iter(trained.policy.parameters())).fill_(math.nan)

    with pytest.raises(
        UserError, match=r"diverged at step 48: loss/policy.* not finite.*loss/value \d"
    ) as told:
        trained.train(poison, lambda: saves.append(trained.step))
    assert "train.lr" in str(told.value)
    assert saves == []


def test_a_reward_that_is_not_finite_names_the_rows(scripted):
    class Poisoned(scripted):
        def step(self, actions):
            super().step(actions)
            self.rewards[2] = np.inf

    with pytest.raises(UserError, match=r"rewards .* 1 of 4 agents \(rows 2\)"):
        run(trainer(Poisoned(4), total_timesteps=100))
