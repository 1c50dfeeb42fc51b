"""The backward recursion of the advantage as one compiled pass over the segments, for CPUs."""

from __future__ import annotations

from typing import Any

import numba


@numba.njit(nogil=True, error_model="numpy", _nrt=False, cache=True)  # type: ignore[untyped-decorator]
def advantage_pass(
    rewards: Any,
    values: Any,
    next_values: Any,
    ends: Any,
    masks: Any,
    ratios: Any,
    with_ratios: bool,
    gamma: Any,
    gae_lambda: Any,
    rho_clip: Any,
    c_clip: Any,
    zero: Any,
    out: Any,
) -> None:
    """Write A_t of `advantage.advantage` to `out`, all (T, B); `ratios` matter only if `with_ratios`.

    `zero` is 0 in the type of the rest: a constant of another type would make every sum wider.
    """
    horizon, segments = rewards.shape
    decay = gamma * gae_lambda
    for t in range(horizon - 1, -1, -1):
        # One row of all segments after the other: that is how they lie in memory. Loops of one expression
        # each, without branches, are what LLVM turns into vector instructions.
        reward, value, after, mask, now = rewards[t], values[t], next_values[t], masks[t], out[t]
        for n in range(segments):
            delta = reward[n] + gamma * after[n] - value[n]
            now[n] = delta if mask[n] else zero
        if with_ratios:
            ratio = ratios[t]
            for n in range(segments):
                now[n] *= min(ratio[n], rho_clip)
        if t == horizon - 1:
            continue
        end, following = ends[t], out[t + 1]
        if with_ratios:
            ratio = ratios[t]
            for n in range(segments):
                now[n] += zero if end[n] else decay * min(ratio[n], c_clip) * following[n]
        else:
            for n in range(segments):
                now[n] += zero if end[n] else decay * following[n]


@numba.njit(nogil=True, error_model="numpy", _nrt=False, cache=True)  # type: ignore[untyped-decorator]
def returns_pass(rewards: Any, ends: Any, masks: Any, gamma: Any, running: Any, out: Any) -> None:
    """Write G_t = R_t + gamma G_{t-1} of the episode so far to `out` (T, N); `running` (N,) goes on."""
    for t in range(rewards.shape[0]):
        for n in range(rewards.shape[1]):
            if masks[t, n]:
                running[n] = rewards[t, n] + gamma * running[n]
            else:
                running[n] = gamma * running[n]
            out[t, n] = running[n]
            if ends[t, n]:
                running[n] = 0.0
