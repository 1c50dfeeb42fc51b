"""Memory: see some bits, wait, and say them again.

Tests whether a policy remembers: without memory it gets all right with a chance of 2 ** -mem_length at best.
Origin: PufferLib 3.0, sanity suite.

An episode has 2 · L + D - 1 steps, L = ``mem_length`` bits and D = ``mem_delay``. With t the number of the
step, from 1:

============  =============================  ==========================================
step          observation (1,) float32       reward
============  =============================  ==========================================
reset         b_0
t < L         b_t                            1 if the action is 0
L ≤ t < L+D   0                              0
t ≥ L+D       0                              1 if the action is b_(t-L-D); it is recorded
============  =============================  ==========================================

The bits are fair and independent. After step 2 · L + D - 1: termination. Score and perf: 1 if all recorded
bits are right, else 0.
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

UNKNOWN = -1
CELL_PIXELS = 48


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Memory."""

    mem_length: int = parameter(2, "bits to remember", low=1)
    mem_delay: int = parameter(2, "steps between seeing the last bit and saying the first", low=0)


def state(params: Params) -> Fields:
    """The bits, and what was said."""
    return [("solution", "i1", (params.mem_length,)), ("said", "i1", (params.mem_length,))]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """A bit; a bit."""
    return Box(-1, 1, (1,), np.float32), Discrete(2)


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Draw the bits and show the first."""
    for k in range(params.mem_length):
        state.solution[k] = integer(state, 2)
        state.said[k] = UNKNOWN
    observation[0] = state.solution[0]


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Show, wait, or ask."""
    length, first_answer = params.mem_length, params.mem_length + params.mem_delay
    reward = 0.0
    observation[0] = 0
    if state.tick < length:
        observation[0] = state.solution[state.tick]
        reward = 1.0 if action[0] == 0 else 0.0
    elif state.tick >= first_answer:
        k = state.tick - first_answer
        state.said[k] = action[0]
        reward = 1.0 if action[0] == state.solution[k] else 0.0
    return reward, state.tick == first_answer + length - 1, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf."""
    for k in range(params.mem_length):
        if state.said[k] != state.solution[k]:
            return 0.0, 0.0
    return 1.0, 1.0


def draw(state: Any, params: Params) -> Canvas:
    """The bits above what was said of them: 1 cyan, 0 red, unknown grey."""
    canvas = Canvas(CELL_PIXELS * params.mem_length, 2 * CELL_PIXELS)
    colors = {1: CYAN, 0: RED, UNKNOWN: (90, 90, 90)}
    for row, bits in enumerate((state.solution, state.said)):
        for k, bit in enumerate(bits):
            canvas.rectangle(CELL_PIXELS * k + 4, CELL_PIXELS * row + 4, 40, 40, colors[int(bit)])
    return canvas


class Memory(OceanVector):
    """Vectorised Memory; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 2.0
    )
