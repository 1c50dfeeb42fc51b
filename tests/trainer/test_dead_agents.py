"""Rows without a living agent: whatever stands in them, the policy learns the same as without them."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from test_update import learner, train_config

from puffertoolkit.policies import LSTMCore, NoCore
from puffertoolkit.trainer.rewards import RewardShaper
from puffertoolkit.trainer.rollout import Collector

CPU = torch.device("cpu")
LIVING, DEAD = 5, 3


def with_garbage(scripted, garbage, action_space):
    """Living agents, and below them dead ones whose rows hold `garbage`; None: living ones only."""

    class Some(scripted):
        def step(self, actions):
            super().step(actions)
            self.rewards[:] /= 40
            self.final_observations /= 400
            if garbage is not None:
                self.rewards[LIVING:] = garbage

        def _observe(self):
            super()._observe()
            self.observations /= 400
            if garbage is not None:
                self.observations[LIVING:] = garbage

    dead = {(t, n) for t in range(20) for n in range(LIVING, LIVING + DEAD)}
    number = LIVING if garbage is None else LIVING + DEAD
    ends = {"terminate": {(2, 1), (5, 4)}, "truncate": {(3, 2), (3, 6)}}
    return Some(number, **ends, dead=dead, action_space=action_space)


def trained(scripted, garbage, core, action_space, monkeypatch, **changes):
    """Weights and metrics after two rollouts, whose agents act alike whatever rows are below them."""
    vector = with_garbage(scripted, garbage, action_space)
    settings = {"horizon": 4, "minibatch_size": 4 * vector.num_agents, "priority_alpha": 0.0, **changes}
    # Adam with a large divisor: rounding is not blown up, as it is where tiny gradients are scaled to one.
    cfg = train_config(**{"optimizer": "adam", "adam_eps": 1e-3, "update_epochs": 2, **settings})
    # Noise is drawn row after row; here the living get theirs, however many rows follow.
    for name in ("rand_like", "randn_like"):
        monkeypatch.setattr(torch, name, row_wise(getattr(torch, name[:-5])))
    policy, collector, update = learner(vector, cfg, core)
    rewards, rows = RewardShaper(cfg, vector.num_agents, CPU), []
    for progress in (0.0, 0.5):
        batch = collector.collect()
        rewards.apply(batch)
        rows.append(update.update(batch, progress))
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()]), rows


def row_wise(draw):
    def like(tensor):
        living = draw(LIVING, *tensor.shape[1:])
        return torch.cat([living, torch.full((len(tensor) - LIVING, *tensor.shape[1:]), 0.5)])

    return like


@pytest.mark.parametrize("garbage", [0.0, 1e6, np.nan, np.inf])
@pytest.mark.parametrize("core", [NoCore, LSTMCore])
@pytest.mark.parametrize("action_space", [Discrete(3), Box(-1, 1, (2,))])
def test_three_rows_of_garbage_change_nothing(scripted, garbage, core, action_space, monkeypatch):
    for changes in ({}, {"normalize_rewards": True, "vtrace_rho_clip": None, "vtrace_c_clip": None}):
        without, rows = trained(scripted, None, core, action_space, monkeypatch, **changes)
        got, rows_with = trained(scripted, garbage, core, action_space, monkeypatch, **changes)
        torch.testing.assert_close(got, without, rtol=1e-4, atol=1e-6)
        for row, row_with in zip(rows, rows_with, strict=True):
            for name, value in row.items():
                torch.testing.assert_close(row_with[name], value, rtol=1e-3, atol=1e-5)


def test_dead_rows_are_drawn_by_no_priority(scripted, monkeypatch):
    vector = with_garbage(scripted, np.nan, Discrete(3))
    cfg = train_config(horizon=4, minibatch_size=32)
    _, collector, update = learner(vector, cfg)
    batch = collector.collect()
    drawn = [
        n for _ in range(20) for n in next(update._minibatches(batch, torch.ones(4, 8), 0.0))[0].tolist()
    ]
    assert set(drawn) == set(range(LIVING))


@pytest.mark.parametrize("step", [0, 1, 2])
def test_an_agent_that_dies_is_worth_nothing_whatever_its_row_holds(scripted, accumulator, step):
    class Dies(scripted):
        def _observe(self):
            super()._observe()
            if self.t > step:
                self.observations[1] = np.nan

    vector = Dies(2, terminate={(step, 1)}, dead={(t, 1) for t in range(step + 1, 9)})
    experience = Collector(vector, accumulator(), 3, CPU).collect()
    assert experience.next_values[step, 1] == 0
    assert experience.values[experience.masks].isfinite().all()
    assert experience.next_values[experience.masks].isfinite().all()
