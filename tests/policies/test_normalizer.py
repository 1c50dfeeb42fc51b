"""Observation normalisation against NumPy's mean and variance of everything seen."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from puffertoolkit.errors import UserError
from puffertoolkit.policies.normalizer import LARGEST, ObservationNormalizer

SPACE = spaces.Box(-np.inf, np.inf, (2, 3))


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 1000))
def test_statistics_are_those_of_all_that_was_seen_where_agents_were(lengths, seed):
    rng = np.random.default_rng(seed)
    module, seen = ObservationNormalizer(SPACE), []
    for length in lengths:
        observations = rng.normal(50, 3, (length, 4, 2, 3)).astype(np.float32)
        masks = rng.random((length, 4)) < 0.6
        seen.append(observations[masks])
        observations[~masks] = np.nan
        module.update(torch.from_numpy(observations), torch.from_numpy(masks))
    rows = np.concatenate(seen).astype(np.float64)
    assert module.count == len(rows)
    if len(rows):
        np.testing.assert_allclose(module.mean, rows.mean(0), rtol=1e-6)
        np.testing.assert_allclose(module.variance, rows.var(0), rtol=1e-4, atol=1e-6)
        mine = module(torch.from_numpy(rows.astype(np.float32)))
        expected = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-8)
        np.testing.assert_allclose(mine, np.clip(expected, -LARGEST, LARGEST), atol=2e-3)
    else:
        assert torch.equal(module(torch.ones(1, 2, 3)), torch.ones(1, 2, 3))


def test_outliers_are_clipped_and_constants_become_zero():
    module = ObservationNormalizer(SPACE)
    module.update(torch.full((4, 2, 2, 3), 7.0), torch.ones(4, 2, dtype=torch.bool))
    assert not module(torch.full((5, 2, 3), 7.0)).any()
    assert (module(torch.full((5, 2, 3), 9.0)) == LARGEST).all()


def test_statistics_are_saved_and_loaded():
    module, other = ObservationNormalizer(SPACE), ObservationNormalizer(SPACE)
    module.update(torch.randn(4, 2, 2, 3), torch.ones(4, 2, dtype=torch.bool))
    other.load_state_dict(module.state_dict())
    observation = torch.randn(5, 2, 3)
    assert torch.equal(module(observation), other(observation))


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(0, 255, (4,), np.uint8)])
def test_integers_are_refused(space):
    with pytest.raises(UserError, match="normalize_observations"):
        ObservationNormalizer(space)
