"""Squared, the sanity suite's: from the centre of a square to targets on its border, by a dense reward.

Tests whether a learner follows a reward that always says how near the goal is, with one target or several.
(``Squared`` of Ocean itself is another task, with a sparse reward.) Origin: PufferLib 3.0, sanity suite.

Observation (2d+1, 2d+1) float32, d = ``distance_to_target``: 0 empty, -1 agent, +1 target that was not hit.

======  ==================================  ======  ==================================
action  change of (first, second) index     action  change of (first, second) index
======  ==================================  ======  ==================================
0       (0, -1)                             4       (+1, -1)
1       (0, +1)                             5       (-1, -1)
2       (-1, 0)                             6       (+1, +1)
3       (+1, 0)                             7       (-1, +1)
======  ==================================  ======  ==================================

Start: the agent in the centre, and ``num_targets`` targets on different cells of the border, uniformly (-1
stands for 4 d targets).

Reward: 1 - m / d, with m the Chebyshev distance from where the agent goes to the nearest target that is left;
0 if none is. A target that is entered is hit, and gone. On the border the agent is put back into the centre.
Termination after num_targets · d steps. Score and perf: the part of the targets that was hit.
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

FIRST_CHANGE = np.array([0, 0, -1, 1, 1, -1, 1, -1])
SECOND_CHANGE = np.array([-1, 1, 0, 0, -1, -1, 1, 1])
CELL_PIXELS = 48


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of SquaredPy."""

    distance_to_target: int = parameter(3, "cells from the centre to the border", low=1, high=60)
    num_targets: int = parameter(1, "targets; -1 for 4 * distance_to_target", low=-1)

    def conflicts(self) -> list[str]:
        """The border has as many cells as it has."""
        border = 8 * self.distance_to_target
        if self.num_targets == 0 or self.num_targets > border:
            return [
                f"num_targets={self.num_targets} is not valid: it takes -1, or 1 to {border}, the cells of "
                f"the border with distance_to_target={self.distance_to_target}"
            ]
        return []

    def derived(self) -> dict[str, bool | int | float]:
        """How many targets there really are."""
        return {"targets": 4 * self.distance_to_target if self.num_targets < 0 else self.num_targets}


def state(params: Params) -> Fields:
    """Where the agent is, which cells of the border hold a target, how many were hit."""
    border = 8 * params.distance_to_target
    return [("first", "i4"), ("second", "i4"), ("hits", "i4"), ("targets", "u1", (border,))]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """The square; eight moves."""
    size = 2 * params.distance_to_target + 1
    return Box(-1, 1, (size, size), np.float32), Discrete(len(FIRST_CHANGE))


@kernel
def border_cell(k: int, d: int) -> tuple[int, int]:
    """Cell k of the border, counted around the square from (0, 0)."""
    side, along = k // (2 * d), k % (2 * d)
    if side == 0:
        return 0, along
    if side == 1:
        return along, 2 * d
    if side == 2:
        return 2 * d, 2 * d - along
    return 2 * d - along, 0


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Put out the targets, and the agent into the centre."""
    d = params.distance_to_target
    for first in range(2 * d + 1):
        for second in range(2 * d + 1):
            observation[first, second] = 0
    border = 8 * d
    left = params.targets
    for k in range(border):
        # Each cell in turn, with the chance that makes every choice of cells equally likely.
        state.targets[k] = integer(state, border - k) < left
        if state.targets[k]:
            left -= 1
            first, second = border_cell(k, d)
            observation[first, second] = 1
    state.first = state.second = d
    state.hits = 0
    observation[d, d] = -1


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Move, measure, hit."""
    d = params.distance_to_target
    observation[state.first, state.second] = 0
    first = state.first + FIRST_CHANGE[action[0]]
    second = state.second + SECOND_CHANGE[action[0]]
    nearest = 4 * d
    for k in range(8 * d):
        if state.targets[k]:
            target_first, target_second = border_cell(k, d)
            nearest = min(nearest, max(abs(first - target_first), abs(second - target_second)))
            if nearest == 0:
                state.targets[k] = False
                state.hits += 1
                break
    reward = 1.0 - nearest / d if nearest < 4 * d else 0.0
    if max(abs(first - d), abs(second - d)) >= d:
        observation[first, second] = 0  # a target that was hit is no longer to be seen
        first = second = d
    state.first = first
    state.second = second
    observation[first, second] = -1
    return reward, state.tick == params.targets * d, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf."""
    hit = state.hits / params.targets
    return hit, hit


def draw(state: Any, params: Params) -> Canvas:
    """The square with the agent red and the targets cyan."""
    d = params.distance_to_target
    canvas = Canvas(CELL_PIXELS * (2 * d + 1), CELL_PIXELS * (2 * d + 1))
    cells = [(*border_cell(k, d), CYAN) for k in range(8 * d) if state.targets[k]]
    for first, second, color in [*cells, (int(state.first), int(state.second), RED)]:
        canvas.rectangle(CELL_PIXELS * second, CELL_PIXELS * first, CELL_PIXELS, CELL_PIXELS, color)
    return canvas


class SquaredPy(OceanVector):
    """Vectorised SquaredPy; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 4.0
    )
