"""One contract: every backend gives the same rows for the same seed."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete, MultiDiscrete

import ocean_numba
from puffertoolkit.errors import UserError
from puffertoolkit.vector import make_vector
from puffertoolkit.vector.base import BUFFERS

ENVS = ("Squared", "Cartpole", "Breakout", "Pong")


def native(name, num_envs=5, num_threads=1):
    return make_vector("native", getattr(ocean_numba, name), num_envs, num_threads)


def serial(name, num_envs=5):
    return make_vector("serial", getattr(ocean_numba, name), num_envs)


def serial_gymnasium(name, num_envs=5):
    return make_vector(
        "serial", lambda: gymnasium.make(f"ocean/{name}-v0", disable_env_checker=True), num_envs
    )


def actions(vector, rng):
    return rng.integers(0, vector.single_action_space.n, vector.num_agents)


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.parametrize("other", [serial, serial_gymnasium])
def test_backends_are_equal(name, other):
    vectors = [native(name), other(name)]
    rng = np.random.default_rng(0)
    for vector in vectors:
        vector.reset(7)
    for _ in range(300):
        act = actions(vectors[0], rng)
        for vector in vectors:
            vector.step(act)
        ended = vectors[0].terminations | vectors[0].truncations
        for buffer in BUFFERS:
            first, second = (getattr(vector, buffer) for vector in vectors)
            rows = ended if buffer == "final_observations" else slice(None)
            np.testing.assert_array_equal(first[rows], second[rows], err_msg=buffer)
    means = [vector.drain() for vector in vectors]
    assert means[0]["episodes"] == means[1]["episodes"]
    for key in means[0].keys() & means[1].keys() - {"score"}:
        assert means[0][key] == pytest.approx(means[1][key])


@pytest.mark.parametrize("make", [native, serial])
@pytest.mark.parametrize("name", ENVS)
def test_rows_do_not_depend_on_how_many_there_are(make, name):
    few, many = make(name, 2), make(name, 6)
    rng = np.random.default_rng(1)
    for vector in (few, many):
        vector.reset(3)
    for _ in range(60):
        act = actions(many, rng)
        few.step(act[:2])
        many.step(act)
        np.testing.assert_array_equal(few.observations, many.observations[:2])


@pytest.mark.parametrize("make", [native, serial, serial_gymnasium])
def test_same_seed_equal_other_seed_different(make):
    def run(seed):
        vector = make("Cartpole")
        vector.reset(seed)
        rng = np.random.default_rng(2)
        for _ in range(40):
            vector.step(actions(vector, rng))
        return vector.observations.copy()

    assert np.array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))


@pytest.mark.parametrize("make", [native, serial])
def test_send_and_recv_are_a_step(make):
    stepped, sent = make("Pong"), make("Pong")
    for vector in (stepped, sent):
        vector.reset(0)
    act = actions(stepped, np.random.default_rng(0))
    stepped.step(act)
    sent.send(act)
    assert sent.recv() == slice(0, 5)
    np.testing.assert_array_equal(stepped.observations, sent.observations)


def test_gymnasium_environment_as_it_is():
    vector = make_vector("serial", lambda: gymnasium.make("CartPole-v1"), 3)
    vector.reset(5)
    reference = gymnasium.make("CartPole-v1")
    # Row 1 is the environment that was seeded with the second of the spawned seeds.
    from ocean_numba.engine.random import spawn_seeds

    observation, _ = reference.reset(seed=int(spawn_seeds(5, 3)[1]))
    rng = np.random.default_rng(0)
    returns, total = [], 0.0
    for _ in range(200):
        np.testing.assert_array_equal(vector.observations[1], observation)
        act = rng.integers(0, 2, 3)
        vector.step(act)
        observation, reward, terminated, truncated, _ = reference.step(int(act[1]))
        total += reward
        assert vector.rewards[1] == reward
        assert vector.terminations[1] == terminated
        if terminated or truncated:
            np.testing.assert_array_equal(vector.final_observations[1], observation)
            returns.append(total)
            total = 0.0
            observation, _ = reference.reset()
    counts, sums = vector.drain_rows()
    assert counts[1] == len(returns)
    assert sums["episode_return"][1] == sum(returns)


def test_discrete_actions_that_start_elsewhere():
    class Counter(gymnasium.Env):
        observation_space, action_space = Discrete(9), Discrete(3, start=5)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return int(action), 0.0, False, True, {}

    vector = make_vector("serial", Counter, 3)
    vector.reset(0)
    vector.step(np.array([0, 1, 2]))
    assert vector.final_observations.tolist() == [5, 6, 7]
    assert vector.truncations.all()


def test_multidiscrete_actions_that_start_elsewhere():
    received = []

    class Pair(gymnasium.Env):
        observation_space, action_space = Discrete(2), MultiDiscrete([2, 3], start=[4, -1])

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            assert action in self.action_space
            received.append(action.tolist())
            return 0, 0.0, False, False, {}

    vector = make_vector("serial", Pair, 2)
    vector.reset(0)
    vector.step(np.array([[0, 0], [1, 2]]))
    assert received == [[4, -1], [5, 1]]


def test_what_cannot_be_carried_is_refused():
    class Nested(gymnasium.Env):
        observation_space, action_space = Dict({"a": Discrete(2)}), Discrete(2)

    with pytest.raises(UserError, match="not supported"):
        make_vector("serial", Nested, 1)
    with pytest.raises(UserError, match="neither a gymnasium"):
        make_vector("serial", lambda: object(), 1)
    with pytest.raises(UserError, match="vec=serial"):
        make_vector("native", lambda **_: gymnasium.make("CartPole-v1"), 1)
