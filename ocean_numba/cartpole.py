"""Cartpole: keep a pole upright on a cart, by pushing the cart left or right.

Classic control after Barto, Sutton and Anderson (1983), as in PufferLib 3.0's Ocean suite: explicit Euler
steps of 0.02 s, a limit of 200 steps, an optional continuous force. SI units; angle 0 is upright, positive is
to the right.

Observation (4,) float32, unscaled: cart position m, cart velocity m/s, pole angle rad, pole angular velocity
rad/s.

Action: 0 pushes left, 1 right, with 10 N. With ``continuous``: Box (1,), 10 N times the value clipped to
[-1, 1].

Start: all four uniform in [-0.04, 0.04]. Termination: beyond 2.4 m or 12 degrees. Truncation: after
``max_steps``. Reward: 1 a step, 0 for the step that ends the episode. Score: steps of the episode. Perf:
score / max_steps.
"""

from __future__ import annotations

import math
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
    kernel,
    parameter,
    uniform,
)

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.0 + POLE_MASS
HALF_POLE_LENGTH = 0.5
POLE_MASS_LENGTH = POLE_MASS * HALF_POLE_LENGTH
FORCE_N = 10.0
TIME_STEP_S = 0.02
POSITION_LIMIT_M = 2.4
ANGLE_LIMIT_RAD = 12 * 2 * math.pi / 360
START_RANGE = 0.04


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Cartpole."""

    continuous: bool = parameter(False, "a force in [-1, 1] instead of left or right")
    max_steps: int = parameter(200, "steps after which an episode is truncated", low=1)


def state(params: Params) -> Fields:
    """Position and angle, and their rates."""
    return [("x", "f8"), ("x_rate", "f8"), ("angle", "f8"), ("angle_rate", "f8")]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """Four unbounded floats; two pushes, or a force."""
    action = Box(-1, 1, (1,), np.float32) if params.continuous else Discrete(2)
    return Box(-np.inf, np.inf, (4,), np.float32), action


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Nearly upright, nearly at rest."""
    state.x = uniform(state, -START_RANGE, START_RANGE)
    state.x_rate = uniform(state, -START_RANGE, START_RANGE)
    state.angle = uniform(state, -START_RANGE, START_RANGE)
    state.angle_rate = uniform(state, -START_RANGE, START_RANGE)
    observe(state, observation)


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """One Euler step: every right-hand side is of the old state."""
    if params.continuous:
        force = FORCE_N * min(max(float(action[0]), -1.0), 1.0)
    else:
        force = FORCE_N if action[0] == 1 else -FORCE_N
    sine, cosine = math.sin(state.angle), math.cos(state.angle)
    push = (force + POLE_MASS_LENGTH * state.angle_rate * state.angle_rate * sine) / TOTAL_MASS
    inertia = HALF_POLE_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine * cosine / TOTAL_MASS)
    angle_acceleration = (GRAVITY * sine - cosine * push) / inertia
    acceleration = push - POLE_MASS_LENGTH * angle_acceleration * cosine / TOTAL_MASS

    state.x += TIME_STEP_S * state.x_rate
    state.x_rate += TIME_STEP_S * acceleration
    state.angle += TIME_STEP_S * state.angle_rate
    state.angle_rate += TIME_STEP_S * angle_acceleration
    observe(state, observation)

    terminated = is_off_track(state) or is_fallen(state)
    truncated = state.tick >= params.max_steps
    reward = 0.0 if terminated or truncated else 1.0
    return reward, terminated, truncated


@kernel
def observe(state: Any, observation: Any) -> None:
    """Write the observation."""
    observation[0] = state.x
    observation[1] = state.x_rate
    observation[2] = state.angle
    observation[3] = state.angle_rate


@kernel
def is_off_track(state: Any) -> bool:
    """Has the cart left the track?"""
    return bool(abs(state.x) > POSITION_LIMIT_M)


@kernel
def is_fallen(state: Any) -> bool:
    """Does the pole lean too far?"""
    return bool(abs(state.angle) > ANGLE_LIMIT_RAD)


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float, float, float, float]:
    """Score, perf, and the fractions of episodes that ended by position, angle and time limit."""
    return (
        1.0 * state.tick,
        state.tick / params.max_steps,
        1.0 * is_off_track(state),
        1.0 * is_fallen(state),
        1.0 * (state.tick >= params.max_steps),
    )


def draw(state: Any, params: Params) -> Canvas:
    """The cart on its track with the pole, 100 pixels to the metre."""
    canvas = Canvas(600, 200)
    canvas.line(0, 133, 600, 133, CYAN, width=2)
    x = 300 + 100 * state.x
    canvas.rectangle(x - 20, 115, 40, 20, CYAN, radius=3)
    canvas.line(x, 125, x + 100 * math.sin(state.angle), 125 - 100 * math.cos(state.angle), RED, width=5)
    canvas.disc(x, 125, 4, RED)
    canvas.label(10, 10, f"Steps: {state.tick}")
    canvas.label(10, 40, f"Cart Position: {state.x:.2f}")
    canvas.label(10, 70, f"Pole Angle: {math.degrees(state.angle):.2f}")
    return canvas


class Cartpole(OceanVector):
    """Vectorised Cartpole; the rules stand at the top of this module."""

    definition = Definition(
        Params,
        state,
        spaces,
        reset,
        step,
        statistics,
        draw,
        frames_per_second=lambda params: 1 / TIME_STEP_S,
        statistic_names=(
            "score",
            "perf",
            "x_threshold_termination",
            "pole_angle_termination",
            "max_steps_termination",
        ),
    )
