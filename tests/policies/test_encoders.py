"""Observations of every flat space, as the encoder sees them."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from puffertoolkit.errors import UserError
from puffertoolkit.policies import MLPEncoder
from puffertoolkit.policies.observations import make_features


def features(space, obs):
    return make_features(space)(torch.as_tensor(np.asarray(obs)), torch.float32)


def test_float_box_of_any_rank_is_flattened_and_unscaled():
    obs = np.random.default_rng(0).normal(size=(3, 2, 4, 1)) * 50
    out = features(spaces.Box(-100, 100, (2, 4, 1), np.float64), obs)
    assert out.dtype == torch.float32
    np.testing.assert_allclose(out, obs.reshape(3, 8), rtol=1e-6)
    scalar = features(spaces.Box(-1, 1, (), np.float32), np.array([0.5, -0.5], np.float32))
    assert scalar.tolist() == [[0.5], [-0.5]]


def test_bytes_are_divided_by_the_spaces_high():
    obs = np.array([[[0, 255], [51, 102]]], np.uint8)
    out = features(spaces.Box(0, 255, (2, 2), np.uint8), obs)
    np.testing.assert_allclose(out, [[0, 1, 0.2, 0.4]], rtol=1e-6)
    out = features(spaces.Box(0, 5, (2,), np.uint8), np.array([[5, 1]], np.uint8))
    np.testing.assert_allclose(out, [[1, 0.2]], rtol=1e-6)


def test_integers_are_scaled_entry_by_entry_where_they_have_bounds():
    space = spaces.Box(np.array([-8, 0, 0]), np.array([4, 10, 0]), dtype=np.int16)
    out = features(space, np.array([[-8, 5, 0]], np.int16))
    np.testing.assert_allclose(out, [[-1, 0.5, 0]], rtol=1e-6)
    free = spaces.Box(-(2**31), 2**31 - 1, (2,), np.int32)
    assert features(free, np.array([[3, -7]], np.int32)).tolist() == [[3, -7]]
    endless = spaces.Box(0, np.inf, (1,), np.int64)
    assert features(endless, np.array([[9]])).tolist() == [[9]]


def test_discrete_is_one_hot_from_its_start():
    out = features(spaces.Discrete(3, start=5), np.array([5, 7, 6]))
    assert out.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_multi_discrete_is_one_hot_per_component_of_any_rank():
    space = spaces.MultiDiscrete(np.array([[2, 3], [1, 2]]), start=np.array([[0, 1], [0, -1]]))
    out = features(space, np.array([[[1, 1], [0, 0]], [[0, 3], [0, -1]]]))
    assert out.tolist() == [[0, 1, 1, 0, 0, 1, 0, 1], [1, 0, 0, 0, 1, 1, 1, 0]]


def test_multi_binary_is_zero_or_one():
    out = features(spaces.MultiBinary((2, 2)), np.array([[[1, 0], [0, 1]]], np.int8))
    assert out.tolist() == [[1, 0, 0, 1]]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (3, 2), np.float32),
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Discrete(6, start=-2),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiBinary(5),
    ],
)
@pytest.mark.parametrize("depth", [1, 3])
def test_encoder_takes_what_the_space_samples(space, depth):
    space.seed(0)
    encoder = MLPEncoder(space, 16, depth=depth, activation="tanh")
    obs = torch.as_tensor(np.stack([space.sample() for _ in range(7)]))
    out = encoder(obs)
    assert out.shape == (7, 16)
    assert out.dtype == torch.float32
    assert sum(isinstance(layer, torch.nn.Linear) for layer in encoder.layers) == depth
    out.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", torch.relu),
        ("tanh", torch.tanh),
        ("elu", torch.nn.functional.elu),
        ("gelu", torch.nn.functional.gelu),
        ("silu", torch.nn.functional.silu),
    ],
)
def test_the_network_is_what_it_says(activation, function):
    encoder = MLPEncoder(spaces.Box(-1, 1, (3,)), 8, depth=2, activation=activation)
    obs = torch.randn(5, 3)
    first, second = (layer for layer in encoder.layers if isinstance(layer, torch.nn.Linear))
    torch.testing.assert_close(encoder(obs), function(second(function(first(obs)))))


def test_weights_start_orthogonal_with_gain_sqrt_2_and_zero_bias():
    encoder = MLPEncoder(spaces.Box(-1, 1, (40,)), 24, depth=2)
    for layer in encoder.layers:
        if isinstance(layer, torch.nn.Linear):
            gains = torch.linalg.svdvals(layer.weight.detach())
            torch.testing.assert_close(gains, torch.full((24,), 2**0.5), atol=1e-5, rtol=0)
            assert not layer.bias.any()


def test_the_scale_moves_with_the_module_but_is_not_saved():
    encoder = MLPEncoder(spaces.Box(0, 255, (4,), np.uint8), 8).double()
    assert encoder(torch.full((2, 4), 255, dtype=torch.uint8)).dtype == torch.float64
    assert set(encoder.state_dict()) == {"layers.0.weight", "layers.0.bias"}


def test_what_it_cannot_take_is_said_clearly():
    with pytest.raises(UserError, match=r"type Dict.*FlattenObservation"):
        MLPEncoder(spaces.Dict(a=spaces.Discrete(2)), 8)
    with pytest.raises(UserError, match="type Text"):
        MLPEncoder(spaces.Text(3), 8)
    with pytest.raises(UserError, match="empty"):
        MLPEncoder(spaces.Box(0, 1, (0,)), 8)
    with pytest.raises(UserError, match="Did you mean 'relu'"):
        MLPEncoder(spaces.Discrete(2), 8, activation="rellu")
    with pytest.raises(UserError, match=r"knows relu, tanh.*gelu, silu\.$"):
        MLPEncoder(spaces.Discrete(2), 8, activation="xyz")
    with pytest.raises(UserError, match="depth is 0"):
        MLPEncoder(spaces.Discrete(2), 8, depth=0)
