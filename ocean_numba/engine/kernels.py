"""From one environment's scalar functions to a kernel over all of them, compiled once per machine.

Two facts of Numba shape this module. A kernel that is a *closure* over other compiled functions never hits
the on-disk cache, because a dispatcher pickles with a random id, whereas one that finds them as module
globals does: so every environment gets a copy of the templates below whose globals hold its own functions.
And the cache notices a change in the file of the kernel only, not in a function it calls: so a fingerprint of
all code and constants that the kernel can reach is part of its name.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import prange

from ocean_numba.engine.jit import kernel

# What the templates call. `specialise` puts the environment's own functions in their place.
reset: Any = None
step: Any = None
statistics: Any = None
is_valid: Any = None


def reset_kernel(states: Any, parameters: Any, observations: Any, chosen: Any) -> None:
    """Begin a new episode in every environment i where chosen[i]."""
    for i in prange(states.shape[0]):
        if chosen[i]:
            state = states[i]
            state.tick = 0
            state.episode_return = 0.0
            reset(state, parameters[0], observations[i])


def step_kernel(
    states: Any,
    parameters: Any,
    actions: Any,
    action_limits: Any,
    observations: Any,
    rewards: Any,
    terminations: Any,
    truncations: Any,
    final_observations: Any,
    sums: Any,
) -> int:
    """One step of every environment, with same-step reset.

    Returns -1, or the first row whose action is not valid; then nothing was stepped.
    """
    for i in range(states.shape[0]):
        if not is_valid(actions[i], action_limits):
            return i
    for i in prange(states.shape[0]):
        state = states[i]
        observation = observations[i]
        state.tick += 1
        reward, terminated, truncated = step(state, parameters[0], actions[i], observation)
        state.episode_return += reward
        rewards[i] = reward
        terminations[i] = terminated
        truncations[i] = truncated and not terminated
        if terminated or truncated:
            final = final_observations[i]
            # Not `final[:] = observation`: the check of both shapes would take Numba a second to compile.
            for index in np.ndindex(observation.shape):
                final[index] = observation[index]
            sums[i, 0] += 1
            sums[i, 1] += state.episode_return
            sums[i, 2] += state.tick
            k = 3
            for value in statistics(state, parameters[0]):
                sums[i, k] += value
                k += 1
            state.tick = 0
            state.episode_return = 0.0
            reset(state, parameters[0], observation)
    return -1


@kernel
def is_valid_discrete(action: Any, limits: Any) -> bool:
    """Is each component of a (multi-)discrete action within 0 … limits-1?"""
    for k in range(limits.shape[0]):  # noqa: SIM110 (Numba compiles the loop, not the generator)
        if action[k] < 0 or action[k] >= limits[k]:
            return False
    return True


@kernel
def is_valid_continuous(action: Any, limits: Any) -> bool:
    """Is each component of a continuous action a finite number?"""
    for k in range(limits.shape[0]):  # noqa: SIM110
        if not np.isfinite(action[k]):
            return False
    return True


class Kernel:
    """A template with an environment's functions in place; compiled at the first call, or loaded."""

    def __init__(self, template: Callable[..., Any], name: str, parallel: bool, **functions: Any) -> None:
        variant = ("threads" if parallel else "serial") + ("_checked" if numba.config.BOUNDSCHECK else "")
        label = f"{name}_{template.__name__}_{variant}_{fingerprint(functions)}"
        function = types.FunctionType(template.__code__, {**template.__globals__, **functions}, label)
        function.__qualname__ = label
        function.__module__ = template.__module__
        self.name = label
        self.call = numba.njit(nogil=True, error_model="numpy", _nrt=False, parallel=parallel, cache=True)(
            function
        )

    @property
    def is_cached(self) -> bool:
        """Can this machine load the compiled kernel, or must it compile (some seconds)?"""
        if numba.config.DISABLE_JIT:
            return True
        if self.call.overloads:
            return True
        return any(Path(self.call.stats.cache_path).glob(f"*{self.name}*.nbi"))


# One kernel for all copies of an environment in this process: even loading one takes milliseconds.
shared_kernel = functools.lru_cache(maxsize=None)(Kernel)


def fingerprint(functions: dict[str, Any]) -> str:
    """16 hex digits that change when any code or constant reachable from the functions does."""
    digest = hashlib.sha256()
    for part in _reachable(list(functions.values()), set()):
        digest.update(part)
    return digest.hexdigest()[:16]


def _reachable(values: list[Any], seen: set[int]) -> Iterator[bytes]:
    """Bytes of each function's code, and of the globals and cells it names, depth first."""
    for value in values:
        function = getattr(value, "py_func", value)
        if isinstance(function, types.FunctionType):
            if id(function) in seen:
                continue
            seen.add(id(function))
            names: set[str] = set()
            yield from _code(function.__code__, names)
            scope = function.__globals__
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            cells += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
            found = [scope[name] for name in sorted(names) if name in scope]
            modules = [v for v in found if isinstance(v, types.ModuleType) and v.__name__ not in _LIBRARIES]
            members = [getattr(m, name) for m in modules for name in sorted(names) if hasattr(m, name)]
            yield from _reachable(cells + found + members, seen)
        elif isinstance(value, np.ndarray):
            yield repr(value.dtype).encode() + value.tobytes()
        elif isinstance(value, tuple):
            yield b"tuple"
            yield from _reachable(list(value), seen)
        elif isinstance(value, (bool, int, float, complex, str, bytes, np.generic, type(None))):
            yield repr(value).encode()


_LIBRARIES = {"numpy", "math", "numba"}


def _code(code: types.CodeType, names: set[str]) -> Iterator[bytes]:
    names.update(code.co_names)
    yield code.co_code + repr((code.co_names, code.co_varnames)).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant, names)
        else:
            yield repr(constant).encode()
