"""The main loop as a whole: what it reports, when it stops, and that it stops when numbers go wrong."""

import math
import re

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
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


def stopped(trained, between=lambda row: None):
    """Run until numbers go wrong; return the message, having seen that nothing was saved."""
    saves = []
    with pytest.raises(UserError) as told:
        trained.train(between, lambda: saves.append(trained.step))
    assert saves == []
    assert "heckpoints from before are good" in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("alpha", [0.0, 0.8])
@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([2, 3]), Box(-1, 1, (2,))])
def test_outputs_that_are_not_finite_stop_the_run_before_a_sampler_dies_of_them(scripted, alpha, space):
    trained = trainer(scripted(4, action_space=space), total_timesteps=10**6, priority_alpha=alpha)

    def poison(row):
        if row["epoch"] == 2:
            with torch.no_grad():
                trained.policy.action_head.linear.weight.fill_(math.nan)

    message = stopped(trained, poison)
    assert (
        "logits that are not finite numbers, within 4 steps after step 32, for 4 agents (rows 0, 1, 2, 3)"
        in message
    )
    assert re.search(r"last finite values: loss/policy -?\d.*, loss/value \d", message)
    assert "train.lr" in message


def test_values_that_are_not_finite_are_named(scripted):
    trained = trainer(scripted(4), total_timesteps=10**6)
    with torch.no_grad():
        trained.policy.value_head.bias.fill_(math.inf)
    assert "values that are not finite numbers" in stopped(trained)


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_a_loss_that_is_not_finite_stops_the_run_before_the_step_is_made(scripted, alpha):
    class Huge(scripted):
        def step(self, actions):
            super().step(actions)
            self.rewards[1] = 1e30 if self.t > 8 else 0

    trained = trainer(Huge(4), total_timesteps=10**6, priority_alpha=alpha, vf_clip_coef=None)
    message = stopped(trained)
    assert re.search(r"diverged at step 48: .*loss/value.* not finite", message)
    assert all(bool(p.isfinite().all()) for p in trained.policy.parameters())


def test_a_gradient_that_is_not_finite_names_the_parameter_and_the_agents(scripted):
    trained = trainer(scripted(4), total_timesteps=10**6, priority_alpha=0.0)
    weight = trained.policy.value_head.weight
    weight.register_hook(lambda grad: grad * math.nan if trained.epoch == 2 else grad)
    message = stopped(trained)
    assert "diverged at step 48: train/grad_norm is not finite, nor the gradients of " in message
    assert "value_head.weight" in message


def test_a_reward_that_is_not_finite_names_the_rows(scripted):
    class Poisoned(scripted):
        def step(self, actions):
            super().step(actions)
            self.rewards[2] = np.inf

    assert re.search(r"rewards .* 1 agents \(rows 2\)", stopped(trainer(Poisoned(4), total_timesteps=100)))


def test_what_stands_under_the_mask_may_be_anything(scripted):
    class Dead(scripted):
        def step(self, actions):
            super().step(actions)
            self.observations[3], self.rewards[3] = np.nan, np.inf

    trained = trainer(Dead(4, dead={(t, 3) for t in range(100)}), total_timesteps=40, priority_alpha=0.0)
    rows, _ = run(trained)
    assert len(rows) == 4


def test_the_learning_rate_reported_is_the_one_used(scripted):
    rows, _ = run(trainer(scripted(4), total_timesteps=48, lr=1.0, lr_schedule="linear", lr_min_ratio=0.0))
    assert [row["train/lr"] for row in rows] == pytest.approx([1, 2 / 3, 1 / 3])


def test_a_minibatch_larger_than_the_batch_is_refused(scripted):
    with pytest.raises(UserError, match=r"minibatch_size is 8, .* 1 agents \* train.horizon=4 = 4 steps"):
        trainer(scripted(1))
