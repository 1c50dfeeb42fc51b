"""The kernels of worlds in which several agents live; templates as in `kernels`, with the same guarantees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

# What the templates call; see `kernels.Kernel`.
reset: Any = None
step: Any = None
statistics: Any = None
is_valid: Any = None


def world_reset_kernel(
    states: Any, parameters: Any, observations: Any, masks: Any, returns: Any, ticks: Any, chosen: Any
) -> None:
    """Begin anew in every world i where chosen[i]."""
    for i in prange(states.shape[0]):
        if chosen[i]:
            state = states[i]
            state.tick = 0
            for a in range(masks.shape[1]):
                masks[i, a] = True
                returns[i, a] = 0.0
                ticks[i, a] = 0
            reset(state, parameters[0], observations[i], masks[i])


def world_step_kernel(
    states: Any,
    parameters: Any,
    actions: Any,
    action_limits: Any,
    observations: Any,
    rewards: Any,
    terminations: Any,
    truncations: Any,
    final_observations: Any,
    masks: Any,
    returns: Any,
    ticks: Any,
    sums: Any,
) -> int:
    """One step of every world, with same-step reset; arrays are (worlds, agents, ...).

    Returns -1, or the first row of a living agent whose action is not valid; then nothing was stepped.
    """
    agents = masks.shape[1]
    for i in range(states.shape[0]):
        for a in range(agents):
            if masks[i, a] and not is_valid(actions[i, a], action_limits):
                return int(i * agents + a)
    for i in prange(states.shape[0]):
        state = states[i]
        state.tick += 1
        for a in range(agents):
            rewards[i, a] = 0.0
            terminations[i, a] = False
            truncations[i, a] = False
            # Who lives at the beginning of a step takes part in it.
            if masks[i, a]:
                ticks[i, a] += 1
        terminated, truncated = step(
            state, parameters[0], actions[i], observations[i], rewards[i], terminations[i], masks[i]
        )
        for a in range(agents):
            returns[i, a] += rewards[i, a]
            if ticks[i, a] == 0 or not (terminations[i, a] or terminated or truncated):
                continue
            truncations[i, a] = truncated and not (terminated or terminations[i, a])
            terminations[i, a] = not truncations[i, a]
            sums[i, a, 0] += 1
            sums[i, a, 1] += returns[i, a]
            sums[i, a, 2] += ticks[i, a]
            k = 3
            for value in statistics(state, parameters[0], a):
                sums[i, a, k] += value
                k += 1
            returns[i, a] = 0.0
            ticks[i, a] = 0
        if terminated or truncated:
            for a in range(agents):
                final, last = final_observations[i, a], observations[i, a]
                for index in np.ndindex(last.shape):
                    final[index] = last[index]
                masks[i, a] = True
            state.tick = 0
            reset(state, parameters[0], observations[i], masks[i])
    return -1
