"""The sanity environments rule by rule, against plain Python written from the rules alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocean_numba import sanity
from ocean_numba.adapters import make_parallel_env

N = 6
SEEDS = st.integers(0, 2**32)


class Bandit:
    """One step; without noise, which nothing else can know."""

    def __init__(self, params, state):
        self.scale, self.winner = params.reward_scale, {10: 6, 4: 2}[params.num_actions]
        self.observation = [1]

    def step(self, action):
        self.right = float(action == self.winner)
        return self.right * self.scale, True, False

    def statistics(self):
        return {"score": self.right, "perf": self.right}


class Memory:
    """Says bits, then blanks, then asks."""

    def __init__(self, params, state):
        self.bits, self.delay = state["solution"].tolist(), params.mem_delay
        self.t, self.said, self.observation = 1, [], self.bits[:1]

    def step(self, action):
        t, length = self.t, len(self.bits)
        shown, reward = 0, 0
        if t < length:
            shown, reward = self.bits[t], int(action == 0)
        elif t >= length + self.delay:
            self.said.append(action)
            reward = int(action == self.bits[t - length - self.delay])
        self.observation = [shown]
        self.t += 1
        return reward, self.t == 2 * length + self.delay, False

    def statistics(self):
        right = float(self.said == self.bits)
        return {"score": right, "perf": right}


class Password:
    """Writes down guesses."""

    def __init__(self, params, state):
        self.password = np.random.RandomState(params.hard_fixed_seed).randint(0, 2, params.password_length)
        self.guesses = []
        self.observation = [-1] * len(self.password)

    def step(self, action):
        self.guesses.append(action)
        missing = len(self.password) - len(self.guesses)
        self.observation = self.guesses + [-1] * missing
        self.right = float(self.guesses == self.password.tolist())
        return (0.0 if missing else self.right), not missing, False

    def statistics(self):
        return {"score": self.right, "perf": self.right}


class Stochastic:
    """Counts zeros."""

    def __init__(self, params, state):
        self.p, self.horizon = params.p, params.horizon
        self.actions, self.observation = [], [0]

    def step(self, action):
        self.actions.append(action)
        self.f = self.actions.count(0) / len(self.actions)
        self.q = 1 - (self.p - self.f) ** 2
        paid = self.f < self.p if action == 0 else self.f >= self.p
        return (self.q if paid else 0.0), False, len(self.actions) == self.horizon

    def statistics(self):
        return {"score": self.q, "perf": max(0, 1 - 10 * abs(self.p - self.f)), "action_0": self.f}


class Continuous:
    """A point with momentum."""

    def __init__(self, params, state):
        self.discrete, self.ticks = params.discretize, 0
        self.at = np.array([state["x"], state["y"]])
        self.target = np.array([state["target_x"], state["target_y"]])
        self.velocity = np.zeros(2)
        self.look()

    def look(self):
        self.observation = np.concatenate([self.at, self.velocity, self.target])

    def step(self, action):
        if self.discrete:
            push = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])[action]
        else:
            push = np.clip(np.asarray(action, np.float64), -1, 1)
        self.velocity = self.velocity + 0.1 * push
        self.at = self.at + self.velocity
        self.look()
        self.score = 0.0
        if np.abs(self.at).max() > 1:
            return -1, True, False
        distance = math.hypot(*(self.target - self.at))
        self.ticks += 1
        if distance < 0.1:
            self.score = 1.0
            return 5, True, False
        if self.ticks >= 100:
            return 0, False, True
        return 0.02 * (1 - distance), False, False

    def statistics(self):
        return {"score": self.score, "perf": self.score}


class SquaredPy:
    """Walks on a grid that begins as the environment's first observation."""

    MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1))

    def __init__(self, params, state, observation):
        self.d = params.distance_to_target
        self.grid = observation.copy()
        self.targets = {tuple(cell) for cell in np.argwhere(observation == 1).tolist()}
        self.count = len(self.targets)
        self.at, self.ticks = (self.d, self.d), 0
        self.observation = self.grid

    def step(self, action):
        self.grid[self.at] = 0
        change = self.MOVES[action]
        new = (self.at[0] + change[0], self.at[1] + change[1])
        distances = [max(abs(a - b) for a, b in zip(new, target, strict=True)) for target in self.targets]
        reward = 1 - min(distances) / self.d if distances else 0
        if new in self.targets:
            self.targets.remove(new)
            self.grid[new] = 0
        on_border = {0, 2 * self.d} & set(new)
        self.at = (self.d, self.d) if on_border else new
        self.grid[self.at] = -1
        self.ticks += 1
        return reward, self.ticks == self.count * self.d, False

    def statistics(self):
        hit = (self.count - len(self.targets)) / self.count
        return {"score": hit, "perf": hit}


def begin(reference, env, row):
    if reference is SquaredPy:
        return reference(env.params, env._states[row], env.observations[row])
    return reference(env.params, env._states[row].copy())


def draw_actions(env, rng):
    if hasattr(env.single_action_space, "n"):
        return rng.integers(0, env.single_action_space.n, env.num_agents)
    # Beyond the bounds, too: the environment clips.
    return rng.uniform(-1.5, 1.5, (env.num_agents, 2)).astype(np.float32)


def compare(reference, seed, steps, choose=draw_actions, **params):
    """Play an environment and its reference side by side; returns how many episodes ended."""
    env = getattr(sanity, reference.__name__)(num_envs=N, **params)
    env.reset(seed)
    rng, ended = np.random.default_rng(seed), 0
    worlds = [begin(reference, env, row) for row in range(N)]
    lengths, returns = np.zeros(N), np.zeros(N)
    for _ in range(steps):
        actions = choose(env, rng)
        env.step(actions)
        counts, sums = env.drain_rows()
        for row, world in enumerate(worlds):
            reward, terminated, truncated = world.step(actions[row].tolist())
            lengths[row] += 1
            returns[row] += reward
            assert env.rewards[row] == np.float32(reward)
            assert (env.terminations[row], env.truncations[row]) == (terminated, truncated)
            over = terminated or truncated
            shown = env.final_observations[row] if over else env.observations[row]
            assert np.array_equal(shown, np.asarray(world.observation, np.float32))
            assert counts[row] == over
            if over:
                expected = {"episode_return": returns[row], "episode_length": lengths[row]}
                expected |= world.statistics()
                assert {key: values[row] for key, values in sums.items()} == pytest.approx(expected)
                worlds[row] = begin(reference, env, row)
                assert np.array_equal(env.observations[row], np.float32(worlds[row].observation))
                lengths[row], returns[row] = 0, 0
                ended += 1
    return ended


@given(SEEDS, st.sampled_from([4, 10]), st.floats(0.01, 100))
def test_bandit(seed, num_actions, scale):
    steps = 30
    given_params = {"num_actions": num_actions, "reward_scale": scale, "reward_noise": 0}
    assert compare(Bandit, seed, steps, **given_params) == steps * N


@given(SEEDS, st.integers(1, 5), st.integers(0, 4))
def test_memory(seed, length, delay):
    steps = 3 * (2 * length + delay - 1)
    assert compare(Memory, seed, steps, mem_length=length, mem_delay=delay) == 3 * N


@given(SEEDS, st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_password(seed, length, secret):
    assert compare(Password, seed, 3 * length, password_length=length, hard_fixed_seed=secret) == 3 * N


@given(SEEDS, st.integers(1, 4))
def test_password_said_right(seed, length):
    """By chance it hardly ever is."""
    secret = np.random.RandomState(3).randint(0, 2, length)

    def say(env, rng):
        known = (env.observations >= 0).sum(axis=1)
        return np.where(rng.random(N) < 0.9, secret[known], rng.integers(0, 2, N))

    assert compare(Password, seed, 6 * length, say, password_length=length, hard_fixed_seed=3) == 6 * N


@given(SEEDS, st.floats(0.01, 0.99), st.integers(1, 50))
def test_stochastic(seed, p, horizon):
    assert compare(Stochastic, seed, 2 * horizon, p=p, horizon=horizon) == 2 * N


@given(SEEDS, st.booleans())
def test_continuous(seed, discretize):
    assert compare(Continuous, seed, 60, discretize=discretize) > 10


def steer(env, rng):
    """Towards the target, so that it is met."""
    o = env.observations.astype(np.float64)
    wish = 3 * (o[:, 4:] - o[:, :2]) - 6 * o[:, 2:4]
    if not env.params.discretize:
        return np.clip(wish, -1, 1).astype(np.float32)
    axis = np.abs(wish).argmax(axis=1)
    return 2 * axis + (wish[np.arange(len(wish)), axis] > 0)


def stay(env, rng):
    """Against its own motion, so that time runs out."""
    o = env.observations
    return np.clip(-10 * o[:, 2:4] + rng.uniform(-0.01, 0.01, (N, 2)), -1, 1).astype(np.float32)


@given(SEEDS, st.booleans())
def test_continuous_on_target(seed, discretize):
    assert compare(Continuous, seed, 40, steer, discretize=discretize) > 10


def test_continuous_out_of_time():
    assert compare(Continuous, 5, 250, stay) >= 2 * (N - 1)


@given(SEEDS, st.integers(1, 5), st.data())
def test_squared_py(seed, d, data):
    targets = data.draw(st.sampled_from([-1, 1, 8 * d]) | st.integers(1, 8 * d))
    count = 4 * d if targets == -1 else targets
    compared = compare(SquaredPy, seed, count * d + 1, distance_to_target=d, num_targets=targets)
    assert compared >= N


class Point:
    """A Continuous world brought to where a rule bites."""

    def __init__(self, **values):
        self.env = sanity.Continuous()
        self.env.reset(1)
        for name, value in values.items():
            self.env._states[name] = value

    def step(self, x, y):
        self.env.step(np.array([[x, y]], np.float32))
        return self.env.rewards[0], self.env.terminations[0], self.env.truncations[0]


def test_continuous_on_tick_100_the_target_counts_more_than_the_time():
    at_target = {"x": 0.5, "y": 0.5, "target_x": 0.5, "target_y": 0.5, "tick": 99}
    assert Point(**at_target).step(0, 0) == (5, True, False)
    assert Point(**{**at_target, "target_x": 0.0}).step(0, 0) == (0, False, True)
    assert Point(**{**at_target, "vx": 0.6}).step(0, 0) == (-1, True, False)


def test_continuous_the_edge_itself_is_inside():
    still = {"x": 0.9375, "y": 0.0, "vx": 0.0625, "target_x": -1.0, "target_y": 0.0}
    reward, terminated, truncated = Point(**still).step(0, 0)
    assert reward == pytest.approx(0.02 * (1 - 2))
    assert not terminated
    assert not truncated


def test_multiagent_each_agent_is_paid_for_its_own_observation():
    env = sanity.Multiagent(num_envs=4)
    env.reset(1)
    assert env.observations.tolist() == [[0], [1]] * 4
    actions = np.array([0, 1, 1, 0, 0, 0, 1, 1])
    env.step(actions)
    assert env.rewards.tolist() == [1, 1, 0, 0, 1, 0, 0, 1]
    assert env.terminations.all()
    assert not env.truncations.any()
    assert env.masks.all()
    assert env.observations.tolist() == env.final_observations.tolist() == [[0], [1]] * 4
    counts, sums = env.drain_rows()
    assert (counts == 1).all()
    for name in ("score", "perf", "episode_return"):
        assert sums[name].tolist() == env.rewards.tolist()


def test_multiagent_as_pettingzoo_knows_it():
    env = make_parallel_env("Multiagent")
    observations, _ = env.reset(seed=1)
    assert {agent: value.tolist() for agent, value in observations.items()} == {
        "agent_0": [0],
        "agent_1": [1],
    }
    _, rewards, terminations, truncations, infos = env.step({"agent_0": 0, "agent_1": 0})
    assert rewards == {"agent_0": 1, "agent_1": 0}
    assert all(terminations.values())
    assert not any(truncations.values())
    assert [infos[agent]["score"] for agent in ("agent_0", "agent_1")] == [1, 0]
    assert env.agents == []


def colors(picture, points):
    return [tuple(picture[y, x].tolist()) for x, y in points]


def test_pictures_show_what_matters():
    red, cyan, grey = (187, 0, 0), (0, 187, 187), (90, 90, 90)
    memory = sanity.Memory(mem_length=2, mem_delay=0)
    memory.reset(1)
    memory._states["solution"] = [1, 0]
    assert colors(memory.render(), [(24, 24), (72, 24), (24, 72), (72, 72)]) == [cyan, red, grey, grey]
    memory.step([0])
    memory.step([1])
    assert colors(memory.render(), [(24, 72), (72, 72)]) == [cyan, grey]
    password = sanity.Password()
    password.reset(1)
    password.step([1])
    assert colors(password.render(), [(24, 24), (72, 24), (24, 72), (72, 72)]) == [red, cyan, cyan, grey]
    point = sanity.Continuous()
    point.reset(1)
    for name, value in {"x": -0.5, "y": 0.5, "target_x": 0.5, "target_y": -0.5}.items():
        point._states[name] = value
    picture = point.render()
    assert picture.shape == (720, 1080, 3)
    assert colors(picture, [(270, 540), (810, 180), (540, 360)]) == [red, (0, 121, 241), (6, 24, 24)]
    square = sanity.SquaredPy(distance_to_target=1, num_targets=8)
    square.reset(1)
    assert colors(square.render(), [(72, 72), (24, 24), (120, 72)]) == [red, cyan, cyan]
    agents = sanity.Multiagent()
    agents.reset(1)
    agents.step([0, 0])
    picture = agents.render()
    assert colors(picture, [(80, 16), (16, 48), (80, 48)]) == [cyan, red, (6, 24, 24)]
