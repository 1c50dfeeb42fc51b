"""How the layers of this package start; nothing here ever reaches into a user's module."""

from __future__ import annotations

import math

from torch import Tensor, nn

HIDDEN_GAIN = math.sqrt(2.0)
POLICY_GAIN = 0.01  # nearly equal action probabilities at the start, whatever the observation
VALUE_GAIN = 1.0


def orthogonal_linear(in_features: int, out_features: int, gain: float) -> nn.Linear:
    """Make a linear layer with orthogonal weights times `gain` and zero bias (Saxe et al. 2014)."""
    layer = nn.Linear(in_features, out_features)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def orthogonal_blocks_(weight: Tensor, blocks: int) -> Tensor:
    """Fill `weight` (blocks * rows, columns) in place, each block of rows orthogonal for itself."""
    for block in weight.data.chunk(blocks):
        nn.init.orthogonal_(block)
    return weight
