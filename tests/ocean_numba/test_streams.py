"""The random streams: uniform, independent of each other, and a function of their seed alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocean_numba
from ocean_numba.engine import integer, kernel, random, uniform
from ocean_numba.engine.random import next_bits, spawn_seeds, start_streams

# Not the streams' fields alone: Numba would take every environment's state for a kind of such a record, with
# a warning, in whatever is compiled later in this process.
FIELDS = [("tag", "u1"), *random.FIELDS]

MASK = 2**64 - 1


@kernel
def draw_bits(states, out):
    for i in range(states.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = next_bits(states[i])


@kernel
def draw_uniforms(states, low, high, out):
    for i in range(states.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = uniform(states[i], low, high)


@kernel
def draw_integers(states, n, out):
    for i in range(states.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = integer(states[i], n)


def streams(n, seed=1):
    states = np.zeros(n, np.dtype(FIELDS, align=True))
    start_streams(states, spawn_seeds(seed, n), np.ones(n, bool))
    return states


def chi_square_is_plausible(counts):
    """Within 5 standard deviations of its mean."""
    expected = counts.sum() / counts.size
    chi_square = ((counts - expected) ** 2 / expected).sum()
    freedom = counts.size - 1
    return abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)


def test_the_stream_is_the_documented_one():
    def mix(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    states, out = streams(3), np.zeros((3, 4), np.uint64)
    keys, gammas = states["rng_key"].tolist(), states["rng_gamma"].tolist()
    draw_bits(states, out)
    expected = [[mix((k + c * g) & MASK) for c in (1, 2, 3, 4)] for k, g in zip(keys, gammas, strict=True)]
    assert out.tolist() == expected
    assert all(g % 2 == 1 for g in gammas)
    assert states["rng_counter"].tolist() == [4, 4, 4]


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_uniform(seed):
    out = np.zeros((64, 5000))
    draw_uniforms(streams(64, seed), -2.0, 6.0, out)
    assert out.min() >= -2
    assert out.max() < 6
    assert out.mean() == pytest.approx(2, abs=5 * 8 / np.sqrt(12 * out.size))
    assert out.var() == pytest.approx(64 / 12, rel=0.01)
    assert chi_square_is_plausible(np.histogram(out, 256, (-2, 6))[0])


def test_every_bit_is_fair():
    out = np.zeros((32, 4096), np.uint64)
    draw_bits(streams(32), out)
    ones = np.unpackbits(out.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(out.size)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 120, 1000])
def test_integers(n):
    out = np.zeros((64, 4000), np.int64)
    draw_integers(streams(64), n, out)
    counts = np.bincount(out.reshape(-1), minlength=n)
    assert counts.size == n
    assert n == 1 or chi_square_is_plausible(counts)


def test_large_integers_stay_in_range():
    out = np.zeros((4, 1000), np.int64)
    draw_integers(streams(4), 2**31 - 1, out)
    assert out.min() >= 0
    assert 2**31 - 2**23 < out.max() < 2**31 - 1


def test_streams_are_independent_of_each_other_and_of_their_past():
    out = np.zeros((200, 2000))
    draw_uniforms(streams(200), -1.0, 1.0, out)
    limit = 6 / np.sqrt(2000)
    between = np.corrcoef(out) - np.eye(200)
    assert np.abs(between).max() < limit
    for lag in (1, 2, 3):
        within = (out[:, lag:] * out[:, :-lag]).mean(axis=1) / out.var(axis=1)
        assert np.abs(within).max() < limit
        shifted = np.corrcoef(out[:-1, lag:], out[1:, :-lag])[:199, 199:]
        assert np.abs(shifted).max() < limit
    pairs = np.histogram2d(out[:-1].reshape(-1), out[1:].reshape(-1), 16)[0]
    assert chi_square_is_plausible(pairs)


@pytest.mark.parametrize("seeds", [range(200), range(2**63 - 100, 2**63 + 100)])
def test_neighbouring_seeds_are_as_good_as_any(seeds):
    states = np.zeros(200, np.dtype(FIELDS, align=True))
    start_streams(states, np.array(seeds, np.uint64), np.ones(200, bool))
    out = np.zeros((200, 2000))
    draw_uniforms(states, -1.0, 1.0, out)
    assert np.abs(np.corrcoef(out) - np.eye(200)).max() < 6 / np.sqrt(2000)
    assert chi_square_is_plausible(np.histogram(out[:, 0], 8, (-1, 1))[0])


@given(st.integers(0, 2**64), st.integers(1, 50), st.integers(1, 50))
def test_a_seed_depends_on_its_index_alone(seed, n, m):
    some, others = spawn_seeds(seed, n), spawn_seeds(seed, m)
    both = min(n, m)
    assert np.array_equal(some[:both], others[:both])
    assert len(set(some.tolist())) == n
    assert (some < 2**63).all()


def test_only_the_chosen_streams_start():
    states = streams(3)
    before = states.copy()
    start_streams(states, np.array([7, 8, 9], np.uint64), np.array([False, True, False]))
    assert np.array_equal(states[[0, 2]], before[[0, 2]])
    assert states["rng_key"][1] != before["rng_key"][1]


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="non-negative integer, got -1"):
        ocean_numba.Squared().reset(-1)
