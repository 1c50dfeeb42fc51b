"""Stochastic: the best that a policy without memory can do is to act at random, in the right proportion.

Tests whether a learner can hold a policy that is really random: one that always does the same earns nothing
at all. (With memory the task is easy: play 0 whenever too few zeros were played.) Origin: PufferLib 3.0,
sanity suite.

Observation (1,) float32: 0. Action: 0 or 1. With f the part of zeros among the actions so far, this one
included, and q = 1 - (p - f)²: reward q if the action is 0 and f < p, or 1 and f ≥ p; else 0.

Truncation after ``horizon`` steps. Score: q at the end. Perf: max(0, 1 - 10 · abs(p - f)), which tells more.
Statistic ``action_0``: f at the end. For p = 0.7 and 100 steps the return is largest where 0 is played with
a probability of about 0.61, less than p: once f is above p, zeros pay nothing.
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
    kernel,
    parameter,
)


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Stochastic."""

    p: float = parameter(0.7, "part of zeros to aim at, between 0 and 1", above=0)
    horizon: int = parameter(100, "steps of an episode", low=1)

    def conflicts(self) -> list[str]:
        """A part lies below 1."""
        return [] if self.p < 1 else [f"p={self.p!r} is not valid: it takes a number less than 1"]


def state(params: Params) -> Fields:
    """Zeros so far, and the last action."""
    return [("zeros", "i4"), ("action", "i4")]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """A constant; two actions."""
    return Box(0, 1, (1,), np.float32), Discrete(2)


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Count anew."""
    state.zeros = 0
    observation[0] = 0


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Pay whoever moves the proportion towards p."""
    state.action = action[0]
    if action[0] == 0:
        state.zeros += 1
    fraction = state.zeros / state.tick
    paid = fraction < params.p if action[0] == 0 else fraction >= params.p
    reward = 1.0 - (params.p - fraction) ** 2 if paid else 0.0
    return reward, False, state.tick == params.horizon


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float, float]:
    """Score, perf and the part of zeros."""
    fraction = state.zeros / params.horizon
    error = params.p - fraction
    return 1.0 - error**2, max(0.0, 1.0 - 10.0 * abs(error)), fraction


def draw(state: Any, params: Params) -> Canvas:
    """The part of zeros as a bar, p as a line, the last action as a disc: 0 red, 1 cyan."""
    canvas = Canvas(400, 80)
    fraction = state.zeros / max(1, state.tick)
    canvas.rectangle(20, 20, 300 * fraction, 40, RED)
    canvas.line(20 + 300 * params.p, 10, 20 + 300 * params.p, 70, (255, 255, 255), width=3)
    canvas.disc(365, 40, 20, CYAN if state.action else RED)
    return canvas


class Stochastic(OceanVector):
    """Vectorised Stochastic; the rules stand at the top of this module."""

    definition = Definition(
        Params,
        state,
        spaces,
        reset,
        step,
        statistics,
        draw,
        frames_per_second=lambda params: 10.0,
        statistic_names=("score", "perf", "action_0"),
    )
