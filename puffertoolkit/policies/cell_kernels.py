"""The LSTM cell as one pass over the data: float32, on a CPU, all threads that Torch uses.

The loops are written so that LLVM turns them into vector instructions: contiguous rows, ranges that begin at
0, no branches. `tanh` is a quotient of polynomials, which vectorises where a call of the C library does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from numba import prange
from torch import Tensor

from ocean_numba.engine import threads

# Numba starts its threads when first asked about them. Where the two share OpenMP, that sets Torch's number
# to Numba's, and with it the order of Torch's sums, from then on.
_torch_threads = torch.get_num_threads()
numba.get_num_threads()
torch.set_num_threads(_torch_threads)

# Nothing that would let results depend on the width of the vectors: sums stay in order, quotients exact.
OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "fastmath": {"contract", "nsz"}}

ONE, HALF, LARGEST = np.float32(1), np.float32(0.5), np.float32(9)

# tanh(x) = x P(x²) / Q(x²) on [-9, 9], outside of which a float32 tanh is 1; fitted for least relative error,
# 7e-9, so that the rounding of float32 decides: 3.4e-7.
P0, P1, P2, P3, P4, P5, P6 = map(
    np.float32,
    (
        0.999999993408523,
        0.13084010829242337,
        0.0031039569729657346,
        1.1154315117588472e-05,
        -2.0225248668879314e-08,
        5.277957453738216e-11,
        -8.488729871920234e-14,
    ),
)
Q1, Q2, Q3 = map(np.float32, (0.46417337938183395, 0.024495181556858748, 0.00025461462553585734))


@numba.njit(forceinline=True, **OPTIONS)  # type: ignore[untyped-decorator]
def tanh(x: Any) -> Any:
    """Hyperbolic tangent of a float32, within 4e-7 and within [-1, 1]."""
    # Comparisons rather than min and max: NaN passes both, and must not come out as a number.
    x = LARGEST if x > LARGEST else x
    x = -LARGEST if x < -LARGEST else x
    u = x * x
    p = (((((P6 * u + P5) * u + P4) * u + P3) * u + P2) * u + P1) * u + P0
    q = ((Q3 * u + Q2) * u + Q1) * u + ONE
    y = x * (p / q)
    y = ONE if y > ONE else y
    return -ONE if y < -ONE else y


@numba.njit(forceinline=True, **OPTIONS)  # type: ignore[untyped-decorator]
def sigmoid(x: Any) -> Any:
    """Logistic function of a float32."""
    return HALF + HALF * tanh(HALF * x)


@numba.njit(parallel=True, cache=True, **OPTIONS)  # type: ignore[untyped-decorator]
def forward(
    gates: Any,
    bias: Any,
    c_before: Any,
    keep: Any,
    c: Any,
    tanh_c: Any,
    h: Any,
    keep_after: Any,
    h_after: Any,
) -> None:
    """See `cells.Cell.forward`."""
    hidden = c.shape[1]
    bias_g, bias_o = bias[2 * hidden : 3 * hidden], bias[3 * hidden :]
    for b in prange(c.shape[0]):
        i_f, f = gates[b, : 2 * hidden], gates[b, hidden : 2 * hidden]
        g, o = gates[b, 2 * hidden : 3 * hidden], gates[b, 3 * hidden :]
        for j in range(2 * hidden):
            i_f[j] = sigmoid(i_f[j] + bias[j])
        for j in range(hidden):
            g[j] = tanh(g[j] + bias_g[j])
        for j in range(hidden):
            o[j] = sigmoid(o[j] + bias_o[j])
        # Short loops over a row that lies in the cache: with fewer arrays each, LLVM can tell them apart.
        for j in range(hidden):
            c[b, j] = f[j] * (c_before[b, j] * keep[b, 0]) + i_f[j] * g[j]
        for j in range(hidden):
            tanh_c[b, j] = tanh(c[b, j])
        for j in range(hidden):
            h[b, j] = o[j] * tanh_c[b, j]
        for j in range(hidden):
            h_after[b, j] = h[b, j] * keep_after[b, 0]


@numba.njit(parallel=True, cache=True, **OPTIONS)  # type: ignore[untyped-decorator]
def backward(
    dh: Any,
    keep_after: Any,
    grad_h: Any,
    dc: Any,
    gates: Any,
    c_before: Any,
    keep: Any,
    tanh_c: Any,
    d_gates: Any,
) -> None:
    """See `cells.Cell.backward`."""
    hidden = dh.shape[1]
    for b in prange(dh.shape[0]):
        for j in range(hidden):
            i, f, g, o = gates[b, j], gates[b, hidden + j], gates[b, 2 * hidden + j], gates[b, 3 * hidden + j]
            t = tanh_c[b, j]
            by_h = dh[b, j] * keep_after[b, 0] + grad_h[b, j]
            by_c = dc[b, j] + by_h * o * (ONE - t * t)
            d_gates[b, j] = by_c * g * i * (ONE - i)
            d_gates[b, hidden + j] = by_c * c_before[b, j] * keep[b, 0] * f * (ONE - f)
            d_gates[b, 2 * hidden + j] = by_c * i * (ONE - g * g)
            d_gates[b, 3 * hidden + j] = by_h * t * o * (ONE - o)
            dc[b, j] = by_c * f * keep[b, 0]


class NumbaCell:
    """A `cells.Cell` of the two kernels."""

    def forward(self, *tensors: Tensor) -> None:
        """See `Cell.forward`."""
        _call(forward, tensors)

    def backward(self, *tensors: Tensor) -> None:
        """See `Cell.backward`."""
        _call(backward, tensors)


def _call(kernel: Callable[..., None], tensors: tuple[Tensor, ...]) -> None:
    threads.use(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    kernel(*(tensor.detach().numpy() for tensor in tensors))
