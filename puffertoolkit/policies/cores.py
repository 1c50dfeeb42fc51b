"""Cores: what stands between the encoder and the heads, with or without a memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from puffertoolkit.errors import UserError
from puffertoolkit.policies.init import orthogonal_blocks_
from puffertoolkit.policies.interfaces import State
from puffertoolkit.policies.lstm import lstm


class NoCore(nn.Module):
    """No memory: the heads see the encoder's output.

    Args:
        input_size: width of the encoder's output.
        hidden_size: width of the core's output; here the same.

    Raises:
        UserError: the two sizes differ.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        if input_size != hidden_size:
            raise UserError(
                f"NoCore passes its input on, so input_size ({input_size}) and hidden_size ({hidden_size}) "
                "must be the same; let the encoder return hidden_size features."
            )

    def step(self, x: Tensor, state: State, done: Tensor) -> tuple[Tensor, State]:
        """Return `x` (B, hidden) itself and the empty state."""
        return x, ()

    def sequence(self, x: Tensor, state: State, done: Tensor) -> tuple[Tensor, State]:
        """Return `x` (T, B, hidden) itself and the empty state."""
        return x, ()

    def initial_state(self, batch_size: int) -> State:
        """Return the empty state."""
        return ()


class LSTMCore(nn.Module):
    """One LSTM layer (Hochreiter and Schmidhuber 1997, with Gers's forget gate) that resets at episode ends.

    The state is (h, c), each (B, hidden_size). The gates stand in the order i, f, g, o, as in `nn.LSTM`.
    Weights start orthogonal, gate by gate, so that none of them can begin as a scaled copy of another.
    Biases start at zero but for the forget gate's, which starts at 1: the cell then keeps about three
    quarters of its content per step rather than half, and gradients reach further back from the first
    update on (Jozefowicz et al. 2015). Nothing leaks between episodes by it, since those reset the state.

    Args:
        input_size: width of the encoder's output.
        hidden_size: width of the state and of the output.
    """

    FORGET_BIAS = 1.0

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(4 * hidden_size))
        orthogonal_blocks_(self.weight_ih, 4)
        orthogonal_blocks_(self.weight_hh, 4)
        with torch.no_grad():
            self.bias[hidden_size : 2 * hidden_size].fill_(self.FORGET_BIAS)

    def step(self, x: Tensor, state: State, done: Tensor) -> tuple[Tensor, State]:
        """Advance by one step: x (B, input), done (B,) bool -> (B, hidden), next state."""
        out, state = self.sequence(x.unsqueeze(0), state, done.unsqueeze(0))
        return out[0], state

    def sequence(self, x: Tensor, state: State, done: Tensor) -> tuple[Tensor, State]:
        """Advance by T steps: x (T, B, input), done (T, B) bool -> (T, B, hidden), last state."""
        h, c = state
        out, c = lstm(x, h, c, done, self.weight_ih, self.weight_hh, self.bias)
        return out, (out[-1], c)

    def initial_state(self, batch_size: int) -> State:
        """Return zeros, with the dtype and device of the weights."""
        zeros = self.bias.new_zeros(2, batch_size, self.hidden_size)
        return zeros[0].detach(), zeros[1].detach()

    def extra_repr(self) -> str:
        """Show the sizes where PyTorch prints the module."""
        return f"{self.weight_ih.shape[1]}, {self.hidden_size}"
