"""Password: guess a string of bits, and hear only at the end whether all of it was right.

Tests exploration for a rare reward, which comes by chance once in 2 ** password_length episodes, and whether
a learner holds on to it. Origin: PufferLib 3.0, sanity suite.

Observation (password_length,) float32: the bits guessed so far, -1 where none was yet. Action: the next bit.

After ``password_length`` steps: termination, with reward 1 if all bits are right; no other reward. The
password follows from ``hard_fixed_seed`` alone: it is the same in all environments and episodes. Score and
perf: the last reward.
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

UNKNOWN = -1
CELL_PIXELS = 48


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Password."""

    password_length: int = parameter(5, "bits", low=1, high=30)
    hard_fixed_seed: int = parameter(42, "decides what the password is", low=0, high=2**32 - 1)

    def bits(self) -> list[int]:
        """The password, as NumPy's legacy generator draws it: 0, 1, 0, 0, 0 of 5 bits with the seed 42."""
        draws = np.random.RandomState(self.hard_fixed_seed).randint(0, 2, self.password_length)
        return [int(bit) for bit in draws]

    def derived(self) -> dict[str, bool | int | float]:
        """The password as a number, bit k for the k-th guess."""
        return {"password": sum(bit << k for k, bit in enumerate(self.bits()))}


def state(params: Params) -> Fields:
    """The guesses."""
    return [("guesses", "i1", (params.password_length,))]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """The guesses; a bit."""
    return Box(-1, 1, (params.password_length,), np.float32), Discrete(2)


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Nothing is guessed."""
    for k in range(params.password_length):
        state.guesses[k] = UNKNOWN
        observation[k] = UNKNOWN


@kernel
def is_right(state: Any, params: Any) -> bool:
    """Are all bits right?"""
    for k in range(params.password_length):  # noqa: SIM110 (Numba compiles the loop, not the generator)
        if state.guesses[k] != (params.password >> k) & 1:
            return False
    return True


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Write down a guess; the last one opens or does not."""
    state.guesses[state.tick - 1] = action[0]
    observation[state.tick - 1] = action[0]
    ended = state.tick == params.password_length
    return 1.0 if ended and is_right(state, params) else 0.0, ended, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf."""
    return (1.0, 1.0) if is_right(state, params) else (0.0, 0.0)


def draw(state: Any, params: Params) -> Canvas:
    """The password above the guesses: 1 cyan, 0 red, unknown grey."""
    canvas = Canvas(CELL_PIXELS * params.password_length, 2 * CELL_PIXELS)
    colors = {1: CYAN, 0: RED, UNKNOWN: (90, 90, 90)}
    for row, bits in enumerate((params.bits(), state.guesses)):
        for k, bit in enumerate(bits):
            canvas.rectangle(CELL_PIXELS * k + 4, CELL_PIXELS * row + 4, 40, 40, colors[int(bit)])
    return canvas


class Password(OceanVector):
    """Vectorised Password; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 2.0
    )
