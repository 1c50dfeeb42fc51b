"""Turn observations of any flat space into rows of floats, on the device where they already are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from puffertoolkit.errors import UserError

SUPPORTED = "Box, Discrete, MultiDiscrete and MultiBinary"


class Numbers(nn.Module):
    """Box and MultiBinary: flatten, and divide integers by the space's largest magnitude.

    Bytes stay bytes until here, so that they cross to the device and lie in the experience buffer at a
    quarter of the size. Floats pass unscaled.

    Args:
        size: numbers in one observation.
        scale: what to multiply by; a float for the whole observation or an array of `size` values.
    """

    scale: Tensor | None

    def __init__(self, size: int, scale: float | np.ndarray | None = None) -> None:
        super().__init__()
        self.size = size
        values = None if scale is None else torch.as_tensor(scale, dtype=torch.float32)
        self.register_buffer("scale", values, persistent=False)

    def forward(self, obs: Tensor, dtype: torch.dtype) -> Tensor:
        """(batch, *shape) of any dtype -> (batch, size) of `dtype`."""
        flat = obs.reshape(obs.shape[0], self.size).to(dtype)
        return flat if self.scale is None else flat * self.scale


class OneHot(nn.Module):
    """Discrete and MultiDiscrete: one 0/1 column for each value of each component.

    Args:
        nvec: number of values of each component.
        start: smallest value of each component.
    """

    offsets: Tensor

    def __init__(self, nvec: np.ndarray, start: np.ndarray) -> None:
        super().__init__()
        self.size = int(nvec.sum())
        first_column = np.cumsum(nvec) - nvec
        offsets = torch.as_tensor(first_column - start, dtype=torch.int64)
        self.register_buffer("offsets", offsets, persistent=False)

    def forward(self, obs: Tensor, dtype: torch.dtype) -> Tensor:
        """(batch, *shape) integers -> (batch, size) of `dtype`."""
        columns = obs.reshape(obs.shape[0], self.offsets.numel()).long() + self.offsets
        rows = torch.zeros(obs.shape[0], self.size, dtype=dtype, device=obs.device)
        return rows.scatter_(1, columns, 1.0)


class Codes(nn.Module):
    """Integer Box of few values (tiles, pieces): for each number a 0/1 column per value but the lowest.

    The lowest value, as a rule "empty", is the one whose columns are all 0: a column for it would only repeat
    what the others say.

    Args:
        count: numbers in one observation.
        low: smallest value.
        high: largest value.
    """

    values: Tensor

    def __init__(self, count: int, low: int, high: int) -> None:
        super().__init__()
        self.size = count * (high - low)
        self.register_buffer("values", torch.arange(low + 1, high + 1), persistent=False)

    def forward(self, obs: Tensor, dtype: torch.dtype) -> Tensor:
        """(batch, *shape) integers -> (batch, size) of `dtype`."""
        matches = obs.reshape(obs.shape[0], -1, 1) == self.values.to(obs.dtype)
        return matches.flatten(1).to(dtype)


def make_features(space: spaces.Space[Any], one_hot_limit: int = 0) -> Numbers | OneHot | Codes:
    """Make the module that turns observations of `space` into rows of floats.

    Args:
        space: of one observation.
        one_hot_limit: an integer Box whose numbers all take the same values, at most so many, is one-hot
            encoded rather than scaled; 0 for never.

    Returns:
        A module with the attribute `size`, called as `module(obs, dtype)`:
        (batch, *obs) -> (batch, size).

    Raises:
        UserError: the space is none of those supported, or holds no number at all.
    """
    module: Numbers | OneHot | Codes
    if isinstance(space, spaces.Box) and 2 < _num_codes(space) <= one_hot_limit:
        module = Codes(int(np.prod(space.shape)), int(space.low.flat[0]), int(space.high.flat[0]))
    elif isinstance(space, spaces.Box):
        module = Numbers(int(np.prod(space.shape)), _integer_scale(space))
    elif isinstance(space, spaces.MultiBinary):
        module = Numbers(int(np.prod(space.shape)))
    elif isinstance(space, spaces.Discrete):
        module = OneHot(np.array([space.n]), np.array([space.start]))
    elif isinstance(space, spaces.MultiDiscrete):
        module = OneHot(space.nvec.reshape(-1), space.start.reshape(-1))
    else:
        raise UserError(_unsupported(space))
    if module.size == 0:
        raise UserError(f"The observation space {space} is empty: there is nothing to learn from.")
    return module


def _num_codes(space: spaces.Box) -> int:
    """How many values each number of an integer Box takes; 0 for floats, or where they differ."""
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    same = low.size > 0 and bool(np.all(low == low[0]) and np.all(high == high[0]))
    if not same or not np.issubdtype(space.dtype, np.integer):
        return 0
    return int(high[0]) - int(low[0]) + 1


def _integer_scale(space: spaces.Box) -> float | np.ndarray | None:
    """Find what brings an integer Box within -1..1; None for floats.

    A bound at the limit of a 32- or 64-bit type says "unbounded", not "this large", and is left alone.
    """
    if not np.issubdtype(space.dtype, np.integer):
        return None
    magnitude = np.maximum(np.abs(space.low.astype(np.float64)), np.abs(space.high.astype(np.float64)))
    unbounded = magnitude >= np.iinfo(np.int32).max
    scale = 1.0 / np.where(unbounded | (magnitude == 0), 1.0, magnitude).reshape(-1)
    if scale.size == 0 or np.all(scale == scale[0]):
        return float(scale[0]) if scale.size else None
    return scale


def _unsupported(space: spaces.Space[Any]) -> str:
    kind = type(space).__name__
    advice = "Flatten the observation in the environment"
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        advice = (
            "Merge its parts into one Box in the environment (gymnasium.wrappers.FlattenObservation does it)"
        )
    return (
        f"MLPEncoder cannot take an observation space of type {kind}; it takes {SUPPORTED}. {advice}, "
        "or name an encoder of your own as policy.encoder._target_."
    )
