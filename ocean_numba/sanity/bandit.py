"""Bandit: one of several arms pays, always the same one; find it, through noise.

Tests whether a learner learns from rewards at all, without any state, and bears noise. Origin: PufferLib 3.0,
sanity suite.

Observation (1,) float32: 1. Action: an arm. One step per episode.

Reward: (1 if the arm was the right one, else 0, plus ``reward_noise`` times a standard normal number) times
``reward_scale``; then termination. The right arm follows from ``hard_fixed_seed`` alone: it is the same in
all environments and episodes. Score and perf: 1 if the arm was right, else 0.
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
    normal,
    parameter,
)

ARM_PIXELS = 32


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Bandit."""

    num_actions: int = parameter(10, "arms", low=2)
    reward_scale: float = parameter(1.0, "what the right arm pays on average", above=0)
    reward_noise: float = parameter(1.0, "standard deviation of the noise, before scaling", low=0)
    hard_fixed_seed: int = parameter(42, "decides which arm is the right one", low=0, high=2**32 - 1)

    def derived(self) -> dict[str, bool | int | float]:
        """The right arm, as NumPy's legacy generator draws it: 6 of 10, 2 of 4 with the seed 42."""
        return {"winner": int(np.random.RandomState(self.hard_fixed_seed).randint(0, self.num_actions))}


def state(params: Params) -> Fields:
    """The arm played last."""
    return [("arm", "i4")]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """A constant; the arms."""
    return Box(0, 1, (1,), np.float32), Discrete(params.num_actions)


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Nothing to prepare."""
    observation[0] = 1


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Pay, and end."""
    state.arm = action[0]
    right = 1.0 if action[0] == params.winner else 0.0
    return (right + params.reward_noise * normal(state)) * params.reward_scale, True, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf."""
    right = 1.0 if state.arm == params.winner else 0.0
    return right, right


def draw(state: Any, params: Params) -> Canvas:
    """The arms in a row: the right one cyan, the one played last ringed in red."""
    canvas = Canvas(ARM_PIXELS * params.num_actions, ARM_PIXELS)
    for arm in range(params.num_actions):
        x = ARM_PIXELS * (arm + 0.5)
        if arm == state.arm:
            canvas.disc(x, ARM_PIXELS / 2, 14, RED)
        color = CYAN if arm == params.derived()["winner"] else (90, 90, 90)
        canvas.disc(x, ARM_PIXELS / 2, 10, color)
    return canvas


class Bandit(OceanVector):
    """Vectorised Bandit; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 2.0
    )
