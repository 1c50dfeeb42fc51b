"""Worlds of several agents behind the backends: the same rows, dead and alive, from either."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from ocean_numba.sanity import Multiagent
from puffertoolkit.trainer.state import as_arrays, as_tensors
from puffertoolkit.vector import make_vector
from puffertoolkit.vector.base import BUFFERS

SHARED = Path(__file__).parents[1] / "ocean_numba"
NUM_ENVS = 5


@pytest.fixture
def vector(monkeypatch):
    """vector("native", "Arena"): a few worlds behind a backend, reset."""
    monkeypatch.syspath_prepend(str(SHARED))

    def make(backend, name):
        world = Multiagent if name == "Multiagent" else import_module("arena").Arena
        made = make_vector(backend, world, NUM_ENVS)
        made.reset(7)
        return made

    return make


def play(vectors, steps, seed=0):
    """Step all alike, and find them alike; returns whether somebody was dead."""
    rng, dead = np.random.default_rng(seed), False
    for _ in range(steps):
        actions = rng.integers(0, vectors[0].single_action_space.n, vectors[0].num_agents)
        for one in vectors:
            one.step(actions)
        ended = vectors[0].terminations | vectors[0].truncations
        dead = dead or not vectors[0].masks.all()
        for buffer in BUFFERS:
            first, *others = (getattr(one, buffer) for one in vectors)
            # What is left of an earlier end is no promise.
            rows = ended & vectors[0].masks if buffer == "final_observations" else slice(None)
            for other in others:
                np.testing.assert_array_equal(first[rows], other[rows], err_msg=buffer)
    return dead


@pytest.mark.parametrize("name", ["Multiagent", "Arena"])
def test_backends_are_equal(vector, name):
    vectors = [vector("native", name), vector("serial", name)]
    agents = vectors[0].env.agents_each
    assert agents > 1
    assert [one.num_agents for one in vectors] == [NUM_ENVS * agents] * 2
    assert play(vectors, 80) == (name == "Arena")
    (counts, sums), (other_counts, other_sums) = (one.drain_rows() for one in vectors)
    np.testing.assert_array_equal(counts, other_counts)
    assert counts.all()
    for statistic, values in sums.items():
        np.testing.assert_array_equal(values, other_sums[statistic], err_msg=statistic)


@pytest.mark.parametrize("backend", ["native", "serial"])
def test_a_saved_state_goes_on_with_the_dead_still_dead(vector, backend):
    one, other = vector(backend, "Arena"), vector(backend, "Arena")
    seed = next(seed for seed in range(20) if play([one], 4, seed) and not one.masks.all())
    other.load_state_dict(as_arrays(as_tensors(one.state_dict())))
    np.testing.assert_array_equal(one.masks, other.masks)
    play([one, other], 40, seed + 1)
    np.testing.assert_array_equal(one.drain_rows()[0], other.drain_rows()[0])
