"""What the parts of a policy promise each other, and what a policy promises its trainer."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from torch import Tensor

State: TypeAlias = tuple[Tensor, ...]
"""Recurrent state: tensors of shape (B, ...), batch first; () for a policy without memory."""


class Distribution(Protocol):
    """A batch of action distributions, with the method names of `torch.distributions`."""

    def sample(self) -> Tensor:
        """Draw actions, shape (*batch, *action), from Torch's global generator; no gradient."""

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability (or density) of `action` (*batch, *action), shape (*batch)."""

    def entropy(self) -> Tensor:
        """Entropy in nats, shape (*batch)."""

    @property
    def mode(self) -> Tensor:
        """The deterministic action, shape (*batch, *action)."""


class Core(Protocol):
    """The part between encoder and heads, which may remember."""

    def step(self, x: Tensor, state: State, done: Tensor) -> tuple[Tensor, State]:
        """(B, input), state, (B,) bool -> (B, hidden), next state."""

    def sequence(self, x: Tensor, state: State, done: Tensor) -> tuple[Tensor, State]:
        """(T, B, input), state, (T, B) bool -> (T, B, hidden), state after the last step."""

    def initial_state(self, batch_size: int) -> State:
        """The state in which every episode begins."""


class ActorCritic(Protocol):
    """What the trainer asks of a policy; `done[t]` marks `obs[t]` as the first of a new episode.

    Both methods zero the state wherever `done`, before they process the observation.
    """

    def step(self, obs: Tensor, state: State, done: Tensor) -> tuple[Distribution, Tensor, State]:
        """(B, *obs), state, (B,) bool -> distribution over (B,), value (B,), next state."""

    def sequence(self, obs: Tensor, state: State, done: Tensor) -> tuple[Distribution, Tensor, State]:
        """(T, B, *obs), state, (T, B) bool -> distribution over (T, B), value (T, B), last state."""

    def initial_state(self, batch_size: int) -> State:
        """The state in which every episode begins."""
