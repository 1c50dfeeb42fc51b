"""Performance, counted: every step does a given amount of work, and nothing can be learned.

Measures what a training loop costs beside environments that are busy, independently of any clock: the same
work on every machine, and the same numbers in every run. Origin: PufferLib 3.0, sanity suite.

Observation (bandwidth,) float32: numbers drawn once from [-2^20, 2^20]. Action: 0 or 1, without effect.
Reward: 0. Episodes never end. Each step does max(0, ``count_n`` + ``count_std`` times a standard normal
number) rounds of a 64-bit linear congruential generator, whose result is kept so that no compiler may leave
it out: about a nanosecond each. Score and perf are not defined; steps per second count.
"""

from __future__ import annotations

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
    normal,
    parameter,
    uniform,
)

LARGEST = 2.0**20
# Knuth's MMIX generator, with a shift between its steps: without, compilers join eight of them into one.
MULTIPLIER, INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
SHIFT = np.uint64(32)


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of PerformanceEmpiric."""

    count_n: int = parameter(0, "rounds of work per step, on average", low=0)
    count_std: float = parameter(0.0, "standard deviation of the rounds", low=0)
    bandwidth: int = parameter(1, "numbers in an observation", low=1)


def state(params: Params) -> Fields:
    """What the work came to."""
    return [("work", "u8")]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """Numbers; two actions."""
    return Box(-LARGEST, LARGEST, (params.bandwidth,), np.float32), Discrete(2)


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Draw the numbers."""
    for k in range(observation.shape[0]):
        observation[k] = uniform(state, -LARGEST, LARGEST)


@kernel
def scramble(value: Any, rounds: Any) -> Any:
    """What becomes of `value` (uint64) after so many rounds."""
    for _ in range(rounds):
        value = (value ^ (value >> SHIFT)) * MULTIPLIER + INCREMENT
    return value


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Be busy."""
    rounds = float(params.count_n)
    if params.count_std > 0:
        rounds += params.count_std * normal(state)
    state.work = scramble(state.work, max(0, int(rounds)))
    return 0.0, False, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Never called: no episode ends."""
    return 0.0, 0.0


def draw(state: Any, params: Params) -> Canvas:
    """The number of the step."""
    canvas = Canvas(240, 60)
    canvas.label(20, 20, f"Step {state.tick:,}")
    return canvas


class PerformanceEmpiric(OceanVector):
    """Vectorised PerformanceEmpiric; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 10.0
    )
