"""A counter-based random stream per environment, held in the environment's own state.

Draw number ``c`` of a stream is ``mix(key + c * gamma)``: SplitMix64 with an increment of its own for every
stream (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). A stream is a
function of its seed alone, so neither the number of environments nor of threads can change it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ocean_numba.engine.jit import kernel

FIELDS = [("rng_key", "u8"), ("rng_gamma", "u8"), ("rng_counter", "u8")]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
ONE = np.uint64(1)
SHIFT_11 = np.uint64(11)
SHIFT_27 = np.uint64(27)
SHIFT_30 = np.uint64(30)
SHIFT_31 = np.uint64(31)
SHIFT_33 = np.uint64(33)
TWO_TO_MINUS_53 = 1.0 / (1 << 53)


@kernel
def mix(z: Any) -> Any:
    """Scramble 64 bits (uint64 scalar or array; a bijection)."""
    z = (z ^ (z >> SHIFT_30)) * MIX_1
    z = (z ^ (z >> SHIFT_27)) * MIX_2
    return z ^ (z >> SHIFT_31)


@kernel
def next_bits(state: Any) -> Any:
    """64 random bits (uint64) from the environment's stream."""
    state.rng_counter += ONE
    return mix(state.rng_key + state.rng_counter * state.rng_gamma)


@kernel
def uniform(state: Any, low: float, high: float) -> float:
    """A float64 drawn uniformly from [low, high)."""
    return float(low + (high - low) * (np.float64(next_bits(state) >> SHIFT_11) * TWO_TO_MINUS_53))


@kernel
def integer(state: Any, n: int) -> int:
    """An int64 drawn uniformly from 0 … n-1 (n below 2**31; the bias is below n / 2**31)."""
    return int((np.int64(next_bits(state) >> SHIFT_33) * n) >> 31)


@kernel
def normal(state: Any) -> float:
    """A float64 drawn from the standard normal distribution (Box and Muller 1958; takes two draws)."""
    # 1 - u lies in (0, 1]: the logarithm is finite.
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state, 0.0, 1.0)))
    return float(radius * math.cos(2.0 * math.pi * uniform(state, 0.0, 1.0)))


def spawn_seeds(seed: int, n: int) -> npt.NDArray[np.uint64]:
    """Seeds of n environments, (n,) uint64 below 2**63: number i depends on `seed` and i alone."""
    if seed < 0:
        raise ValueError(f"a seed is a non-negative integer, got {seed}")
    base = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    with np.errstate(over="ignore"):
        seeds: npt.NDArray[np.uint64] = _mix(base + np.arange(1, n + 1, dtype=np.uint64) * GOLDEN) >> ONE
    return seeds


def start_streams(
    states: npt.NDArray[Any], seeds: npt.NDArray[np.uint64], chosen: npt.NDArray[np.bool_]
) -> None:
    """Begin the streams of the chosen environments in `states` (n,) at their seeds (n,) uint64."""
    with np.errstate(over="ignore"):
        states["rng_key"][chosen] = _mix(seeds)[chosen]
        # An increment must be odd; any odd number serves, since `mix` hides its regularity.
        states["rng_gamma"][chosen] = (_mix(seeds + GOLDEN) | ONE)[chosen]
    states["rng_counter"][chosen] = 0


_mix = getattr(mix, "py_func", mix)
