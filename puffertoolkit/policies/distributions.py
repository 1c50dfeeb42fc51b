"""Light action distributions with the method names of `torch.distributions`.

They validate nothing and build nothing that is not asked for: a rollout makes one per step. Sampling draws
from Torch's global generator. Logits that are not finite give meaningless actions, not a crash; looking
for them costs a pass over the data (and a wait for the GPU), so it is left to the trainer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from puffertoolkit.errors import UserError


class Categorical:
    """Actions 0..n-1 with probabilities softmax(logits).

    Args:
        logits: (*batch, n), of any scale.
        mask: (*batch, n) bool, true where an action is legal. The others have probability exactly 0, are
            never sampled, and their log-probability is a large negative number, not -inf, so that no
            gradient can become NaN.

    Raises:
        UserError: some row of `mask` allows no action.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        if mask is not None:
            logits = _apply_mask(logits, mask)
        self.logits = _log_softmax(logits)

    @property
    def probs(self) -> Tensor:
        """Probabilities, (*batch, n)."""
        return self.logits.exp()

    def sample(self) -> Tensor:
        """Draw actions, (*batch) int64, by inverting the distribution function.

        One uniform number per row; on a CPU several times as fast as a race of exponential variables.
        """
        upto = self.logits.detach().exp().cumsum(-1)
        total = upto[..., -1:]
        # u < 1 strictly, and so is u * total < total after rounding: the last sum is never passed, and an
        # action of probability 0, whose sum equals its predecessor's, is never stopped at.
        return (upto <= torch.rand_like(total) * total).sum(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability of `action` (*batch) integer, shape (*batch)."""
        return self.logits.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, (*batch)."""
        return -(self.probs * self.logits).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The most likely action, (*batch) int64."""
        return self.logits.argmax(-1)


class MultiCategorical:
    """Several independent categorical components.

    Args:
        logits: (*batch, sum(nvec)), the components one after the other.
        nvec: number of actions of each component.
        mask: (*batch, sum(nvec)) bool, as for `Categorical`, for each component.

    Raises:
        UserError: `mask` allows some component no action.
    """

    def __init__(self, logits: Tensor, nvec: Sequence[int], mask: Tensor | None = None) -> None:
        if mask is not None:
            mask = _stack_components(mask, nvec, False)
        # Padding holds the same value as a masked action: probability 0, no part in the entropy.
        padded = _stack_components(logits, nvec, _impossible(logits.dtype))
        self._components = Categorical(padded, mask)

    def sample(self) -> Tensor:
        """Draw actions, (*batch, len(nvec)) int64."""
        return self._components.sample()

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability of `action` (*batch, len(nvec)) integer, shape (*batch)."""
        return self._components.log_prob(action).sum(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, (*batch)."""
        return self._components.entropy().sum(-1)

    @property
    def mode(self) -> Tensor:
        """The most likely action, (*batch, len(nvec)) int64."""
        return self._components.mode


class DiagonalNormal:
    """Independent normal components.

    Args:
        mean: (*batch, *action).
        log_std: (*action), the same for every state.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean
        self.log_std = log_std

    def sample(self) -> Tensor:
        """Draw actions, (*batch, *action) float."""
        noise = torch.randn_like(self.mean)
        return torch.addcmul(self.mean.detach(), noise, self.log_std.detach().exp())

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-density of `action` (*batch, *action), shape (*batch)."""
        z = (action - self.mean) * (-self.log_std).exp()
        return self._sum(-0.5 * z.square()) - (self.log_std + 0.5 * math.log(2 * math.pi)).sum()

    def entropy(self) -> Tensor:
        """Differential entropy in nats, (*batch)."""
        batch = self.mean.shape[: self.mean.dim() - self.log_std.dim()]
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum().expand(batch)

    @property
    def mode(self) -> Tensor:
        """The mean, (*batch, *action)."""
        return self.mean

    def _sum(self, values: Tensor) -> Tensor:
        dims = tuple(range(-self.log_std.dim(), 0))
        return values.sum(dims) if dims else values


def _log_softmax(logits: Tensor) -> Tensor:
    """Normalise over the last axis; on a CPU Torch's own kernel is slow for rows below a vector's width."""
    if logits.device.type == "cpu" and logits.shape[-1] < 16:
        return logits - logits.logsumexp(-1, keepdim=True)
    return logits.log_softmax(-1)


def _impossible(dtype: torch.dtype) -> float:
    """Return a logit whose probability is exactly 0, and whose products with any loss weight are finite."""
    return -math.sqrt(torch.finfo(dtype).max)


def _apply_mask(logits: Tensor, mask: Tensor) -> Tensor:
    if not bool(mask.any(-1).all()):
        raise UserError(
            "An action mask forbids every action of at least one agent; a distribution needs at least one "
            "legal action in each row. Let the environment leave one action legal even where it does nothing."
        )
    return logits.masked_fill(~mask, _impossible(logits.dtype))


def _stack_components(flat: Tensor, nvec: Sequence[int], fill: float | bool) -> Tensor:
    """(*batch, sum(nvec)) -> (*batch, len(nvec), max(nvec)), the shorter components padded with `fill`."""
    width = max(nvec)
    if len(set(nvec)) == 1:
        return flat.reshape(*flat.shape[:-1], len(nvec), width)
    parts = torch.split(flat, list(nvec), -1)
    return torch.stack([F.pad(part, (0, width - part.shape[-1]), value=fill) for part in parts], -2)
