"""The LSTM over a sequence with resets, and its gradient written by hand.

Per step (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000), with r_t = 0 where done_t
and 1 elsewhere:

    h' = r_t h_{t-1},   c' = r_t c_{t-1}
    i, f, o = sigmoid(W_ih x_t + W_hh h' + b),   g = tanh(W_ih x_t + W_hh h' + b)
    c_t = f c' + i g,   h_t = o tanh(c_t)

`nn.LSTM` has no resets. The same steps recorded by autograd take 1.2 to 1.4 times as long on a CPU, mostly
for memory: every intermediate of every step is a new allocation, and large ones are new pages. Here the
steps write into what the gradient needs and nothing else, a block of steps at a time, so that the products
with the weights are large enough to be efficient and their operands still lie in the cache.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK_ROWS = 512
"""Rows (steps times batch) after which a matrix product gains nothing from more."""


def lstm(
    x: Tensor, h: Tensor, c: Tensor, done: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Run an LSTM whose state is zeroed wherever `done`, before that step.

    Args:
        x: inputs, (T, B, input).
        h: hidden state before the first step, (B, hidden).
        c: cell state before the first step, (B, hidden).
        done: (T, B) bool.
        weight_ih: (4 * hidden, input), gates in the order i, f, g, o.
        weight_hh: (4 * hidden, hidden).
        bias: (4 * hidden,).

    Returns:
        The hidden states of all steps (T, B, hidden), and the last cell state (B, hidden).
    """
    keep = done.logical_not().unsqueeze(-1).to(x.dtype)
    inputs = (x, h, c, keep, weight_ih, weight_hh, bias)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        result: tuple[Tensor, Tensor] = _LSTM.apply(*inputs)  # type: ignore[no-untyped-call]
        return result
    out, _, cells, _ = _forward(False, *inputs)
    return out, cells[-1]


class _LSTM(torch.autograd.Function):
    """The forward pass that keeps what the backward pass needs, and the backward pass."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        x, h, c, keep, weight_ih, weight_hh, _ = inputs
        out, gates, cells, tanh_cells = _forward(True, *inputs)
        if h.is_inference():  # left by a rollout under inference_mode; only a copy may be saved
            h, c = h.clone(), c.clone()
        ctx.save_for_backward(x, h, c, keep, weight_ih, weight_hh, out, gates, cells, tanh_cells)
        return out, cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, keep, weight_ih, weight_hh, out, gates, cells, tanh_cells = ctx.saved_tensors
        steps, batch, _ = x.shape
        block = _block_steps(steps, batch)
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        d_ih, d_hh = torch.zeros_like(weight_ih), torch.zeros_like(weight_hh)
        d_bias = d_ih.new_zeros(d_ih.shape[0])
        dh, dc = torch.zeros_like(h), grad_c.clone()
        d_gates, before = torch.empty_like(gates[:block]), torch.empty_like(out[:block])
        scratch = torch.empty_like(h)
        for end in range(steps, 0, -block):
            start = max(0, end - block)
            for t in range(end - 1, start - 1, -1):
                h_before, c_before = (out[t - 1], cells[t - 1]) if t else (h, c)
                torch.mul(h_before, keep[t], out=before[t - start])
                dh += grad_out[t]
                _cell_backward(
                    dh, dc, gates[t], c_before * keep[t], tanh_cells[t], d_gates[t - start], scratch
                )
                torch.mm(d_gates[t - start], weight_hh, out=dh).mul_(keep[t])
                dc *= keep[t]
            d_flat = d_gates[: end - start].flatten(0, 1)
            if dx is not None:
                torch.mm(d_flat, weight_ih, out=dx[start:end].flatten(0, 1))
            d_ih.addmm_(d_flat.t(), x[start:end].flatten(0, 1))
            d_hh.addmm_(d_flat.t(), before[: end - start].flatten(0, 1))
            d_bias += d_flat.sum(0)
        return dx, dh, dc, None, d_ih, d_hh, d_bias


def _forward(
    record: bool,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    keep: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run all steps; return the hidden states, and the gates, cells and their tanh.

    The last three hold every step if `record`, and else only the latest.
    """
    steps, batch, _ = x.shape
    hidden = weight_hh.shape[1]
    block = _block_steps(steps, batch)
    kept = steps if record else 1
    out = x.new_empty(steps, batch, hidden)
    gates = x.new_empty(steps if record else block, batch, 4 * hidden)
    cells, tanh_cells = x.new_empty(kept, batch, hidden), x.new_empty(kept, batch, hidden)
    scratch = torch.empty_like(h)
    for start in range(0, steps, block):
        end = min(steps, start + block)
        block_gates = gates[start:end] if record else gates[: end - start]
        # What does not wait for the state, for the whole block at once.
        torch.addmm(bias, x[start:end].flatten(0, 1), weight_ih.t(), out=block_gates.flatten(0, 1))
        for t in range(start, end):
            now = block_gates[t - start]
            now.addmm_(torch.mul(h, keep[t], out=scratch), weight_hh.t())
            i, f, g, o = _activate_(now)
            c = torch.mul(c, keep[t], out=cells[t % kept]).mul_(f).addcmul_(i, g)
            h = torch.mul(o, _tanh(c, out=tanh_cells[t % kept]), out=out[t])
    return out, gates, cells, tanh_cells


def _activate_(gates: Tensor) -> tuple[Tensor, ...]:
    """Apply the gates' non-linearities in place, (B, 4 * hidden); return the four as views."""
    hidden = gates.shape[1] // 4
    gates[:, : 2 * hidden].sigmoid_()
    i, f, g, o = gates.chunk(4, 1)
    _tanh(g, out=g)
    o.sigmoid_()
    return i, f, g, o


def _tanh(x: Tensor, out: Tensor) -> Tensor:
    """Write tanh(x) to `out`, which may be `x`.

    On CPUs Torch's sigmoid is several times as fast as its tanh, and tanh(x) = 2 sigmoid(2x) - 1 is as
    exact in absolute terms as the rounding of values near 1.
    """
    if x.device.type != "cpu":
        return torch.tanh(x, out=out)
    return torch.mul(x, 2, out=out).sigmoid_().mul_(2).sub_(1)


def _cell_backward(
    dh: Tensor, dc: Tensor, gates: Tensor, c_before: Tensor, tanh_c: Tensor, d_gates: Tensor, scratch: Tensor
) -> None:
    """Go back through one step's pointwise part.

    Args:
        dh: gradient by h_t.
        dc: in place, from the gradient by c_t that comes from later steps to the gradient by c'.
        gates: i, f, g, o after their non-linearities, (B, 4 * hidden).
        c_before: c', (B, hidden).
        tanh_c: tanh(c_t).
        d_gates: where to write the gradient by the gates before their non-linearities.
        scratch: memory of the shape of `dh`.
    """
    sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # (dy, y) -> dy y (1 - y)
    tanh_backward = torch.ops.aten.tanh_backward.grad_input  # (dy, y) -> dy (1 - y^2)
    i, f, g, o = gates.chunk(4, 1)
    di, df, dg, do = d_gates.chunk(4, 1)
    sigmoid_backward(torch.mul(dh, tanh_c, out=scratch), o, grad_input=do)
    torch.mul(dh, o, out=scratch)
    dc += tanh_backward(scratch, tanh_c, grad_input=scratch)
    sigmoid_backward(torch.mul(dc, g, out=scratch), i, grad_input=di)
    sigmoid_backward(torch.mul(dc, c_before, out=scratch), f, grad_input=df)
    tanh_backward(torch.mul(dc, i, out=scratch), g, grad_input=dg)
    dc *= f


def _block_steps(steps: int, batch: int) -> int:
    return min(steps, max(1, BLOCK_ROWS // max(1, batch)))
