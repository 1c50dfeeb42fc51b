"""The LSTM over a sequence with resets, and its gradient written by hand.

Per step (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000), with r_t = 0 where done_t
and 1 elsewhere:

    h' = r_t h_{t-1},   c' = r_t c_{t-1}
    i, f, o = sigmoid(W_ih x_t + W_hh h' + b),   g = tanh(W_ih x_t + W_hh h' + b)
    c_t = f c' + i g,   h_t = o tanh(c_t)

`nn.LSTM` has no resets. The same steps recorded by autograd take 1.2 to 1.4 times as long on a CPU, mostly
for memory: every intermediate of every step is a new allocation, and large ones are new pages. Here the
steps write into what the gradient needs and nothing else, a block of steps at a time, so that the products
with the weights are large enough to be efficient and their operands still lie in the cache. What is not a
product is one pass over the data, see `cells`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from puffertoolkit.policies.cells import Cell, cell_for

BLOCK_ROWS = 512
"""Rows (steps times batch) after which a matrix product gains nothing from more."""


def lstm(
    x: Tensor, h: Tensor, c: Tensor, done: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Run an LSTM whose state is zeroed wherever `done`, before that step.

    It computes in the dtype of the weights, also where autocast would have it otherwise: a state that is
    rounded at every step drifts.

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
    x = x.to(weight_ih.dtype)
    # One row more than steps: after the last one nothing is reset yet.
    keep = x.new_ones(x.shape[0] + 1, x.shape[1], 1)
    torch.logical_not(done.unsqueeze(-1), out=keep[:-1])
    inputs = (x, h, c, keep, weight_ih, weight_hh, bias)
    with torch.autocast(x.device.type, enabled=False):
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
            result: tuple[Tensor, Tensor] = _LSTM.apply(*inputs)  # type: ignore[no-untyped-call]
            return result
        out, _, _, cells, _ = _forward(False, *inputs)
        return out, cells[-1]


class _LSTM(torch.autograd.Function):
    """The forward pass that keeps what the backward pass needs, and the backward pass."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        x, _, c, keep, weight_ih, weight_hh, _ = inputs
        out, recurrent, gates, cells, tanh_cells = _forward(True, *inputs)
        if c.is_inference():  # left by a rollout under inference_mode; only a copy may be saved
            c = c.clone()
        ctx.save_for_backward(x, c, keep, weight_ih, weight_hh, recurrent, gates, cells, tanh_cells)
        return out, cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_c: Tensor) -> tuple[Tensor | None, ...]:
        x, c, keep, weight_ih, weight_hh, recurrent, gates, cells, tanh_cells = ctx.saved_tensors
        steps, batch, _ = x.shape
        cell, block = cell_for(x), _block_steps(steps, batch)
        grad_out = grad_out.contiguous()
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        d_ih, d_hh = torch.zeros_like(weight_ih), torch.zeros_like(weight_hh)
        d_bias = d_ih.new_zeros(d_ih.shape[0])
        dh, dc = torch.zeros_like(c), grad_c.clone()
        d_gates = torch.empty_like(gates[:block])
        for end in range(steps, 0, -block):
            start = max(0, end - block)
            for t in range(end - 1, start - 1, -1):
                before, now = cells[t - 1] if t else c, d_gates[t - start]
                cell.backward(dh, keep[t + 1], grad_out[t], dc, gates[t], before, keep[t], tanh_cells[t], now)
                torch.mm(now, weight_hh, out=dh)
            d_flat = d_gates[: end - start].flatten(0, 1)
            if dx is not None:
                torch.mm(d_flat, weight_ih, out=dx[start:end].flatten(0, 1))
            d_ih.addmm_(d_flat.t(), x[start:end].flatten(0, 1))
            d_hh.addmm_(d_flat.t(), recurrent[start:end].flatten(0, 1))
            d_bias += d_flat.sum(0)
        return dx, dh.mul_(keep[0]), dc, None, d_ih, d_hh, d_bias


def _forward(
    record: bool,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    keep: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Run all steps; return h_t, h', the gates, the cells and their tanh.

    All but the first hold every step if `record`, and else only the latest.
    """
    steps, batch, _ = x.shape
    hidden = weight_hh.shape[1]
    cell: Cell = cell_for(x)
    block = _block_steps(steps, batch)
    kept = steps if record else 1
    out, recurrent, cells, tanh_cells = (
        x.new_empty(length, batch, hidden) for length in (steps, kept + 1, kept, kept)
    )
    gates = x.new_empty(steps if record else block, batch, 4 * hidden)
    torch.mul(h, keep[0], out=recurrent[0])
    for start in range(0, steps, block):
        end = min(steps, start + block)
        block_gates = gates[start:end] if record else gates[: end - start]
        # What does not wait for the state, for the whole block at once.
        torch.mm(x[start:end].flatten(0, 1), weight_ih.t(), out=block_gates.flatten(0, 1))
        for t in range(start, end):
            now, after = t % kept, t % kept + 1 if record else 0
            block_gates[t - start].addmm_(recurrent[now], weight_hh.t())
            cell.forward(
                block_gates[t - start], bias, c, keep[t], cells[now], tanh_cells[now], out[t],
                keep[t + 1], recurrent[after],
            )  # fmt: skip
            c = cells[now]
    return out, recurrent, gates, cells, tanh_cells


def _block_steps(steps: int, batch: int) -> int:
    return min(steps, max(1, BLOCK_ROWS // max(1, batch)))
