"""The policy: encoder, core, and the two heads on the core's output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from gymnasium import spaces
from torch import Tensor, nn

from puffertoolkit.errors import UserError
from puffertoolkit.policies.heads import make_action_head
from puffertoolkit.policies.init import VALUE_GAIN, orthogonal_linear
from puffertoolkit.policies.interfaces import Core, Distribution, State


class Policy(nn.Module):
    """An actor-critic: `encoder -> core -> action head and value head`.

    Args:
        observation_space: of one agent.
        action_space: of one agent; it decides on the action head.
        hidden_size: width of the encoder's output and of the core's.
        encoder: called as `encoder(observation_space=..., hidden_size=...)`; returns a module that maps
            (batch, *obs) to (batch, hidden_size).
        core: called as `core(input_size=..., hidden_size=...)`; returns a module with the methods of
            `puffertoolkit.policies.interfaces.Core`.

    Raises:
        UserError: `hidden_size` is not positive, or there is no head for `action_space`.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        hidden_size: int,
        encoder: Callable[..., nn.Module],
        core: Callable[..., nn.Module],
    ) -> None:
        super().__init__()
        if hidden_size < 1:
            raise UserError(f"policy.hidden_size is {hidden_size}; it must be at least 1.")
        self.encoder = encoder(observation_space=observation_space, hidden_size=hidden_size)
        self.core = core(input_size=hidden_size, hidden_size=hidden_size)
        self.action_head = make_action_head(action_space, hidden_size)
        self.value_head = orthogonal_linear(hidden_size, 1, VALUE_GAIN)

    def step(self, obs: Tensor, state: State, done: Tensor) -> tuple[Distribution, Tensor, State]:
        """Act on one observation per agent.

        Args:
            obs: (B, *obs).
            state: as returned by the step before, or by `initial_state`.
            done: (B,) bool; true where `obs` is the first of a new episode. The state is zeroed there.

        Returns:
            The distribution over (B,) actions, the values (B,), and the next state.
        """
        hidden, state = self._core.step(self.encoder(obs), state, done)
        return self.action_head(hidden), self.value_head(hidden).squeeze(-1), state

    def sequence(self, obs: Tensor, state: State, done: Tensor) -> tuple[Distribution, Tensor, State]:
        """Process T steps at once, with the results that T calls of `step` would give.

        Args:
            obs: (T, B, *obs).
            state: before the first step.
            done: (T, B) bool, as for `step`.

        Returns:
            The distribution over (T, B) actions, the values (T, B), and the state after the last step.
        """
        features = self.encoder(obs.flatten(0, 1)).unflatten(0, obs.shape[:2])
        hidden, state = self._core.sequence(features, state, done)
        return self.action_head(hidden), self.value_head(hidden).squeeze(-1), state

    def value(self, obs: Tensor, state: State, done: Tensor) -> Tensor:
        """Return only the values (B,) that `step` would give, to bootstrap from."""
        hidden, _ = self._core.step(self.encoder(obs), state, done)
        values: Tensor = self.value_head(hidden).squeeze(-1)
        return values

    def initial_state(self, batch_size: int) -> State:
        """Return the state in which every episode begins, for `batch_size` agents."""
        return self._core.initial_state(batch_size)

    @property
    def _core(self) -> Core:
        return cast(Core, self.core)
