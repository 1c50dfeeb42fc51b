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
    out: Any,
) -> None:
    """Write A_t of `advantage.advantage` to `out`, all (T, B); `ratios` matter only if `with_ratios`."""
    horizon, segments = rewards.shape
    for t in range(horizon - 1, -1, -1):
        # One row of all segments after the other: that is how they lie in memory, and how vectors are made.
        for n in range(segments):
            rho = min(ratios[t, n], rho_clip) if with_ratios else rho_clip
            delta = rho * (rewards[t, n] + gamma * next_values[t, n] - values[t, n])
            out[t, n] = delta if masks[t, n] else 0.0
        if t < horizon - 1:
            for n in range(segments):
                c = min(ratios[t, n], c_clip) if with_ratios else c_clip
                carry = 0.0 if ends[t, n] else gamma * gae_lambda * c
                out[t, n] += carry * out[t + 1, n]
