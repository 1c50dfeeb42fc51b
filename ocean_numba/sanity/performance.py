"""Performance: every step keeps a core busy for a given time, and nothing can be learned.

Measures what a training loop costs beside environments that are busy. Origin: PufferLib 3.0, sanity suite.

Observation (bandwidth,) float32: numbers drawn once from [-2^20, 2^20]. Action: 0 or 1, without effect.
Reward: 0. Episodes never end. Each step takes max(0, ``delay_mean`` + ``delay_std`` times a standard normal
number) seconds of CPU time. A compiled kernel cannot read a clock: it does as many rounds of
``performance_empiric``'s work as took this long when they were timed, once in a process. That is exact to
some percent while the processor keeps its speed. Score and perf are not defined; steps per second count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium import Space

from ocean_numba.engine import Canvas, Definition, Fields, OceanVector, Parameters, kernel, normal, parameter
from ocean_numba.sanity.performance_empiric import Params as Counted
from ocean_numba.sanity.performance_empiric import draw as draw_step
from ocean_numba.sanity.performance_empiric import reset as draw_numbers
from ocean_numba.sanity.performance_empiric import scramble
from ocean_numba.sanity.performance_empiric import spaces as counted_spaces
from ocean_numba.sanity.performance_empiric import state as counted_state
from ocean_numba.sanity.performance_empiric import statistics as no_statistics

CALIBRATION_S = 0.01


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Performance."""

    delay_mean: float = parameter(0.0, "seconds of work per step, on average", low=0)
    delay_std: float = parameter(0.0, "standard deviation of the seconds", low=0)
    bandwidth: int = parameter(1, "numbers in an observation", low=1)

    def derived(self) -> dict[str, bool | int | float]:
        """How many rounds of work take a second here."""
        busy = self.delay_mean > 0 or self.delay_std > 0
        return {"rounds_per_s": rounds_per_s() if busy else 0.0}


@lru_cache(maxsize=1)
def rounds_per_s() -> float:
    """Rounds of work per second of CPU time, measured: the fastest of some tries, when nothing disturbed."""
    rounds = 1000
    with np.errstate(over="ignore"):
        scramble(np.uint64(0), rounds)  # compiles
        while True:
            tries = []
            for _ in range(3):
                begun = time.thread_time()
                scramble(np.uint64(0), rounds)
                tries.append(time.thread_time() - begun)
            if min(tries) > CALIBRATION_S:
                return rounds / min(tries)
            rounds *= 2


def state(params: Params) -> Fields:
    """What the work came to."""
    return counted_state(Counted(bandwidth=params.bandwidth))


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """Numbers; two actions."""
    return counted_spaces(Counted(bandwidth=params.bandwidth))


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """Draw the numbers."""
    draw_numbers(state, params, observation)


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Be busy."""
    seconds = params.delay_mean
    if params.delay_std > 0:
        seconds += params.delay_std * normal(state)
    state.work = scramble(state.work, max(0, int(seconds * params.rounds_per_s)))
    return 0.0, False, False


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Never called: no episode ends."""
    result: tuple[float, float] = no_statistics(state, params)
    return result


def draw(state: Any, params: Params) -> Canvas:
    """The number of the step."""
    return draw_step(state, Counted())


class Performance(OceanVector):
    """Vectorised Performance; the rules stand at the top of this module."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw, frames_per_second=lambda params: 10.0
    )
