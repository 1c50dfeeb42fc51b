"""Squared rule by rule, and its invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocean_numba

STAY, DOWN, UP, LEFT, RIGHT = range(5)
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, -1], [0, 1]])


def cells(env, code):
    """(N, 2) row and column of the one cell with a code."""
    size = env.params.size
    boards = env.observations.reshape(-1, size, size)
    found = np.argwhere(boards == code)
    assert np.array_equal(found[:, 0], np.arange(len(boards)))
    return found[:, 1:]


@given(st.integers(2, 15), st.integers(0, 2**32))
def test_invariants(size, seed):
    env = ocean_numba.Squared(num_envs=8, size=size)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    centre, lengths = size // 2, np.zeros(8)
    agents, targets = cells(env, 1), cells(env, 2)
    assert (agents == centre).all()
    for _ in range(3 * size + 10):
        actions = rng.integers(0, 5, 8)
        env.step(actions)
        lengths += 1
        moved = agents + MOVES[actions]
        outside = ((moved < 0) | (moved >= size)).any(axis=1)
        late = lengths > 3 * size
        reached = (moved == targets).all(axis=1)
        assert np.array_equal(env.terminations, outside | (reached & ~late))
        assert np.array_equal(env.truncations, late & ~outside)
        ended = env.terminations | env.truncations
        assert np.array_equal(env.rewards, np.where(outside | late, -1, np.where(reached, 1, 0)))
        assert (env.observations <= 2).all()
        assert (np.count_nonzero(env.observations, axis=1) == 2).all()
        new_agents, new_targets = cells(env, 1), cells(env, 2)
        assert (new_agents[ended] == centre).all()
        assert np.array_equal(new_agents[~ended], moved[~ended])
        assert np.array_equal(new_targets[~ended], targets[~ended])
        agents, targets, lengths = new_agents, new_targets, np.where(ended, 0, lengths)


@pytest.mark.parametrize("size", [2, 3, 4, 11])
def test_targets_are_uniform_over_all_other_cells(size):
    env = ocean_numba.Squared(num_envs=6000, size=size)
    env.reset(1)
    counts = np.bincount(np.argmax(env.observations == 2, axis=1), minlength=size**2)
    centre = (size // 2) * size + size // 2
    assert counts[centre] == 0
    expected = 6000 / (size**2 - 1)
    assert np.abs(np.delete(counts, centre) - expected).max() < 5 * np.sqrt(expected)


@pytest.fixture
def board(make):
    """A board of 5 cells a side: the agent in the middle, the target in the corner below on the right."""
    env = make("Squared", size=5)
    env.observations[:] = 0
    env.observations[0, [12, 24]] = 1, 2
    env._states["target"] = 24
    return env


@pytest.mark.parametrize(("action", "cell"), [(STAY, 12), (DOWN, 17), (UP, 7), (LEFT, 11), (RIGHT, 13)])
def test_moves(board, action, cell):
    board.step([action])
    assert np.flatnonzero(board.observations[0] == 1) == cell
    assert (board.rewards[0], board.terminations[0], board.truncations[0]) == (0, False, False)


def test_the_target_pays(board):
    for action in (DOWN, DOWN, RIGHT):
        board.step([action])
    assert board.rewards[0] == 0
    board.step([RIGHT])
    assert (board.rewards[0], board.terminations[0], board.truncations[0]) == (1, True, False)
    assert board.final_observations[0, 24] == 1
    assert not board.final_observations[0, :24].any()
    assert board.drain() == {"episodes": 1, "episode_return": 1, "episode_length": 4, "score": 1, "perf": 1}


def test_the_edge_costs(board):
    for _ in range(3):
        board.step([LEFT])
    assert (board.rewards[0], board.terminations[0], board.truncations[0]) == (-1, True, False)
    assert board.drain() == {"episodes": 1, "episode_return": -1, "episode_length": 3, "score": -1, "perf": 0}


@pytest.mark.parametrize(("waits", "reward", "perf"), [(14, 1, 1), (15, -1, 0)])
def test_the_target_must_be_reached_by_step_3_size(board, waits, reward, perf):
    board._states["target"] = 13
    for _ in range(waits):
        board.step([STAY])
        assert not board.truncations[0]
    board.step([RIGHT])
    assert (board.rewards[0], board.truncations[0], board.terminations[0]) == (reward, not perf, bool(perf))
    assert board.drain()["perf"] == perf


def test_the_edge_at_the_time_limit_is_a_termination(board):
    board._states["row"] = 0
    board._states["tick"] = 15
    board.step([UP])
    assert (board.rewards[0], board.terminations[0], board.truncations[0]) == (-1, True, False)
