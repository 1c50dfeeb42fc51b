"""From action spaces to distributions."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from puffertoolkit.errors import UserError
from puffertoolkit.policies import make_action_head


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (spaces.Discrete(4), (), torch.int64),
        (spaces.Discrete(4, start=3), (), torch.int64),
        (spaces.MultiDiscrete([2, 3, 4]), (3,), torch.int64),
        (spaces.Box(-1, 1, (2,)), (2,), torch.float32),
        (spaces.Box(-1, 1, (2, 3), np.float64), (2, 3), torch.float32),
        (spaces.Box(-1, 1, ()), (), torch.float32),
    ],
)
@pytest.mark.parametrize("batch", [(1,), (5,), (3, 2)])
def test_actions_have_the_spaces_shape(space, shape, dtype, batch):
    torch.manual_seed(0)
    dist = make_action_head(space, 8)(torch.randn(*batch, 8))
    for action in (dist.sample(), dist.mode):
        assert action.shape == (*batch, *shape)
        assert action.dtype == dtype
    assert dist.log_prob(dist.sample()).shape == batch
    assert dist.entropy().shape == batch


def test_discrete_actions_count_from_zero_whatever_the_start():
    dist = make_action_head(spaces.Discrete(3, start=7), 4)(torch.zeros(1000, 4))
    assert set(dist.sample().tolist()) == {0, 1, 2}


def test_heads_start_near_uniform():
    hidden = torch.randn(100, 32)
    for space in (spaces.Discrete(5), spaces.MultiDiscrete([5, 5])):
        head = make_action_head(space, 32)
        gains = torch.linalg.svdvals(head.linear.weight.detach())
        torch.testing.assert_close(gains, torch.full_like(gains, 0.01), atol=1e-6, rtol=0)
        assert not head.linear.bias.any()
    entropy = make_action_head(spaces.Discrete(5), 32)(hidden).entropy()
    assert (entropy > 0.99 * np.log(5)).all()


def test_box_starts_with_unit_deviation_and_small_mean():
    head = make_action_head(spaces.Box(-2, 2, (2, 3)), 32)
    dist = head(torch.randn(100, 32))
    assert head.log_std.shape == (2, 3)
    assert not head.log_std.any()
    assert dist.mode.abs().max() < 0.1
    draws = head(torch.zeros(50_000, 32)).sample()
    torch.testing.assert_close(draws.std(0), torch.ones(2, 3), atol=0.03, rtol=0)


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiBinary(3),
        spaces.Dict(a=spaces.Discrete(2)),
        spaces.Box(0, 5, (2,), np.int64),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    ],
)
def test_other_spaces_are_refused_by_name(space):
    with pytest.raises(UserError) as error:
        make_action_head(space, 8)
    assert type(space).__name__ in str(error.value)
    assert "heads for Discrete, MultiDiscrete" in str(error.value)
