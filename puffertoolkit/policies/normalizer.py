"""Observations shifted and scaled by what was seen of them so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from puffertoolkit.errors import UserError

EPSILON = 1e-8
"""Added to a variance: a number that never changes becomes 0, not something infinite."""
LARGEST = 10.0
"""Normalised numbers are clipped to so many deviations, as is usual: outliers must not shake the network."""


class ObservationNormalizer(nn.Module):
    """Brings every number of a float observation to mean 0 and deviation 1 over all observations seen.

    Mean and variance are merged batch by batch in float64 and are buffers, so they are
    saved with the weights. Before the first `update` observations pass as they are.

    Args:
        space: of one observation.

    Raises:
        UserError: the space is no Box of floats.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, space: spaces.Space[Any]) -> None:
        super().__init__()
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise UserError(
                f"policy.normalize_observations takes a Box of floats, and the observation space is {space}; "
                "integers are scaled or one-hot encoded by the encoder. Leave normalize_observations=false."
            )
        self.register_buffer("mean", torch.zeros(space.shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(space.shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, obs: Tensor) -> Tensor:
        """(*batch, *obs) float -> the same, normalised."""
        scale = (self.variance + EPSILON).rsqrt().to(obs.dtype)
        return ((obs - self.mean.to(obs.dtype)) * scale).clamp(-LARGEST, LARGEST)

    @torch.no_grad()
    def update(self, observations: Tensor, masks: Tensor) -> None:
        """Merge what was seen: observations (T, N, *obs), of which those count where masks (T, N)."""
        there = masks.reshape(*masks.shape, *[1] * (observations.dim() - 2))
        steps = list(zip(observations, there, strict=True))
        count = masks.sum(dtype=torch.float64)
        some = count.clamp(min=1)
        # Step by step: of all at once, every intermediate would be as large as the whole experience.
        mean, variance = torch.zeros_like(self.mean), torch.zeros_like(self.variance)
        for rows, alive in steps:
            mean += rows.where(alive, 0).sum(0, dtype=torch.float64)
        mean /= some
        for rows, alive in steps:
            errors = (rows - mean.to(rows.dtype)).where(alive, 0)
            variance += errors.square().sum(0, dtype=torch.float64)
        variance /= some
        total, merged_mean, merged = merge_moments(
            (self.count, self.mean, self.variance), (count, mean, variance)
        )
        # The variance of 1 that stands there first stands for no observation at all.
        self.variance.copy_(torch.where(count > 0, merged, self.variance))
        self.mean.copy_(merged_mean)
        self.count.copy_(total)


Moments = tuple[Tensor, Tensor, Tensor]


def merge_moments(one: Moments, other: Moments) -> Moments:
    """Count, mean and variance of two sets of numbers together, from those of each (Chan et al. 1979)."""
    (count, mean, variance), (more, other_mean, other_variance) = one, other
    total = count + more
    divisor = total.clamp(min=1)
    shift = other_mean - mean
    merged = variance * count + other_variance * more + shift.square() * count * more / divisor
    return total, mean + shift * more / divisor, merged / divisor
