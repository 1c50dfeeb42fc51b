"""One step of an LSTM without its products: non-linearities, cell, and their gradient.

Twice: in Torch, for any device and dtype, and as one pass over the data in Numba, for float32 on CPUs, where
a dozen passes over operands that fit no cache take as long as a third of the products.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Cell(Protocol):
    """The two halves of a step; B rows, `hidden` columns, everything written in place."""

    def forward(
        self,
        gates: Tensor,
        bias: Tensor,
        c_before: Tensor,
        keep: Tensor,
        c: Tensor,
        tanh_c: Tensor,
        h: Tensor,
        keep_after: Tensor,
        h_after: Tensor,
    ) -> None:
        """Compute c_t and h_t.

        Args:
            gates: (B, 4 * hidden), the products; becomes i, f, g, o after bias and non-linearities.
            bias: (4 * hidden,).
            c_before: (B, hidden), c_{t-1}; may be `c`.
            keep: (B, 1), r_t: 0 where the state is reset before this step.
            c: (B, hidden), where to write c_t.
            tanh_c: (B, hidden), where to write tanh(c_t).
            h: (B, hidden), where to write h_t.
            keep_after: (B, 1), r_{t+1}.
            h_after: (B, hidden), where to write r_{t+1} h_t.
        """

    def backward(
        self,
        dh: Tensor,
        keep_after: Tensor,
        grad_h: Tensor,
        dc: Tensor,
        gates: Tensor,
        c_before: Tensor,
        keep: Tensor,
        tanh_c: Tensor,
        d_gates: Tensor,
    ) -> None:
        """Go back through what `forward` did.

        Args:
            dh: (B, hidden), gradient by r_{t+1} h_t, from the steps that follow; overwritten.
            keep_after: (B, 1), r_{t+1}.
            grad_h: (B, hidden), gradient by h_t from outside.
            dc: (B, hidden), in place, from the gradient by c_t to that by c_{t-1}.
            gates: (B, 4 * hidden), i, f, g, o after their non-linearities.
            c_before: (B, hidden), c_{t-1}.
            keep: (B, 1), r_t.
            tanh_c: (B, hidden).
            d_gates: (B, 4 * hidden), where to write the gradient by the gates before their non-linearities.
        """


def cell_for(x: Tensor) -> Cell:
    """The fastest cell for tensors like `x`."""
    if x.device.type == "cpu" and x.dtype == torch.float32:
        return _numba_cell()
    return _TORCH_CELL


class TorchCell:
    """A `Cell` of Torch's own operators."""

    def forward(
        self,
        gates: Tensor,
        bias: Tensor,
        c_before: Tensor,
        keep: Tensor,
        c: Tensor,
        tanh_c: Tensor,
        h: Tensor,
        keep_after: Tensor,
        h_after: Tensor,
    ) -> None:
        """See `Cell.forward`."""
        hidden = gates.shape[1] // 4
        gates += bias
        gates[:, : 2 * hidden].sigmoid_()
        gates[:, 2 * hidden : 3 * hidden].tanh_()
        gates[:, 3 * hidden :].sigmoid_()
        i, f, g, o = gates.chunk(4, 1)
        torch.mul(c_before, keep, out=c).mul_(f).addcmul_(i, g)
        torch.tanh(c, out=tanh_c)
        torch.mul(o, tanh_c, out=h)
        torch.mul(h, keep_after, out=h_after)

    def backward(
        self,
        dh: Tensor,
        keep_after: Tensor,
        grad_h: Tensor,
        dc: Tensor,
        gates: Tensor,
        c_before: Tensor,
        keep: Tensor,
        tanh_c: Tensor,
        d_gates: Tensor,
    ) -> None:
        """See `Cell.backward`."""
        sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # (dy, y) -> dy y (1 - y)
        tanh_backward = torch.ops.aten.tanh_backward.grad_input  # (dy, y) -> dy (1 - y^2)
        i, f, g, o = gates.chunk(4, 1)
        di, df, dg, do = d_gates.chunk(4, 1)
        dh.mul_(keep_after).add_(grad_h)
        sigmoid_backward(dh * tanh_c, o, grad_input=do)
        dh *= o
        dc += tanh_backward(dh, tanh_c, grad_input=dh)
        sigmoid_backward(dc * g, i, grad_input=di)
        sigmoid_backward(dc * c_before * keep, f, grad_input=df)
        tanh_backward(dc * i, g, grad_input=dg)
        dc.mul_(f).mul_(keep)


_TORCH_CELL = TorchCell()


_cell_of_numba: Cell | None = None


def _numba_cell() -> Cell:
    # Not `functools.cache`: `torch.compile` would warn that it looks past it.
    global _cell_of_numba
    if _cell_of_numba is None:
        _cell_of_numba = _make_numba_cell()
    return _cell_of_numba


def _make_numba_cell() -> Cell:
    # Numba takes half a second to import: only who runs an LSTM on a CPU pays for it.
    import numba

    if numba.config.DISABLE_JIT:
        return _TORCH_CELL
    from puffertoolkit.policies.cell_kernels import NumbaCell

    cell: Cell = NumbaCell()
    return cell
