"""What the tests of the environments share: random and skilful players, and runs in a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from ocean_numba.registration import find_class

settings.register_profile("ocean", derandomize=True, deadline=None, database=None, max_examples=25)
settings.load_profile("ocean")

HERE = Path(__file__).parent
GAMES = ["Breakout", "Cartpole", "Pong", "Squared"]
SANITY = [
    "Bandit",
    "Continuous",
    "Memory",
    "Password",
    "Performance",
    "PerformanceEmpiric",
    "SquaredPy",
    "Stochastic",
]


@pytest.fixture(params=GAMES)
def name(request):
    """The name of each game in turn."""
    return request.param


@pytest.fixture(params=GAMES + SANITY)
def any_name(request):
    """The name of each environment of one agent in turn: the games, and what tests a learner."""
    return request.param


@pytest.fixture(scope="session")
def make():
    """make("Pong", num_envs=3, frameskip=8): an engine, reset with seed 1."""

    def make_reset(name, num_envs=1, seed=1, **params):
        env = find_class(name)(num_envs=num_envs, **params)
        env.reset(seed)
        return env

    return make_reset


@pytest.fixture(scope="session")
def random_actions():
    """random_actions(env, rng): one uniform action for every row."""

    def draw(env, rng):
        space = env.single_action_space
        if hasattr(space, "n"):
            return rng.integers(0, space.n, env.num_envs)
        return rng.uniform(-1, 1, (env.num_envs, *space.shape)).astype(np.float32)

    return draw


@pytest.fixture(scope="session")
def python():
    """python(script, *arguments, **variables): run a script in a fresh process; returns what it printed."""

    def run(script, *arguments, **variables):
        command = [sys.executable, *(["-c", script] if "\n" in script else [HERE / script]), *arguments]
        environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE.parents[1])
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
