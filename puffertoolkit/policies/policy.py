"""The policy: encoder, core, and the two heads on the core's output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from puffertoolkit.errors import UserError
from puffertoolkit.policies.heads import make_action_head
from puffertoolkit.policies.init import VALUE_GAIN, orthogonal_linear
from puffertoolkit.policies.interfaces import Core, Distribution, State
from puffertoolkit.policies.normalizer import ObservationNormalizer

ACTION_BOUNDS = ("clip", "tanh")


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
        normalize_observations: shift and scale every number of the observation to mean 0 and deviation 1 over
            what was seen in training; the statistics are saved with the weights.
        action_bounds: how an action leaves for a bounded Box, "clip" or "tanh"; the distribution is always
            that of the action before.

    Raises:
        UserError: `hidden_size` is not positive, `action_bounds` is something else, there is no head for
            `action_space`, or observations cannot be normalised.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        hidden_size: int,
        encoder: Callable[..., nn.Module],
        core: Callable[..., nn.Module],
        normalize_observations: bool = False,
        action_bounds: str = "clip",
    ) -> None:
        super().__init__()
        if hidden_size < 1:
            raise UserError(f"policy.hidden_size is {hidden_size}; it must be at least 1.")
        if action_bounds not in ACTION_BOUNDS:
            raise UserError(
                f"policy.action_bounds is '{action_bounds}'; it must be one of {', '.join(ACTION_BOUNDS)}."
            )
        self.action_bounds = action_bounds
        self.normalizer = ObservationNormalizer(observation_space) if normalize_observations else None
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
        hidden, state = self._core.step(self._encode(obs), state, done)
        return *self._heads(hidden), state

    def sequence(self, obs: Tensor, state: State, done: Tensor) -> tuple[Distribution, Tensor, State]:
        """Process T steps at once, with the results that T calls of `step` would give.

        Args:
            obs: (T, B, *obs).
            state: before the first step.
            done: (T, B) bool, as for `step`.

        Returns:
            The distribution over (T, B) actions, the values (T, B), and the state after the last step.
        """
        features = self._encode(obs.flatten(0, 1)).view(*obs.shape[:2], -1)
        hidden, state = self._core.sequence(features, state, done)
        return *self._heads(hidden), state

    def initial_state(self, batch_size: int) -> State:
        """Return the state in which every episode begins, for `batch_size` agents."""
        return self._core.initial_state(batch_size)

    def update_statistics(self, observations: Tensor, masks: Tensor) -> None:
        """Take what was seen into account from now on: observations (T, N, *obs), masks (T, N) bool."""
        if self.normalizer is not None:
            self.normalizer.update(observations, masks)

    def _encode(self, obs: Tensor) -> Tensor:
        features: Tensor = self.encoder(obs if self.normalizer is None else self.normalizer(obs))
        return features

    def _heads(self, hidden: Tensor) -> tuple[Distribution, Tensor]:
        # One product for both: the hidden layer is read once, and its gradient written once.
        action, value = self.action_head.linear, self.value_head
        weight, bias = torch.cat([action.weight, value.weight]), torch.cat([action.bias, value.bias])
        # Under autocast the product is rounded; what follows from it need not be.
        outputs = F.linear(hidden, weight, bias).to(weight.dtype)
        return self.action_head.distribution(outputs[..., :-1]), outputs[..., -1]

    @property
    def _core(self) -> Core:
        return cast(Core, self.core)
