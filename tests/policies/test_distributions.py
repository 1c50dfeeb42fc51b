"""The light distributions against `torch.distributions`."""

import numpy as np
import pytest
import torch
from torch import distributions as reference

from puffertoolkit.errors import UserError
from puffertoolkit.policies import Categorical, DiagonalNormal, MultiCategorical


def chi_square(counts, probs):
    """Pearson's statistic, in standard deviations above what chance gives on average."""
    counts, probs = np.asarray(counts, float), np.asarray(probs, float)
    assert counts[probs == 0].sum() == 0
    counts, probs = counts[probs > 0], probs[probs > 0]
    expected = counts.sum() * probs
    freedom = len(probs) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


def assert_same_with_gradients(ours, theirs, parameters, weights):
    """Compare two tensors, and the gradients of their weighted sums."""
    torch.testing.assert_close(ours, theirs)
    mine = torch.autograd.grad((ours * weights).sum(), parameters, allow_unused=True, retain_graph=True)
    other = torch.autograd.grad((theirs * weights).sum(), parameters, allow_unused=True, retain_graph=True)
    for a, b, p in zip(mine, other, parameters, strict=True):
        zero = torch.zeros_like(p)
        torch.testing.assert_close(zero if a is None else a, zero if b is None else b)


# 16 is where the normalisation changes its kernel.
@pytest.mark.parametrize("n", [1, 2, 5, 15, 16, 40])
@pytest.mark.parametrize("batch", [(1,), (7,), (3, 5)])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_categorical_matches_torch(n, batch, scale):
    torch.manual_seed(n)
    logits = (torch.randn(*batch, n) * scale).requires_grad_()
    ours, theirs = Categorical(logits), reference.Categorical(logits=logits)
    action, weights = torch.randint(0, n, batch), torch.randn(batch)
    assert_same_with_gradients(ours.log_prob(action), theirs.log_prob(action), [logits], weights)
    assert_same_with_gradients(ours.entropy(), theirs.entropy(), [logits], weights)
    torch.testing.assert_close(ours.probs, theirs.probs)
    torch.testing.assert_close(ours.mode, theirs.mode)
    sample = ours.sample()
    assert sample.shape == batch
    assert sample.dtype == torch.int64
    assert not sample.requires_grad


def test_log_prob_takes_any_integer_type():
    dist = Categorical(torch.randn(4, 3))
    action = torch.tensor([0, 2, 1, 1])
    for dtype in (torch.uint8, torch.int32):
        assert torch.equal(dist.log_prob(action.to(dtype)), dist.log_prob(action))


@pytest.mark.parametrize("n", [2, 6, 20])
def test_categorical_samples_with_its_probabilities(n):
    torch.manual_seed(3)
    logits = torch.randn(n)
    draws = Categorical(logits.expand(200_000, n)).sample()
    counts = torch.bincount(draws, minlength=n)
    assert abs(chi_square(counts, logits.softmax(0))) < 5


def test_rows_are_sampled_independently():
    torch.manual_seed(4)
    draws = Categorical(torch.zeros(200_000, 2)).sample().view(-1, 2)
    pairs = torch.bincount(draws[:, 0] * 2 + draws[:, 1], minlength=4)
    assert abs(chi_square(pairs, [0.25] * 4)) < 5


def test_sampling_follows_the_global_generator():
    dist = Categorical(torch.randn(64, 5))
    torch.manual_seed(5)
    first = dist.sample()
    assert not torch.equal(first, dist.sample())
    torch.manual_seed(5)
    assert torch.equal(first, dist.sample())


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-24])
def test_extreme_draws_stay_legal(uniform, monkeypatch):
    """The ends of what the generator can return never reach an action of probability 0, or past the last."""
    torch.manual_seed(6)
    logits = torch.randn(20_000, 5) * 4
    mask = torch.rand(20_000, 5) < 0.5
    mask[:, 2] = True
    monkeypatch.setattr(torch, "rand_like", lambda t: torch.full_like(t, uniform))
    action = Categorical(logits, mask).sample()
    assert action.max() <= 4
    assert mask.gather(1, action[:, None]).all()
    free = Categorical(logits).sample()
    assert free.max() <= 4


@pytest.mark.parametrize("n", [4, 17])
def test_mask_gives_probability_zero_and_stays_finite(n):
    torch.manual_seed(7)
    logits = torch.randn(50, n, requires_grad=True)
    mask = torch.rand(50, n) < 0.4
    mask[torch.arange(50), torch.arange(50) % n] = True
    mask[0] = False
    mask[0, 1] = True  # a single legal action
    dist = Categorical(logits, mask)
    theirs = reference.Categorical(logits=logits.masked_fill(~mask, -1e9))
    assert (dist.probs[~mask] == 0).all()
    torch.testing.assert_close(dist.probs, theirs.probs)
    everything = torch.arange(n)[:, None].expand(n, 50)
    log_probs = torch.stack([dist.log_prob(action) for action in everything])
    assert log_probs.isfinite().all()
    legal = mask.long().argmax(1)
    weights = torch.randn(50)
    assert_same_with_gradients(dist.log_prob(legal), theirs.log_prob(legal), [logits], weights)
    assert_same_with_gradients(dist.entropy(), theirs.entropy(), [logits], weights)
    assert dist.entropy()[0].abs() < 1e-6
    assert mask.gather(1, dist.mode[:, None]).all()
    for _ in range(200):
        assert mask.gather(1, dist.sample()[:, None]).all()


def test_masked_samples_have_the_remaining_probabilities():
    torch.manual_seed(8)
    logits = torch.randn(5)
    mask = torch.tensor([False, True, True, False, True])
    draws = Categorical(logits.expand(100_000, 5), mask.expand(100_000, 5)).sample()
    probs = (logits.softmax(0) * mask) / (logits.softmax(0) * mask).sum()
    assert abs(chi_square(torch.bincount(draws, minlength=5), probs)) < 5


def test_a_row_without_a_legal_action_is_the_users_error():
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1] = False
    with pytest.raises(UserError, match="forbids every action"):
        Categorical(torch.zeros(3, 4), mask)
    with pytest.raises(UserError, match="forbids every action"):
        MultiCategorical(torch.zeros(5), (3, 2), torch.tensor([True, True, True, False, False]))


def test_non_finite_logits_do_not_crash():
    logits = torch.tensor([[float("nan"), 0.0], [float("inf"), 0.0], [-float("inf"), 0.0]])
    dist = Categorical(logits)
    assert dist.sample().shape == (3,)
    assert not dist.log_prob(torch.zeros(3)).isfinite().all()


@pytest.mark.parametrize("nvec", [(3,), (4, 4), (2, 5, 3), (1, 20)])
@pytest.mark.parametrize("batch", [(1,), (6,), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_categorical_matches_a_categorical_per_component(nvec, batch, masked):
    torch.manual_seed(sum(nvec))
    logits = torch.randn(*batch, sum(nvec), requires_grad=True)
    mask = torch.rand(*batch, sum(nvec)) < 0.5
    mask[..., np.cumsum(nvec) - 1] = True
    ours = MultiCategorical(logits, nvec, mask if masked else None)
    used = logits.masked_fill(~mask, -1e9) if masked else logits
    parts = [reference.Categorical(logits=part) for part in used.split(nvec, -1)]
    action = torch.stack([part.sample() for part in parts], -1)
    weights = torch.randn(batch)
    log_prob = sum(part.log_prob(action[..., k]) for k, part in enumerate(parts))
    entropy = sum(part.entropy() for part in parts)
    assert_same_with_gradients(ours.log_prob(action), log_prob, [logits], weights)
    assert_same_with_gradients(ours.entropy(), entropy, [logits], weights)
    assert torch.equal(ours.mode, torch.stack([part.mode for part in parts], -1))
    sample = ours.sample()
    assert sample.shape == (*batch, len(nvec))
    assert sample.dtype == torch.int64
    assert (sample < torch.tensor(nvec)).all()
    assert (ours.log_prob(sample) > -1e6).all()


def test_multi_categorical_samples_with_its_probabilities():
    torch.manual_seed(9)
    nvec = (2, 5, 3)
    logits = torch.randn(sum(nvec))
    draws = MultiCategorical(logits.expand(100_000, sum(nvec)), nvec).sample()
    for component, part in zip(draws.T, logits.split(nvec), strict=True):
        assert abs(chi_square(torch.bincount(component, minlength=len(part)), part.softmax(0))) < 5
    together = torch.bincount(draws[:, 1] * 3 + draws[:, 2], minlength=15)
    joint = torch.outer(logits[2:7].softmax(0), logits[7:].softmax(0)).flatten()
    assert abs(chi_square(together, joint)) < 5


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
@pytest.mark.parametrize("batch", [(1,), (5,), (4, 2)])
def test_diagonal_normal_matches_torch(shape, batch):
    torch.manual_seed(10)
    mean = torch.randn(*batch, *shape, requires_grad=True)
    log_std = torch.randn(shape, requires_grad=True)
    ours = DiagonalNormal(mean, log_std)
    theirs = reference.Independent(reference.Normal(mean, log_std.exp()), len(shape))
    action, weights = torch.randn(*batch, *shape), torch.randn(batch)
    assert_same_with_gradients(ours.log_prob(action), theirs.log_prob(action), [mean, log_std], weights)
    assert_same_with_gradients(ours.entropy(), theirs.entropy(), [mean, log_std], weights)
    assert torch.equal(ours.mode, mean)
    sample = ours.sample()
    assert sample.shape == (*batch, *shape)
    assert sample.dtype == torch.float32
    assert not sample.requires_grad


def test_diagonal_normal_samples_have_its_moments():
    torch.manual_seed(11)
    mean, log_std = torch.tensor([3.0, -1.0]), torch.tensor([-1.0, 0.5])
    draws = DiagonalNormal(mean.expand(200_000, 2), log_std).sample()
    z = (draws - mean) / log_std.exp()
    assert z.mean(0).abs().max() < 5 / 200_000**0.5
    torch.testing.assert_close(z.T.cov(), torch.eye(2), atol=0.02, rtol=0)
    assert (z**4).mean() == pytest.approx(3, abs=0.1)
