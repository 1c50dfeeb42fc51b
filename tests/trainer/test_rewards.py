"""Rewards as the learner sees them, against NumPy's deviation of all returns so far."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_update import train_config

from puffertoolkit.trainer.experience import Experience
from puffertoolkit.trainer.rewards import RewardShaper

CPU = torch.device("cpu")


def rollout(rewards, ends, masks):
    horizon, agents = rewards.shape
    experience = Experience.allocate(horizon, torch.zeros(agents, 1), torch.zeros(agents), (), CPU)
    experience.rewards.copy_(torch.from_numpy(rewards))
    experience.ends.copy_(torch.from_numpy(ends))
    experience.masks.copy_(torch.from_numpy(masks))
    return experience


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), horizons=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_scaled_by_the_deviation_of_all_returns_so_far(seed, horizons):
    rng = np.random.default_rng(seed)
    shaper = RewardShaper(train_config(normalize_rewards=True, gamma=0.9), 3, CPU)
    running, seen = np.zeros(3), []
    for horizon in horizons:
        rewards = rng.normal(5, 20, (horizon, 3)).astype(np.float32)
        ends, masks = rng.random((horizon, 3)) < 0.3, rng.random((horizon, 3)) < 0.8
        dirty = np.where(masks, rewards, np.nan)
        for t in range(horizon):
            running = 0.9 * running + np.where(masks[t], rewards[t], 0)
            seen += list(running[masks[t]])
            running = np.where(ends[t], 0, running)
        experience = rollout(dirty, ends, masks)
        shaper.apply(experience)
        if len(seen) > 1 and np.std(seen) > 1e-2:
            wanted = (rewards / np.sqrt(np.var(seen) + 1e-8))[masks]
            np.testing.assert_allclose(experience.rewards.numpy()[masks], wanted, rtol=1e-4)


def test_clamped_after_scaling():
    rewards, flags = np.float32([[-5, 0.1, 5]]), np.zeros((1, 3), bool)
    experience = rollout(rewards, flags, ~flags)
    RewardShaper(train_config(reward_clip=0.5), 3, CPU).apply(experience)
    assert experience.rewards.tolist() == [[-0.5, pytest.approx(0.1), 0.5]]
    experience = rollout(rewards, flags, ~flags)
    RewardShaper(train_config(reward_clip=0.5, normalize_rewards=True), 3, CPU).apply(experience)
    assert experience.rewards[0].tolist() == pytest.approx([-0.5, 0.1 / np.std(rewards), 0.5], rel=1e-4)


def test_untouched_unless_asked():
    rewards, flags = np.float32([[-500, 0.1, 5]]), np.zeros((1, 3), bool)
    experience = rollout(rewards, flags, ~flags)
    RewardShaper(train_config(), 3, CPU).apply(experience)
    assert np.array_equal(experience.rewards.numpy(), rewards)


def test_goes_on_from_its_saved_state():
    rng = np.random.default_rng(0)
    cfg = train_config(normalize_rewards=True)
    one, two = RewardShaper(cfg, 3, CPU), RewardShaper(cfg, 3, CPU)
    flags = np.zeros((4, 3), bool)
    one.apply(rollout(rng.normal(size=(4, 3)).astype(np.float32), flags, ~flags))
    two.load_state_dict(one.state_dict())
    rewards = rng.normal(size=(4, 3)).astype(np.float32)
    scaled = [rollout(rewards, flags, ~flags) for _ in range(2)]
    one.apply(scaled[0])
    two.apply(scaled[1])
    assert torch.equal(scaled[0].rewards, scaled[1].rewards)
