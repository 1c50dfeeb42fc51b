"""The advantage against a reference that loops over single steps, in float64 and without Torch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from puffertoolkit.trainer import advantage as advantage_module
from puffertoolkit.trainer.advantage import advantage, explained_variance
from puffertoolkit.trainer.experience import Experience


def experience(**arrays):
    shape = arrays["rewards"].shape
    empty = {name: np.zeros(shape) for name in ("observations", "actions", "logprobs")}
    flags = {"starts": np.zeros(shape, bool), "masks": np.ones(shape, bool)}
    fields = {**empty, **flags, **arrays}
    tensors = {
        k: torch.as_tensor(v, dtype=torch.bool if v.dtype == bool else torch.float64)
        for k, v in fields.items()
    }
    return Experience(**tensors, initial_state=())


@pytest.fixture(params=["_compiled", "_stepwise"], autouse=True, scope="module")
def implementation(request):
    """Run every test with the pass for CPUs, and with the operators that serve every other device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advantage_module, "_compiled", getattr(advantage_module, request.param))
        yield request.param


def random_rollout(seed, horizon, agents):
    rng = np.random.default_rng(seed)
    terminated = rng.random((horizon, agents)) < 0.2
    truncated = ~terminated & (rng.random((horizon, agents)) < 0.2)
    values = rng.normal(size=(horizon + 1, agents))
    final_values = rng.normal(size=(horizon, agents))
    next_values = np.where(terminated, 0, np.where(truncated, final_values, values[1:]))
    return {
        "rewards": rng.normal(size=(horizon, agents)),
        "values": values[:-1],
        "next_values": next_values,
        "ends": terminated | truncated,
    }, np.exp(rng.normal(size=(horizon, agents)))


def lambda_return_advantage(rollout, t, n, gamma, lam):
    """GAE by its definition: the λ-weighted mean of all k-step advantages, cut at the end of the episode."""
    rewards, values, follow, ends = (rollout[k][:, n] for k in ("rewards", "values", "next_values", "ends"))
    last = next((k for k in range(t, len(rewards)) if ends[k]), len(rewards) - 1)
    total, weight = 0.0, 1.0
    for k in range(t, last + 1):
        discounted = sum(gamma ** (j - t) * rewards[j] for j in range(t, k + 1))
        k_step = discounted + gamma ** (k - t + 1) * follow[k] - values[t]
        total += k_step * (weight if k == last else weight * (1 - lam))
        weight *= lam
    return total


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    horizon=st.integers(1, 12),
    agents=st.integers(1, 4),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
)
def test_equals_the_lambda_return(seed, horizon, agents, gamma, lam):
    rollout, _ = random_rollout(seed, horizon, agents)
    got = advantage(experience(**rollout), gamma, lam)
    wanted = [
        [lambda_return_advantage(rollout, t, n, gamma, lam) for n in range(agents)] for t in range(horizon)
    ]
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9, atol=1e-9)


def vtrace_target(rollout, ratios, t, n, gamma, rho_clip, c_clip):
    """v_t - V(s_t) of V-trace, from the sum in its definition (Espeholt et al. 2018, eq. 1)."""
    rewards, values, follow, ends = (rollout[k][:, n] for k in ("rewards", "values", "next_values", "ends"))
    total, product = 0.0, 1.0
    for k in range(t, len(rewards)):
        rho = min(rho_clip, ratios[k, n])
        total += gamma ** (k - t) * product * rho * (rewards[k] + gamma * follow[k] - values[k])
        if ends[k]:
            break
        product *= min(c_clip, ratios[k, n])
    return total


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    horizon=st.integers(1, 12),
    gamma=st.floats(0, 1),
    rho_clip=st.floats(0.2, 3),
    c_clip=st.floats(0.2, 3),
)
def test_equals_vtrace_when_lambda_is_one(seed, horizon, gamma, rho_clip, c_clip):
    rollout, ratios = random_rollout(seed, horizon, 3)
    got = advantage(experience(**rollout), gamma, 1.0, torch.from_numpy(ratios), rho_clip, c_clip)
    wanted = [
        [vtrace_target(rollout, ratios, t, n, gamma, rho_clip, c_clip) for n in range(3)]
        for t in range(horizon)
    ]
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9, atol=1e-9)


def test_ratios_of_one_are_plain_gae():
    rollout, _ = random_rollout(3, 9, 5)
    ones = torch.ones(9, 5, dtype=torch.float64)
    plain = advantage(experience(**rollout), 0.97, 0.9)
    for clip in (None, 1.0, 2.5):
        torch.testing.assert_close(advantage(experience(**rollout), 0.97, 0.9, ones, clip, clip), plain)


def test_one_rewarded_terminal_step():
    one = np.ones((1, 1))
    rollout = {"rewards": one, "values": 0 * one, "next_values": 0 * one, "ends": one.astype(bool)}
    assert advantage(experience(**rollout), 0.99, 0.95).item() == 1.0


def test_what_stands_under_the_mask_flows_nowhere():
    rollout, ratios = random_rollout(5, 8, 3)
    masks = np.ones((8, 3), bool)
    masks[3:, 1] = False
    rollout["ends"][2, 1] = True
    clean = advantage(experience(**rollout, masks=masks), 0.99, 0.95, torch.from_numpy(ratios), 1.0, 1.0)
    for name in ("rewards", "values", "next_values"):
        rollout[name][3:, 1] = math.nan
    dirty = advantage(experience(**rollout, masks=masks), 0.99, 0.95, torch.from_numpy(ratios), 1.0, 1.0)
    torch.testing.assert_close(dirty, clean)
    assert dirty[3:, 1].abs().sum() == 0


@pytest.mark.parametrize(("values", "wanted"), [([1.0, 2, 3], 1.0), ([2.0, 2, 2], 0.0), ([3.0, 2, 1], -3.0)])
def test_explained_variance(values, wanted):
    returns, masks = torch.tensor([1.0, 2, 3, 99]), torch.tensor([True, True, True, False])
    got = explained_variance(torch.tensor([*values, 5.0]), returns, masks)
    assert got.item() == pytest.approx(wanted)
