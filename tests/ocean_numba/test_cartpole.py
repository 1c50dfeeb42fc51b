"""Cartpole rule by rule, its invariants, and every transition against a second version of its equations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocean_numba

FIELDS = ("x", "x_rate", "angle", "angle_rate")
LIMIT = 12 * math.pi / 180


def put(env, *values):
    for field, value in zip(FIELDS, values, strict=True):
        env._states[field] = value


def reference(x, v, theta, omega, force):
    cos, sin = math.cos(theta), math.sin(theta)
    temp = (force + 0.05 * omega**2 * sin) / 1.1
    alpha = (9.8 * sin - cos * temp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    a = temp - 0.05 * alpha * cos / 1.1
    return x + 0.02 * v, v + 0.02 * a, theta + 0.02 * omega, omega + 0.02 * alpha


def test_episodes_begin_nearly_upright(make):
    env = make("Cartpole", 4000)
    assert np.abs(env.observations).max() <= np.float32(0.04)
    assert np.abs(env.observations).max(axis=0) == pytest.approx(np.full(4, 0.04), abs=1e-3)
    assert env.observations.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.002)
    assert np.array_equal(env.observations, np.stack([env._states[f] for f in FIELDS], 1).astype(np.float32))


def test_one_step_by_hand(make):
    env = make("Cartpole")
    put(env, 0, 0, 0, 0)
    env.step([1])
    # temp = 10 / 1.1, alpha = -temp / (0.5 (4/3 - 0.1/1.1)), a = temp + 0.05 alpha' / 1.1
    temp = 10 / 1.1
    alpha = -temp / (0.5 * (4 / 3 - 1 / 11))
    rates = [0.02 * (temp - 0.05 * alpha / 1.1), 0.02 * alpha]
    assert env.observations[0] == pytest.approx([0, rates[0], 0, rates[1]], abs=1e-7)
    assert rates == pytest.approx([0.1951, -0.2927], abs=1e-4)
    assert env.rewards[0] == 1


@given(st.integers(0, 2**32), st.booleans(), st.integers(1, 250))
def test_invariants_and_every_transition(seed, continuous, max_steps):
    env = ocean_numba.Cartpole(num_envs=8, continuous=continuous, max_steps=max_steps)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    returns, lengths = np.zeros(8), np.zeros(8)
    for _ in range(60):
        before = np.stack([env._states[f] for f in FIELDS], 1)
        pushes = rng.uniform(-1.3, 1.3, 8).astype(np.float32)
        actions = pushes[:, None] if continuous else (pushes > 0).astype(int)
        forces = 10 * np.clip(pushes.astype(float), -1, 1) if continuous else 10 * np.sign(pushes)
        env.step(actions)
        lengths += 1
        ended = env.terminations | env.truncations
        expected = np.array([reference(*row, f) for row, f in zip(before, forces, strict=True)])
        shown = np.where(ended[:, None], env.final_observations, env.observations)
        assert shown == pytest.approx(expected, abs=1e-6)
        failed = (np.abs(expected[:, 0]) > 2.4) | (np.abs(expected[:, 2]) > LIMIT)
        assert np.array_equal(env.terminations, failed)
        assert np.array_equal(env.truncations, (lengths >= max_steps) & ~failed)
        assert np.array_equal(env.rewards, ~ended)
        returns += env.rewards
        assert np.array_equal(returns[ended], lengths[ended] - 1)
        assert (np.abs(env.observations[ended]) <= np.float32(0.04)).all()
        assert (env._states["tick"] < max_steps).all()
        assert (np.abs(env._states["x"]) <= 2.4).all()
        assert (np.abs(env._states["angle"]) <= LIMIT).all()
        returns[ended], lengths[ended] = 0, 0


@given(st.tuples(*[st.floats(-0.2, 0.2)] * 4), st.floats(-1, 1, width=32))
def test_a_mirrored_state_and_action_have_a_mirrored_result(values, push):
    env = ocean_numba.Cartpole(num_envs=2, continuous=True)
    env.reset(1)
    for field, value in zip(FIELDS, values, strict=True):
        env._states[field] = value, -value
    env.step(np.array([[push], [-push]], np.float32))
    assert env.observations[0] == pytest.approx(-env.observations[1], abs=1e-7)


@pytest.mark.parametrize(
    ("values", "ended_by"),
    [
        ((2.39, 2, 0, 0), "x_threshold_termination"),
        ((-2.39, -2, 0, 0), "x_threshold_termination"),
        ((0, 0, 0.2, 1), "pole_angle_termination"),
        ((0, 0, -0.2, -1), "pole_angle_termination"),
    ],
)
def test_ends(make, values, ended_by):
    env = make("Cartpole")
    put(env, *values)
    env.step([1])
    assert (env.terminations[0], env.truncations[0], env.rewards[0]) == (True, False, 0)
    drained = env.drain()
    assert drained.pop(ended_by) == 1
    expected = {"episodes": 1, "episode_return": 0, "episode_length": 1, "score": 1, "perf": 1 / 200}
    ends = ("x_threshold_termination", "pole_angle_termination", "max_steps_termination")
    assert drained == expected | {end: 0 for end in ends if end != ended_by}


def test_exactly_on_the_limit_is_still_inside(make):
    env = make("Cartpole")
    put(env, 2.4, 0, 0, 0)
    env.step([1])
    assert not env.terminations[0]


def test_an_end_at_the_time_limit_is_a_termination_only(make):
    env = make("Cartpole", max_steps=1)
    put(env, 2.39, 2, 0, 0)
    env.step([1])
    assert (env.terminations[0], env.truncations[0]) == (True, False)
    drained = env.drain()
    assert (drained["x_threshold_termination"], drained["max_steps_termination"], drained["perf"]) == (
        1,
        1,
        1,
    )
