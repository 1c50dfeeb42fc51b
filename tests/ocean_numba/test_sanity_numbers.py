"""What random and skilful players reach in the sanity environments, and what always holds in them."""

import time

import numpy as np
import pytest

from ocean_numba import sanity
from ocean_numba.registration import find_class, names_in


def at_random(env, rng):
    if hasattr(env.single_action_space, "n"):
        return rng.integers(0, env.single_action_space.n, env.num_agents)
    return rng.uniform(-1, 1, (env.num_agents, 2)).astype(np.float32)


def play(name, choose, episodes, seed=0, num_envs=1000, **params):
    """Means over the first so many episodes of every environment, which all count, short ones or long."""
    env = find_class(name)(num_envs=num_envs, **params)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    wanted = -(-episodes // num_envs)
    counts = np.zeros(env.num_agents)
    totals: dict[str, float] = {}
    while (counts < wanted).any():
        counted = counts < wanted
        env.step(choose(env, rng))
        ended, sums = env.drain_rows()
        for key, values in sums.items():
            totals[key] = totals.get(key, 0) + values[counted].sum()
        counts += ended
    return {key: total / (wanted * env.num_agents) for key, total in totals.items()}


# Measured in the original: (score, return, length), and how far a mean may be from them. Bandit's return is
# its score here, since its noise has the mean 0.
RANDOM = [
    ("Bandit", {}, (0.0992, 0.0992, 1), (0.01, 0.03)),
    ("Memory", {}, (0.2547, 1.508, 5), (0.015, 0.03)),
    ("Memory", {"mem_length": 1, "mem_delay": 0}, (0.498, 0.498, 1), (0.015, 0.015)),
    ("Password", {}, (0.033, 0.033, 5), (0.006, 0.006)),
    ("SquaredPy", {}, (0.0093, -0.238, 3), (0.004, 0.02)),
    ("SquaredPy", {"distance_to_target": 1, "num_targets": 4}, (0.413, 1.274, 4), (0.01, 0.04)),
    ("Stochastic", {}, (0.9577, 45.95, 100), (0.002, 0.6)),
    ("Continuous", {}, (0.0388, -0.771, 8.2), (0.009, 0.06)),
    ("Continuous", {"discretize": True}, (0.0366, -0.785, 7.2), (0.009, 0.06)),
    ("Multiagent", {}, (0.4975, 0.4975, 1), (0.01, 0.01)),
]


@pytest.mark.parametrize(("name", "params", "measured", "tolerance"), RANDOM)
def test_a_random_player(name, params, measured, tolerance):
    score, total, length = measured
    found = play(name, at_random, 5000 if name in ("Stochastic", "Continuous") else 20_000, **params)
    assert found["score"] == pytest.approx(score, abs=tolerance[0])
    assert found["episode_return"] == pytest.approx(total, abs=tolerance[1])
    assert found["episode_length"] == pytest.approx(length, abs=0.25 if name == "Continuous" else 0)
    if name != "Stochastic":
        assert found["perf"] == found["score"]


# Measured in the original for p = 0.7 and 100 steps: probability of action 0, return, score.
STATIONARY = [
    (0, 0.0, 0.510),
    (0.5, 45.9, 0.958),
    (0.55, 50.3, 0.975),
    (0.60, 52.5, 0.987),
    (0.62, 52.6, 0.991),
    (0.64, 51.4, 0.994),
    (0.66, 49.9, 0.996),
    (0.68, 45.8, 0.997),
    (0.70, 42.4, 0.998),
    (0.72, 37.2, 0.998),
    (0.75, 30.8, 0.996),
    (1, 0.0, 0.910),
]


@pytest.mark.parametrize(("zeros", "total", "score"), STATIONARY)
def test_what_a_policy_without_memory_gets_in_stochastic(zeros, total, score):
    found = play("Stochastic", lambda env, rng: (rng.random(env.num_agents) >= zeros).astype(int), 3000)
    assert found["episode_return"] == pytest.approx(total, abs=1.5)
    assert found["score"] == pytest.approx(score, abs=0.0015)
    assert found["action_0"] == pytest.approx(zeros, abs=0.005)


def test_the_best_of_them_in_a_long_episode_of_stochastic():
    def zeros_at(part):
        return lambda env, rng: (rng.random(env.num_agents) >= part).astype(int)

    found = play("Stochastic", zeros_at(0.70), 400, num_envs=400, p=0.75, horizon=1000)
    assert found["episode_return"] == pytest.approx(670, abs=15)


def known_arm(env, rng):
    return np.full(env.num_agents, {10: 6, 4: 2}[env.params.num_actions])


def known_password(env, rng):
    guessed = (env.observations >= 0).sum(axis=1)
    return np.array([0, 1, 0, 0, 0])[guessed]


def remembered(env, rng):
    """Play 0 while bits are shown, then say what was seen; written over its own observations."""
    tick, length = env._states["tick"], env.params.mem_length
    if not hasattr(env, "seen"):
        env.seen = np.zeros((env.num_agents, length), int)
    now = int(tick[0])
    if now < length:
        env.seen[:, now] = env.observations[:, 0]
    answer = now + 1 - length - env.params.mem_delay
    return env.seen[:, answer].copy() if answer >= 0 else np.zeros(env.num_agents, int)


def towards_the_nearest(env, rng):
    codes = {change: k for k, change in enumerate(((0, -1), (0, 1), (-1, 0), (1, 0), (1, -1), (-1, -1)))}
    codes |= {(1, 1): 6, (-1, 1): 7}
    actions = []
    for grid in env.observations:
        agent = np.argwhere(grid == -1)[0]
        ways = np.argwhere(grid == 1) - agent
        nearest = ways[np.abs(ways).max(axis=1).argmin()]
        actions.append(codes[tuple(np.sign(nearest).tolist())])
    return np.array(actions)


def keep_the_proportion(env, rng):
    """0 if the part of zeros would stay below p, else 1."""
    zeros, steps = env._states["zeros"] + 1, env._states["tick"] + 1
    return (zeros / steps >= env.params.p).astype(int)


def steer(env, rng):
    o = env.observations
    wish = 3 * (o[:, 4:] - o[:, :2]) - 6 * o[:, 2:4]
    if not env.params.discretize:
        return np.clip(wish, -1, 1)
    axis = np.abs(wish).argmax(axis=1)
    return 2 * axis + (wish[np.arange(len(wish)), axis] > 0)


def say_who_you_are(env, rng):
    return env.observations[:, 0].astype(int)


# Score and return of players who know how: exact, or measured in the original; how far a mean may differ.
SKILLED = [
    ("Bandit", {}, known_arm, (1, 1), (0, 0.05)),
    ("Bandit", {"num_actions": 4, "reward_scale": 3}, known_arm, (1, 3), (0, 0.15)),
    ("Memory", {}, remembered, (1, 3), (0, 0)),
    ("Memory", {"mem_length": 4, "mem_delay": 0}, remembered, (1, 7), (0, 0)),
    ("Memory", {"mem_length": 1, "mem_delay": 3}, remembered, (1, 1), (0, 0)),
    ("Password", {}, known_password, (1, 1), (0, 0)),
    ("SquaredPy", {}, towards_the_nearest, (1, 2), (0, 1e-6)),
    ("SquaredPy", {"num_targets": -1}, towards_the_nearest, (1, None), (0, None)),
    ("SquaredPy", {"distance_to_target": 2, "num_targets": 16}, towards_the_nearest, (1, None), (0, None)),
    ("Stochastic", {}, keep_the_proportion, (0.9999, 68.9), (1e-4, 0.1)),
    ("Continuous", {}, steer, (0.967, 4.83), (0.009, 0.06)),
    ("Continuous", {"discretize": True}, steer, (0.925, 4.59), (0.013, 0.09)),
    ("Multiagent", {}, say_who_you_are, (1, 1), (0, 0)),
]


@pytest.mark.parametrize(("name", "params", "choose", "wanted", "tolerance"), SKILLED)
def test_a_skilled_player(name, params, choose, wanted, tolerance):
    if name == "SquaredPy":
        found = play(name, choose, 200, num_envs=100, **params)
    else:
        found = play(name, choose, 5000, **params)
    assert found["score"] == pytest.approx(wanted[0], abs=tolerance[0])
    if wanted[1] is not None:
        assert found["episode_return"] == pytest.approx(wanted[1], abs=tolerance[1])
    if name == "Continuous":
        length = 5.7 if params else 4.7
        assert found["episode_length"] == pytest.approx(length, abs=0.2)


def follow(name, steps, seed=3, num_envs=64, **params):
    """A random player, step by step: the environment, who ended, and lengths and returns of the episodes."""
    env = find_class(name)(num_envs=num_envs, **params)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    lengths, returns = np.zeros(num_envs), np.zeros(num_envs)
    for _ in range(steps):
        env.step(at_random(env, rng))
        lengths += 1
        returns += env.rewards
        ended = env.terminations | env.truncations
        yield env, ended, lengths.copy(), returns.copy()
        lengths[ended], returns[ended] = 0, 0


def test_lengths_and_bounds_of_continuous():
    for env, ended, lengths, returns in follow("Continuous", 500):
        assert (lengths <= 100).all()
        assert (np.abs(env.observations[:, [0, 1, 4, 5]]) <= 1).all()
        assert (returns[ended] <= 5 + 0.02 * 99).all()


def test_memory_pays_for_what_is_right():
    scores = []
    for env, ended, _, returns in follow("Memory", 200, mem_length=3, mem_delay=2):
        score = env.drain_rows()[1]["score"]
        assert ((returns >= 0) & (returns <= 5)).all()
        assert (returns[(score == 1) & ended] >= 3).all()
        scores += score[ended].tolist()
    assert {0, 1} == set(scores)


def test_password_tells_how_many_bits_were_guessed():
    for env, ended, lengths, _ in follow("Password", 100):
        assert np.array_equal(ended, lengths == 5)
        known = (env.observations != -1).sum(axis=1)
        assert np.array_equal(known, np.where(ended, 0, lengths))
        assert not env.rewards[~ended].any()
        assert (env.final_observations[ended] >= 0).all()


@pytest.mark.parametrize("targets", [1, 7, 24])
def test_squared_py_shows_one_agent_and_the_targets_left(targets):
    for env, ended, lengths, _ in follow("SquaredPy", 300, num_targets=targets):
        grids = env.observations.reshape(len(ended), -1)
        assert ((grids == -1).sum(axis=1) == 1).all()
        assert np.array_equal((grids == 1).sum(axis=1), targets - env._states["hits"])
        assert np.array_equal(ended, lengths == 3 * targets)
        assert (np.abs(env.rewards) <= 1).all()


def test_stochastic_is_truncated_and_its_score_follows_from_the_fraction():
    for env, ended, lengths, _ in follow("Stochastic", 250):
        assert ((env.rewards >= 0) & (env.rewards <= 1)).all()
        assert np.array_equal(env.truncations, lengths == 100)
        assert not env.terminations.any()
        if ended.any():
            sums = env.drain_rows()[1]
            assert sums["score"] == pytest.approx(1 - (0.7 - sums["action_0"]) ** 2)


def test_agents_exchanged_score_nothing_in_multiagent():
    def exchanged(env, rng):
        return env.observations[:, 0].reshape(-1, 2)[:, ::-1].reshape(-1).astype(int)

    assert play("Multiagent", exchanged, 10)["score"] == 0


def test_the_noise_of_bandit_is_new_every_time():
    env = sanity.Bandit(num_envs=20_000, reward_noise=0.5, reward_scale=4)
    env.reset(1)
    env.step(np.full(20_000, 6))
    first = env.rewards / 4 - 1
    env.step(np.full(20_000, 5))
    second = env.rewards / 4
    # The winning arm pays `reward_scale` more than another.
    for noise in (first, second):
        assert noise.mean() == pytest.approx(0, abs=0.015)
        assert noise.std() == pytest.approx(0.5, abs=0.012)
        assert np.mean(np.abs(noise) < 0.5) == pytest.approx(0.6827, abs=0.015)
        assert np.mean(noise**4) / noise.std() ** 4 == pytest.approx(3, abs=0.25)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0, abs=0.03)


def test_secrets_are_the_same_for_everybody_and_follow_from_their_seed():
    def arms(**params):
        env = sanity.Bandit(num_envs=10, reward_noise=0, **params)
        paid = []
        for seed in (1, 2):
            env.reset(seed)
            env.step(np.arange(10))
            paid.append(np.flatnonzero(env.rewards).tolist())
        return paid

    assert arms() == [[6], [6]]
    assert len({tuple(arms(hard_fixed_seed=seed)[0]) for seed in range(20)}) > 5
    assert sanity.Password.Params().bits() == [0, 1, 0, 0, 0]
    assert len({tuple(sanity.Password.Params(hard_fixed_seed=seed).bits()) for seed in range(20)}) > 5


def test_nobody_touches_the_global_generator():
    before = np.random.get_state()[1].copy()
    for name in names_in("sanity").values():
        env = find_class(name)(num_envs=2)
        env.reset(1)
        env.step(at_random(env, np.random.default_rng(0)))
    assert np.array_equal(np.random.get_state()[1], before)


def test_targets_of_squared_py_are_uniform_over_the_border():
    env = sanity.SquaredPy(num_envs=8000, num_targets=5)
    env.reset(2)
    counts = (env.observations == 1).sum(axis=0)
    assert not counts[1:-1, 1:-1].any()
    border = np.concatenate([counts[0], counts[-1], counts[1:-1, 0], counts[1:-1, -1]])
    assert border.shape == (24,)
    expected = 8000 * 5 / 24
    assert np.abs(border - expected).max() < 5 * np.sqrt(expected)
    # Drawn without regard to each other: pairs are as frequent as they should be.
    shown = (env.observations == 1).reshape(8000, -1)[:, counts.reshape(-1) > 0].astype(float)
    together = (shown.T @ shown)[~np.eye(24, dtype=bool)]
    expected = 8000 * 5 * 4 / (24 * 23)
    assert np.abs(together - expected).max() < 6 * np.sqrt(expected)


def test_continuous_begins_anywhere():
    env = sanity.Continuous(num_envs=8000)
    env.reset(2)
    assert not env.observations[:, 2:4].any()
    for column in (0, 1, 4, 5):
        counts = np.histogram(env.observations[:, column], 10, (-1, 1))[0]
        assert np.abs(counts - 800).max() < 5 * np.sqrt(800)


@pytest.mark.parametrize("name", ["Performance", "PerformanceEmpiric"])
def test_performance_shows_the_same_numbers_for_ever(name):
    env = find_class(name)(num_envs=300, bandwidth=7)
    env.reset(1)
    first = env.observations.copy()
    assert len(np.unique(first)) == first.size
    assert np.abs(first).max() == pytest.approx(2**20, rel=0.01)
    for _ in range(200):
        env.step(np.ones(300, int))
        assert not (env.terminations | env.truncations).any()
        assert not env.rewards.any()
    assert np.array_equal(env.observations, first)
    assert env.drain() == {"episodes": 0}


def test_performance_empiric_does_every_round_of_its_work():
    env = sanity.PerformanceEmpiric(num_envs=2, count_n=17)
    env.reset(1)
    value = 0
    for _ in range(5):
        env.step([0, 1])
        for _ in range(17):
            value = ((value ^ value >> 32) * 6364136223846793005 + 1442695040888963407) % 2**64
        assert env._states["work"].tolist() == [value, value]


def thread_seconds(env, steps):
    actions = np.zeros(env.num_envs, int)
    env.step(actions)
    begun = time.thread_time()
    for _ in range(steps):
        env.step(actions)
    return time.thread_time() - begun


def test_performance_burns_the_time_it_was_told_to():
    """The fastest of three: other programs take caches and clock rate away, never the reverse."""
    env = sanity.Performance(num_envs=4, delay_mean=0.001)
    env.reset(1)
    assert 0.06 < min(thread_seconds(env, 20) for _ in range(3)) < 0.16


def test_work_may_vary_and_is_never_negative():
    """A mean of 0 with deviation s is max(0, normal): s / sqrt(2 pi) on average."""
    env = sanity.Performance(num_envs=100, delay_std=0.001)
    env.reset(1)
    expected = 20 * 100 * 0.001 / np.sqrt(2 * np.pi)
    assert 0.6 * expected < thread_seconds(env, 20) < 2 * expected
