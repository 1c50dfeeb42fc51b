"""A random player and a skilful one score what the specification measured of them."""

import math

import numpy as np
import pytest

import ocean_numba


def play(env, choose, episodes_each):
    """Return and length of the first episodes of every environment, (N, episodes_each) each."""
    n = env.num_envs
    returns, lengths = np.zeros((n, episodes_each)), np.zeros((n, episodes_each))
    counts, total, ticks = np.zeros(n, int), np.zeros(n), np.zeros(n)
    while counts.min() < episodes_each:
        env.step(choose(env.observations))
        total += env.rewards
        ticks += 1
        rows = np.flatnonzero(env.terminations | env.truncations)
        kept = rows[counts[rows] < episodes_each]
        returns[kept, counts[kept]], lengths[kept, counts[kept]] = total[kept], ticks[kept]
        counts[rows] += 1
        total[rows], ticks[rows] = 0, 0
    return returns, lengths


def random_player(env, seed):
    rng, space = np.random.default_rng(seed), env.single_action_space
    if hasattr(space, "n"):
        return lambda observations: rng.integers(0, space.n, env.num_envs)
    return lambda observations: rng.uniform(-1, 1, (env.num_envs, 1)).astype(np.float32)


# name, parameters, episodes of each of 1024 environments, then what was measured of the original: how many
# episodes, mean and standard deviation of their return and of their length in steps.
RANDOM = [
    ("Breakout", {}, 30, 113_582, (0.807, 1.09), (139.1 + 0.375, 32.9)),
    ("Breakout", {"frameskip": 1}, 6, 24_962, (0.049, None), (467, None)),
    ("Breakout", {"continuous": True}, 20, 79_231, (0.292, None), (492 / 4 + 0.375, None)),
    ("Cartpole", {}, 200, 1_091_933, (21.34, 11.84), (22.34, 11.84)),
    ("Cartpole", {"continuous": True}, 100, 1_063_243, (27.13, None), (28.13, None)),
    ("Pong", {"frameskip": 8}, 20, 77_748, (-20.20, 0.28), (200.6, 32.8)),
    ("Squared", {}, 100, 568_668, (-0.776, None), (28.0, None)),
]


@pytest.mark.parametrize(("name", "params", "episodes", "measured", "returned", "lasted"), RANDOM)
def test_a_random_player(name, params, episodes, measured, returned, lasted):
    # The frames that are left of a step when an episode ends, 1.5 of 4 in the mean, count in no episode here
    # but in the next one in the original: hence the 0.375 steps.
    env = getattr(ocean_numba, name)(num_envs=1024, **params)
    env.reset(1)
    played = play(env, random_player(env, 2), episodes)
    for ours, (mean, deviation), rounding in zip(played, (returned, lasted), (0.005, 0.05), strict=True):
        assert deviation is None or ours.std() == pytest.approx(deviation, rel=0.05)
        error = ours.std() * math.sqrt(1 / ours.size + 1 / measured)
        print(name, params, ours.mean(), mean, error, ours.std(), (ours.mean() - mean) / error)
        assert abs(ours.mean() - mean) < 3 * error + rounding, (
            print(name, params, ours.mean(), mean, error, ours.std()),
        )


def test_random_squared_players_succeed_as_often_as_measured():
    env = ocean_numba.Squared(num_envs=1024)
    env.reset(1)
    returns, _ = play(env, random_player(env, 3), 40)
    assert (returns > 0).mean() == pytest.approx(
        0.112, abs=3 * math.sqrt(0.112 * 0.888 / returns.size) + 0.0005
    )


def breakout_oracle(observations):
    offset = observations[:, 2] * 576 + 16 - (observations[:, 0] * 576 + observations[:, 9] * 31)
    return np.where(offset < -10, 1, np.where(offset > 10, 2, 0))


def test_the_breakout_oracle_nearly_always_breaks_both_walls():
    env = ocean_numba.Breakout(num_envs=64)
    env.reset(1)
    returns, _ = play(env, breakout_oracle, 2)
    # 857 in the original, whose ball may leave the paddle level and get stuck.
    assert 855 < returns.mean() <= 864
    assert env.drain()["perf"] > 0.99


def test_the_breakout_oracle_with_frameskip_1_always_does():
    env = ocean_numba.Breakout(num_envs=32, frameskip=1)
    env.reset(1)
    returns, lengths = play(env, breakout_oracle, 1)
    assert (returns == 864).all()
    assert lengths.mean() == pytest.approx(15_600, rel=0.05)


def pong_oracle(dead_band):
    def choose(observations):
        offset = 640 * observations[:, 3] + 16 - 640 * observations[:, 1]
        return np.where(offset > dead_band, 1, np.where(offset < -dead_band, 2, 0))

    return choose


@pytest.mark.parametrize(
    ("frameskip", "dead_band", "score", "steps", "returned", "tolerance"),
    [(8, 8, 21, 735, 27.3, 1e-9), (1, 8, 21, 31_600, 54.5, 0.02), (8, 32, -21, 3_623, 8.6, 0.25)],
)
def test_the_pong_oracle(frameskip, dead_band, score, steps, returned, tolerance):
    env = ocean_numba.Pong(num_envs=8, frameskip=frameskip)
    env.reset(1)
    returns, lengths = play(env, pong_oracle(dead_band), 1)
    drained = env.drain()
    assert (drained["score"], drained["perf"]) == (score, score > 0)
    # The first of these is met exactly; the others begin a round in the original with a stale observation.
    assert lengths.mean() == pytest.approx(steps, rel=tolerance)
    assert returns.mean() == pytest.approx(returned, rel=tolerance, abs=1e-5)


def test_the_cartpole_oracle_never_falls():
    env = ocean_numba.Cartpole(num_envs=512)
    env.reset(1)

    def balance(o):
        return (o[:, 2] + 0.3 * o[:, 3] + 0.05 * o[:, 1] + 0.02 * o[:, 0] > 0).astype(int)

    _, lengths = play(env, balance, 3)
    assert (lengths == 200).all()
    assert env.drain()["perf"] == 1


def test_the_squared_oracle_takes_the_shortest_way():
    env = ocean_numba.Squared(num_envs=1024)
    env.reset(1)

    def walk(observations):
        agent, target = np.argmax(observations == 1, axis=1), np.argmax(observations == 2, axis=1)
        rows, columns = target // 11 - agent // 11, target % 11 - agent % 11
        sideways = np.where(columns > 0, 4, np.where(columns < 0, 3, 0))
        return np.where(rows > 0, 1, np.where(rows < 0, 2, sideways))

    targets = np.argmax(env.observations == 2, axis=1)
    returns, lengths = play(env, walk, 8)
    assert (returns == 1).all()
    assert np.array_equal(lengths[:, 0], np.abs(targets // 11 - 5) + np.abs(targets % 11 - 5))
    assert lengths.mean() == pytest.approx(5.5, abs=0.1)
