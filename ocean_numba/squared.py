"""Squared: walk to the one target cell of a small square board.

The smallest useful grid task, and the smoke test of a trainer. The agent starts in the centre; the target
lies anywhere else, uniformly. Origin: PufferLib 3.0, Ocean suite.

Observation (size · size,) uint8, row by row: 0 empty, 1 agent, 2 target.

======  =====  ====================
action  name   (row, column) change
======  =====  ====================
0       stay   (0, 0)
1       down   (+1, 0)
2       up     (-1, 0)
3       left   (0, -1)
4       right  (0, +1)
======  =====  ====================

Reward: +1 on the target (termination), -1 outside the board (termination), -1 at step 3 · size + 1
(truncation, tested before the target), else 0. Score: the last reward. Perf: 1 if the target was reached,
else 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from ocean_numba.engine import (
    CYAN,
    RED,
    Canvas,
    Definition,
    Fields,
    OceanVector,
    Parameters,
    integer,
    kernel,
    parameter,
)

EMPTY, AGENT, TARGET = 0, 1, 2
ROW_CHANGE = np.array([0, 1, -1, 0, 0])
COLUMN_CHANGE = np.array([0, 0, 0, -1, 1])
CELL_PIXELS = 64


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Squared."""

    size: int = parameter(11, "cells along each side of the board", low=2, high=255)


def state(params: Params) -> Fields:
    """Cells are numbered row by row, as in the observation."""
    return [("row", "i4"), ("column", "i4"), ("target", "i4"), ("reached", "?")]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """Codes of every cell; the five moves."""
    return Box(0, TARGET, (params.size * params.size,), np.uint8), Discrete(len(ROW_CHANGE))


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Put the agent in the centre and the target on any other cell."""
    centre = (params.size // 2) * params.size + params.size // 2
    target = integer(state, params.size * params.size - 1)
    if target >= centre:  # the draw leaves out the centre
        target += 1
    state.row = state.column = params.size // 2
    state.target = target
    state.reached = False
    observation[:] = EMPTY
    observation[centre] = AGENT
    observation[target] = TARGET


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Move; the time limit and the edge are tested before the target."""
    size = params.size
    observation[state.row * size + state.column] = EMPTY
    row = state.row + ROW_CHANGE[action[0]]
    column = state.column + COLUMN_CHANGE[action[0]]
    if row < 0 or row >= size or column < 0 or column >= size:
        return -1.0, True, False
    state.row = row
    state.column = column
    cell = row * size + column
    observation[cell] = AGENT
    if state.tick > 3 * size:
        return -1.0, False, True
    if cell == state.target:
        state.reached = True
        return 1.0, True, False
    return 0.0, False, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf."""
    return (1.0, 1.0) if state.reached else (-1.0, 0.0)


def draw(state: Any, params: Params) -> Canvas:
    """The board with the agent (cyan) and the target (red)."""
    canvas = Canvas(CELL_PIXELS * params.size, CELL_PIXELS * params.size)
    target_row, target_column = divmod(int(state.target), params.size)
    for row, column, color in ((target_row, target_column, RED), (state.row, state.column, CYAN)):
        canvas.rectangle(CELL_PIXELS * column, CELL_PIXELS * row, CELL_PIXELS, CELL_PIXELS, color)
    return canvas


class Squared(OceanVector):
    """Vectorised Squared; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 5.0
    )
