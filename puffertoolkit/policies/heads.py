"""Action heads: from the core's output to a distribution over the action space's actions.

The distributions speak of actions in their plainest form, and what steps the environment translates:
a Discrete(n, start=s) action is sampled as 0..n-1 and `s` added on its way to the environment (likewise
MultiDiscrete), and a Box action is not clipped to the bounds here, because its log-density is that of the
value sampled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from puffertoolkit.errors import UserError
from puffertoolkit.policies.distributions import Categorical, DiagonalNormal, MultiCategorical
from puffertoolkit.policies.init import POLICY_GAIN, orthogonal_linear
from puffertoolkit.policies.interfaces import Distribution

INITIAL_LOG_STD = 0.0
"""Where the log standard deviation of Box actions starts: a standard deviation of 1."""


class ActionHead(nn.Module):
    """A linear layer, and what its outputs mean."""

    linear: nn.Linear

    def distribution(self, outputs: Tensor) -> Distribution:
        """Outputs of `linear` (*batch, k) -> distribution over (*batch, *action) actions."""
        raise NotImplementedError

    def forward(self, hidden: Tensor) -> Distribution:
        """(*batch, hidden) -> distribution over (*batch, *action) actions."""
        return self.distribution(self.linear(hidden))


class DiscreteHead(ActionHead):
    """Logits of one choice among `n`."""

    def __init__(self, hidden_size: int, n: int) -> None:
        super().__init__()
        self.linear = orthogonal_linear(hidden_size, n, POLICY_GAIN)

    def distribution(self, outputs: Tensor) -> Categorical:
        """Outputs of `linear` (*batch, n) -> distribution over (*batch) actions."""
        return Categorical(outputs)


class MultiDiscreteHead(ActionHead):
    """Logits of several independent choices, of `nvec` values each."""

    def __init__(self, hidden_size: int, nvec: tuple[int, ...]) -> None:
        super().__init__()
        self.nvec = nvec
        self.linear = orthogonal_linear(hidden_size, sum(nvec), POLICY_GAIN)

    def distribution(self, outputs: Tensor) -> MultiCategorical:
        """Outputs of `linear` (*batch, sum(nvec)) -> distribution over (*batch, len(nvec)) actions."""
        return MultiCategorical(outputs, self.nvec)


class BoxHead(ActionHead):
    """Mean of a normal distribution, and a log standard deviation that does not depend on the state."""

    def __init__(self, hidden_size: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        self.linear = orthogonal_linear(hidden_size, int(np.prod(shape)), POLICY_GAIN)
        self.log_std = nn.Parameter(torch.full(shape, INITIAL_LOG_STD))

    def distribution(self, outputs: Tensor) -> DiagonalNormal:
        """Outputs of `linear` (*batch, size) -> distribution over (*batch, *shape) actions."""
        return DiagonalNormal(outputs.reshape(*outputs.shape[:-1], *self.shape), self.log_std)


def make_action_head(action_space: spaces.Space[Any], hidden_size: int) -> ActionHead:
    """Make the head for `action_space`.

    Raises:
        UserError: the space is none of Discrete, MultiDiscrete (one axis) and Box of floats.
    """
    if isinstance(action_space, spaces.Discrete):
        return DiscreteHead(hidden_size, int(action_space.n))
    if isinstance(action_space, spaces.MultiDiscrete) and action_space.nvec.ndim == 1:
        return MultiDiscreteHead(hidden_size, tuple(int(n) for n in action_space.nvec))
    if isinstance(action_space, spaces.Box) and np.issubdtype(action_space.dtype, np.floating):
        return BoxHead(hidden_size, action_space.shape)
    raise UserError(
        f"Policy has no head for the action space {action_space}; it has heads for Discrete, MultiDiscrete "
        "with one axis, and Box of floats. Wrap the environment so that its actions are one of these, or "
        "name a policy of your own as policy._target_."
    )
