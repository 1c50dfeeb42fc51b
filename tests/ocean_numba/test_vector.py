"""The engine's own promises: buffers in place, same-step reset, final observations, statistics once."""

import numpy as np
import pytest

import ocean_numba

BUFFERS = ("observations", "rewards", "terminations", "truncations", "final_observations", "masks")


def play(env, random_actions, steps, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        env.step(random_actions(env, rng))
        yield env.terminations | env.truncations


def test_the_buffers_are_allocated_once_and_typed(any_name, make, random_actions):
    env = make(any_name, 6)
    addresses = [getattr(env, buffer).ctypes.data for buffer in BUFFERS]
    list(play(env, random_actions, 40))
    env.reset(2)
    assert [getattr(env, buffer).ctypes.data for buffer in BUFFERS] == addresses
    space = env.single_observation_space
    for observations in (env.observations, env.final_observations):
        assert (observations.shape, observations.dtype) == ((6, *space.shape), space.dtype)
    assert [getattr(env, b).dtype for b in BUFFERS[1:4]] == [np.float32, np.bool_, np.bool_]
    assert env.masks.all()
    assert env.num_agents == env.num_envs == 6


def test_an_end_is_followed_by_the_first_observation_in_the_same_step(name, make, random_actions):
    env, seen = make(name, 64), 0
    for ended in play(env, random_actions, 400):
        for i in np.flatnonzero(ended):
            seen += 1
            assert env._states["tick"][i] == 0
            assert env._states["episode_return"][i] == 0
            assert not np.array_equal(env.final_observations[i], env.observations[i])
    assert seen > 30 or name == "Pong"


def test_reset_clears_rewards_flags_and_statistics(name, make, random_actions):
    env = make(name, 64)
    rewarded = False
    for ended in play(env, random_actions, 400):
        rewarded = rewarded or env.rewards.any()
        if ended.any():
            break
    assert rewarded or name in ("Breakout", "Pong")
    env.reset(3)
    assert not env.rewards.any()
    assert not (env.terminations | env.truncations).any()
    assert env.drain() == {"episodes": 0}


def test_a_flag_stands_for_one_step_only(make):
    env = make("Cartpole", 3, max_steps=2)
    flags = []
    for _ in range(6):
        env.step([0, 1, 0])
        flags.append(env.truncations.tolist())
    assert flags == [[False] * 3, [True] * 3] * 3


def test_statistics_are_drained_once(any_name, make, random_actions):
    env = make(any_name, 32)
    rng, returns, lengths, ended_returns, ended_lengths = np.random.default_rng(0), 0, 0, [], []
    returns, lengths = np.zeros(32), np.zeros(32)
    for _ in range(600):
        env.step(random_actions(env, rng))
        returns += env.rewards
        lengths += 1
        ended = env.terminations | env.truncations
        ended_returns += returns[ended].tolist()
        ended_lengths += lengths[ended].tolist()
        returns[ended], lengths[ended] = 0, 0
    drained = env.drain()
    assert drained["episodes"] == len(ended_returns)
    if ended_returns:
        assert drained["episode_return"] == pytest.approx(np.mean(ended_returns), abs=1e-5)
        assert drained["episode_length"] == pytest.approx(np.mean(ended_lengths))
        assert list(drained)[3:5] == ["score", "perf"]
        assert 0 <= drained["perf"] <= 1
    assert env.drain() == {"episodes": 0}


def test_statistics_row_by_row_add_up(make, random_actions):
    whole, rows = (make("Squared", 8, 3) for _ in range(2))
    for env in (whole, rows):
        list(play(env, random_actions, 200))
    drained, (counts, sums) = whole.drain(), rows.drain_rows()
    assert counts.shape == sums["score"].shape == (8,)
    assert counts.sum() == drained.pop("episodes")
    assert {name: row.sum() / counts.sum() for name, row in sums.items()} == pytest.approx(drained)
    assert not rows.drain_rows()[0].any()


def test_begin_episodes_in_some_environments_only(make, random_actions):
    env = make("Breakout", 4)
    list(play(env, random_actions, 30))
    before = env._states.copy()
    chosen = np.array([False, True, False, True])
    env.begin_episodes(chosen)
    assert np.array_equal(env._states[~chosen], before[~chosen])
    assert (env._states["tick"][chosen] == 0).all()
    assert np.array_equal(env._states["rng_counter"], before["rng_counter"])
    env.begin_episodes(chosen, [1, 2, 3, 4])
    assert (env._states["rng_counter"][chosen] == 0).all()
    assert env.drain() == {"episodes": 0}


def test_reset_without_a_seed_goes_on_with_the_streams(make):
    one, other = make("Squared", 8, 5), make("Squared", 8, 5)
    one.reset()
    assert not np.array_equal(one.observations, other.observations)
    other.reset()
    assert np.array_equal(one.observations, other.observations)


def test_the_first_reset_without_a_seed_draws_one():
    boards = []
    for _ in range(2):
        env = ocean_numba.Squared(num_envs=64)
        env.reset()
        boards.append(env.observations.copy())
    assert not np.array_equal(*boards)


def test_the_signature_lists_the_parameters():
    import inspect

    names = list(inspect.signature(ocean_numba.Cartpole).parameters)
    assert names == ["num_envs", "num_threads", "continuous", "max_steps"]


def test_every_environment_is_listed():
    assert dir(ocean_numba) == sorted(dir(ocean_numba))
    assert {"Breakout", "Cartpole", "Pong", "Squared"} <= set(dir(ocean_numba))
    with pytest.raises(AttributeError, match="no environment 'Brakeout'; it has Breakout, "):
        ocean_numba.Brakeout  # noqa: B018


def test_goes_on_from_a_saved_state_as_if_nothing_had_been(any_name, make, random_actions):
    def follow(env):
        return [
            (env.observations.copy(), env.rewards.copy(), ended)
            for ended in play(env, random_actions, 150, 3)
        ]

    one, other = make(any_name, 16, 1), make(any_name, 16, 2)
    list(play(one, random_actions, 70))
    saved = one.state_dict()
    kept = {key: value.copy() for key, value in saved.items() if key != "layout"}
    wanted = follow(one)
    assert all(np.array_equal(saved[key], value) for key, value in kept.items())
    buffer = other.observations
    other.load_state_dict(saved)
    assert other.observations is buffer
    for mine, theirs in zip(follow(other), wanted, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert other.drain() == one.drain()


def test_the_state_of_another_vector_is_refused(make):
    saved = make("Squared", 8).state_dict()
    for other in (make("Squared", 9), make("Squared", 8, size=5), make("Pong", 8)):
        with pytest.raises(ValueError, match="the state is that of 8 x Squared"):
            other.load_state_dict(saved)
