"""Continuous: steer a point that has momentum to a target, without leaving the square.

Tests control by continuous actions (or, with ``discretize``, the same by four pushes). Origin: PufferLib 3.0,
sanity suite.

Observation (6,) float32: position x, y; velocity x, y; target x, y. Position and target begin uniform in
[-1, 1]², the velocity at 0.

Action: Box [-1, 1]², clipped, gives an acceleration of a tenth of it. With ``discretize``: 0 pushes to -x, 1
to +x, 2 to -y, 3 to +y, by 0.1. Then velocity += acceleration, position += velocity.

======================================  ======================  ===========
after the step                          reward                  end
======================================  ======================  ===========
abs(x) > 1 or abs(y) > 1                -1                      termination
distance to the target < 0.1            5                       termination
100 steps                               0                       truncation
else                                    0.02 · (1 - distance)
======================================  ======================  ===========

Score and perf: 1 if the target was reached, else 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from ocean_numba.engine import (
    Canvas,
    Definition,
    Fields,
    OceanVector,
    Parameters,
    kernel,
    parameter,
    uniform,
)

ACCELERATION = 0.1
TARGET_RADIUS = 0.1
MAX_STEPS = 100
WIDTH, HEIGHT, RADIUS = 1080, 720, 20


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Continuous."""

    discretize: bool = parameter(False, "four pushes instead of a continuous one")


def state(params: Params) -> Fields:
    """Position, velocity and target; whether the target was reached."""
    return [*((name, "f8") for name in ("x", "y", "vx", "vy", "target_x", "target_y")), ("reached", "?")]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """Six floats; a push."""
    action = Discrete(4) if params.discretize else Box(-1, 1, (2,), np.float32)
    return Box(-np.inf, np.inf, (6,), np.float32), action


@kernel
def observe(state: Any, observation: Any) -> None:
    """Write everything that moves."""
    observation[0] = state.x
    observation[1] = state.y
    observation[2] = state.vx
    observation[3] = state.vy


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Anywhere, at rest."""
    state.x = uniform(state, -1.0, 1.0)
    state.y = uniform(state, -1.0, 1.0)
    state.target_x = uniform(state, -1.0, 1.0)
    state.target_y = uniform(state, -1.0, 1.0)
    state.vx = state.vy = 0.0
    state.reached = False
    observe(state, observation)
    observation[4] = state.target_x
    observation[5] = state.target_y


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Push, move, and look where that leads."""
    if params.discretize:
        push = 1.0 if action[0] % 2 == 1 else -1.0
        x_push = push if action[0] < 2 else 0.0
        y_push = push if action[0] >= 2 else 0.0
    else:
        x_push = min(max(np.float64(action[0]), -1.0), 1.0)
        y_push = min(max(np.float64(action[1]), -1.0), 1.0)
    state.vx += ACCELERATION * x_push
    state.vy += ACCELERATION * y_push
    state.x += state.vx
    state.y += state.vy
    observe(state, observation)
    if abs(state.x) > 1.0 or abs(state.y) > 1.0:
        return -1.0, True, False
    x_way = state.target_x - state.x
    y_way = state.target_y - state.y
    distance = math.sqrt(x_way * x_way + y_way * y_way)
    if distance < TARGET_RADIUS:
        state.reached = True
        return 5.0, True, False
    if state.tick >= MAX_STEPS:
        return 0.0, False, True
    return 0.02 * (1.0 - distance), False, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf."""
    return (1.0, 1.0) if state.reached else (0.0, 0.0)


def draw(state: Any, params: Params) -> Canvas:
    """The agent red, the target blue; the square fills the window."""
    canvas = Canvas(WIDTH, HEIGHT)
    for x, y, color in (
        (state.target_x, state.target_y, (0, 121, 241)),
        (state.x, state.y, (187, 0, 0)),
    ):
        canvas.disc((x + 1) / 2 * WIDTH, (y + 1) / 2 * HEIGHT, RADIUS, color)
    return canvas


class Continuous(OceanVector):
    """Vectorised Continuous; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 10.0
    )
