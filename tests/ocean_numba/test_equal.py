"""The same numbers whatever runs the kernels: JIT or Python, few or many environments, one thread or two."""

import runpy
from pathlib import Path

import numpy as np
import pytest

TRACE = runpy.run_path(str(Path(__file__).with_name("trace.py")))
CASES, trace = TRACE["CASES"], TRACE["trace"]
STEPS, NUM_ENVS = 400, 3
# There is nothing to see in them, or not much.
DULL = ("bandit", "memory", "performance", "performance_empiric", "stochastic")


@pytest.fixture(scope="module")
def compiled():
    return {case: trace(*CASES[case], STEPS, NUM_ENVS) for case in CASES}


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key in ours:
        assert ours[key].dtype == theirs[key].dtype
        assert ours[key].tobytes() == theirs[key].tobytes(), key


@pytest.fixture(scope="module")
def interpreted(python, tmp_path_factory):
    output = tmp_path_factory.mktemp("trace") / "python.npz"
    python("trace.py", output, str(STEPS), str(NUM_ENVS), NUMBA_DISABLE_JIT=1)
    return np.load(output)


@pytest.mark.parametrize("case", CASES)
def test_compiled_equals_python_bit_for_bit(case, compiled, interpreted):
    theirs = {key.split("/")[1]: interpreted[key] for key in interpreted.files if key.split("/")[0] == case}
    assert_equal(compiled[case], theirs)


@pytest.mark.parametrize("case", CASES)
def test_the_traces_see_something(case, compiled):
    ended = compiled[case]["terminations"] | compiled[case]["truncations"]
    assert ended.any() or case in ("breakout", "breakout_small", "performance", "performance_empiric")
    assert len(np.unique(compiled[case]["observations"], axis=0)) > 10 or case in DULL
    assert len(np.unique(compiled[case]["rewards"])) > 1 or case.startswith("performance")
    if case.startswith("breakout"):
        assert compiled[case]["rewards"].sum() > 20


@pytest.mark.parametrize(
    "case", ["breakout", "pong_continuous", "cartpole", "squared", "continuous", "squared_py"]
)
def test_two_threads_equal_one(case):
    one, two = (trace(*CASES[case], 150, 33, num_threads) for num_threads in (1, 2))
    assert_equal(one, two)


@pytest.mark.parametrize("case", CASES)
def test_an_environment_does_not_see_how_many_others_there_are(case):
    few, many = (trace(*CASES[case], 300, num_envs, rows=2) for num_envs in (2, 17))
    assert_equal(few, many)


def test_seeds_make_trajectories(name, make, random_actions):
    def play(seed):
        env, rng = make(name, 4, seed), np.random.default_rng(0)
        observations = []
        for _ in range(60):
            env.step(random_actions(env, rng))
            observations.append(env.observations.copy())
        return np.array(observations)

    assert np.array_equal(play(5), play(5))
    assert not np.array_equal(play(5), play(6))


def test_rows_differ_from_each_other(name, make, random_actions):
    env, rng = make(name, 16, 3), np.random.default_rng(0)
    for _ in range(60):
        actions = random_actions(env, rng)
        env.step(np.broadcast_to(actions[:1], actions.shape))
    assert len(np.unique(env.observations, axis=0)) > 1


def test_one_seed_per_environment(any_name, make):
    env = make(any_name, 3, [11, 12, 11])
    assert np.array_equal(env._states[0], env._states[2])
    assert env._states["rng_key"][0] != env._states["rng_key"][1]
