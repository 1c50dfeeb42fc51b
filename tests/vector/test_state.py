"""A vector's state, saved and taken up by another vector, goes on as if nothing had been."""

from functools import partial

import gymnasium
import numpy as np
import pytest

import ocean_numba
from puffertoolkit.trainer.state import as_arrays, as_tensors
from puffertoolkit.vector import GymnasiumRow, make_vector
from puffertoolkit.vector.base import BUFFERS

# As short as an episode can be: some shall end within the test.
ENVS = {"Squared": {}, "Cartpole": {}, "Breakout": {}, "Pong": {"max_score": 1}}


def vector(backend, name="Squared", num_envs=4):
    return make_vector(backend, partial(getattr(ocean_numba, name), **ENVS[name]), num_envs)


def play(vector, rng, steps):
    for _ in range(steps):
        vector.step(rng.integers(0, vector.single_action_space.n, vector.num_agents))


@pytest.mark.parametrize("backend", ["native", "serial"])
@pytest.mark.parametrize("name", ENVS)
def test_goes_on_where_it_was(backend, name):
    one, other = vector(backend, name), vector(backend, name)
    one.reset(3)
    play(one, np.random.default_rng(0), 130)
    state = as_arrays(as_tensors(one.state_dict()))
    buffers = [getattr(other, buffer) for buffer in BUFFERS]
    other.reset(99)
    play(other, np.random.default_rng(5), 7)
    other.load_state_dict(state)
    assert all(getattr(other, buffer) is kept for buffer, kept in zip(BUFFERS, buffers, strict=True))
    for rng in (np.random.default_rng(1), np.random.default_rng(2)):
        for buffer in set(BUFFERS) - {"final_observations"}:
            np.testing.assert_array_equal(getattr(one, buffer), getattr(other, buffer), err_msg=buffer)
        seeds = rng.bit_generator.seed_seq
        for each in (one, other):
            play(each, np.random.default_rng(seeds), 150)
    counts, sums = one.drain_rows()
    assert counts.sum() > 0
    other_counts, other_sums = other.drain_rows()
    np.testing.assert_array_equal(counts, other_counts)
    for statistic in sums:
        np.testing.assert_array_equal(sums[statistic], other_sums[statistic])


@pytest.mark.parametrize("backend", ["native", "serial"])
def test_a_state_is_a_copy(backend):
    one = vector(backend)
    one.reset(0)
    state = one.state_dict()
    before = one.observations.copy()
    play(one, np.random.default_rng(0), 20)
    one.load_state_dict(state)
    np.testing.assert_array_equal(one.observations, before)


@pytest.mark.parametrize("backend", ["native", "serial"])
def test_another_number_or_kind_of_environments_is_refused(backend):
    one = vector(backend)
    one.reset(0)
    for other in (vector(backend, num_envs=3), vector(backend, "Cartpole")):
        with pytest.raises(ValueError, match="the state is that of"):
            other.load_state_dict(one.state_dict())


def test_gymnasium_environments_cannot_be_saved():
    one = make_vector("serial", lambda: GymnasiumRow(gymnasium.make("CartPole-v1")), 2)
    one.reset(0)
    assert one.state_dict() is None
    one.close()
