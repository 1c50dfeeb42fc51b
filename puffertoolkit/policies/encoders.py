"""Encoders: from observations to feature vectors of the hidden size."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

from gymnasium import spaces
from torch import Tensor, nn

from puffertoolkit.errors import UserError
from puffertoolkit.policies.init import HIDDEN_GAIN, orthogonal_linear
from puffertoolkit.policies.observations import make_features

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": partial(nn.ReLU, inplace=True),
    "tanh": nn.Tanh,
    "elu": partial(nn.ELU, inplace=True),
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


class MLPEncoder(nn.Module):
    """A multi-layer perceptron over the flattened observation; its sizes come from the space.

    Box observations of any shape are flattened. Integer ones (bytes above all) are divided by the space's
    high, or one-hot encoded where they take few values; Discrete and MultiDiscrete ones become one-hot
    columns, MultiBinary ones 0/1.

    Args:
        observation_space: of one agent.
        hidden_size: width of every layer and of the output.
        depth: number of layers.
        activation: relu, tanh, elu, gelu or silu, after every layer.
        one_hot_limit: integers that take at most so many values are codes, not amounts; 0: they never are.

    Raises:
        UserError: a space that is not flat (Dict, Tuple, ...), an unknown activation, `depth` below 1.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        hidden_size: int,
        depth: int = 1,
        activation: str = "relu",
        one_hot_limit: int = 16,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise UserError(f"policy.encoder.depth is {depth}; an MLPEncoder needs at least 1 layer.")
        self.features = make_features(observation_space, one_hot_limit)
        make_activation = _activation(activation)
        layers: list[nn.Module] = []
        size = self.features.size
        for _ in range(depth):
            layers += [orthogonal_linear(size, hidden_size, HIDDEN_GAIN), make_activation()]
            size = hidden_size
        self.layers = nn.Sequential(*layers)

    def forward(self, obs: Tensor) -> Tensor:
        """(batch, *obs) -> (batch, hidden_size)."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        out: Tensor = self.layers(self.features(obs, first.weight.dtype))
        return out


def _activation(name: str) -> Callable[[], nn.Module]:
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    near = difflib.get_close_matches(str(name), ACTIVATIONS, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise UserError(
        f"policy.encoder.activation is '{name}', which MLPEncoder does not know; "
        f"it knows {', '.join(ACTIVATIONS)}.{hint}"
    )
