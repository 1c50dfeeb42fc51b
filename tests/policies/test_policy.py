"""The whole policy: `step` and `sequence` say the same, for every combination of parts."""

from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from puffertoolkit.errors import UserError
from puffertoolkit.policies import LSTMCore, MLPEncoder, NoCore, Policy, describe

OBSERVATION_SPACES = {
    "floats": spaces.Box(-1, 1, (3,), np.float32),
    "picture": spaces.Box(0, 255, (4, 3, 2), np.uint8),
    "integers": spaces.Box(-4, 9, (2, 2), np.int64),
    "discrete": spaces.Discrete(5, start=2),
    "multidiscrete": spaces.MultiDiscrete([3, 4]),
    "multibinary": spaces.MultiBinary(6),
}
ACTION_SPACES = {
    "discrete": spaces.Discrete(4),
    "multidiscrete": spaces.MultiDiscrete([3, 2, 4]),
    "box": spaces.Box(-1, 1, (2, 2)),
}
CORES = {"none": NoCore, "lstm": LSTMCore}


def make_policy(observation_space, action_space, core, hidden_size=16, policy=None, **encoder):
    torch.manual_seed(0)
    made = Policy(
        observation_space,
        action_space,
        hidden_size=hidden_size,
        encoder=partial(MLPEncoder, **encoder),
        core=partial(core),
        **(policy or {}),
    )
    with torch.no_grad():  # the small gain of the policy head would hide what depends on the state
        made.action_head.linear.weight.mul_(100)
    return made


def sample_observations(space, steps, batch):
    space.seed(1)
    flat = np.stack([space.sample() for _ in range(steps * batch)])
    return torch.as_tensor(flat.reshape(steps, batch, *space.shape))


def random_state(policy, batch):
    return tuple(torch.randn_like(part) for part in policy.initial_state(batch))


@pytest.mark.parametrize("obs_kind", OBSERVATION_SPACES)
@pytest.mark.parametrize("core_kind", CORES)
@pytest.mark.parametrize("action_kind", ACTION_SPACES)
@pytest.mark.parametrize(("steps", "batch", "depth"), [(9, 7, 1), (1, 1, 2), (1, 5, 1), (6, 1, 1)])
def test_steps_equal_the_sequence(obs_kind, core_kind, action_kind, steps, batch, depth):
    space = OBSERVATION_SPACES[obs_kind]
    policy = make_policy(space, ACTION_SPACES[action_kind], CORES[core_kind], depth=depth)
    obs = sample_observations(space, steps, batch)
    done = torch.rand(steps, batch) < 0.3
    start = random_state(policy, batch)

    state, actions, log_probs, values = start, [], [], []
    with torch.inference_mode():
        for t in range(steps):
            dist, value, state = policy.step(obs[t], state, done[t])
            actions.append(dist.sample())
            log_probs.append(dist.log_prob(actions[-1]))
            values.append(value)
    action, log_prob, value = (torch.stack(each).clone() for each in (actions, log_probs, values))

    dist, values, last = policy.sequence(obs, start, done)
    assert values.shape == (steps, batch)
    assert dist.entropy().shape == (steps, batch)
    torch.testing.assert_close(values, value, atol=1e-5, rtol=1e-5)
    ratio = (dist.log_prob(action) - log_prob).exp()
    torch.testing.assert_close(ratio, torch.ones_like(ratio), atol=1e-5, rtol=0)
    for a, b in zip(last, state, strict=True):
        torch.testing.assert_close(a, b.clone(), atol=1e-5, rtol=1e-5)


def test_a_reset_forgets_and_its_absence_remembers():
    space = OBSERVATION_SPACES["floats"]
    policy = make_policy(space, ACTION_SPACES["discrete"], LSTMCore)
    obs = sample_observations(space, 1, 4)[0]
    fresh = policy.step(obs, policy.initial_state(4), torch.zeros(4, dtype=torch.bool))[1]
    later = policy.step(obs, random_state(policy, 4), torch.tensor([True, True, False, False]))[1]
    assert torch.equal(fresh[:2], later[:2])
    assert (fresh[2:] != later[2:]).all()


@pytest.mark.parametrize("core_kind", CORES)
@pytest.mark.parametrize("action_kind", ACTION_SPACES)
def test_updates_lower_the_loss_and_reach_every_parameter(core_kind, action_kind):
    space = OBSERVATION_SPACES["picture"]
    policy = make_policy(space, ACTION_SPACES[action_kind], CORES[core_kind])
    obs = sample_observations(space, 5, 6)
    done = torch.rand(5, 6) < 0.2
    start = random_state(policy, 6)
    target = torch.randn(5, 6)
    action = policy.sequence(obs, start, done)[0].sample()

    def loss():
        dist, value, _ = policy.sequence(obs, start, done)
        return (value - target).square().mean() - dist.log_prob(action).mean() - 0.01 * dist.entropy().mean()

    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    before = loss()
    before.backward()
    assert all(p.grad is not None and p.grad.any() for p in policy.parameters())
    optimizer.step()
    after_one = loss()
    assert after_one < before
    for _ in range(20):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss() < after_one


def test_the_value_head_starts_with_gain_one():
    policy = make_policy(OBSERVATION_SPACES["floats"], ACTION_SPACES["discrete"], NoCore)
    assert policy.value_head.weight.detach().norm() == pytest.approx(1.0, abs=1e-5)
    assert not policy.value_head.bias.any()


def test_the_seed_decides_the_start():
    first, second = (
        make_policy(OBSERVATION_SPACES["floats"], ACTION_SPACES["box"], LSTMCore) for _ in range(2)
    )
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


class ConstantEncoder(nn.Module):
    """A user's encoder with weights of its own."""

    def __init__(self, observation_space, hidden_size):
        super().__init__()
        self.layer = nn.Linear(int(np.prod(observation_space.shape)), hidden_size)
        nn.init.constant_(self.layer.weight, 0.25)
        nn.init.constant_(self.layer.bias, 0.5)

    def forward(self, obs):
        return self.layer(obs.flatten(1))


class AveragingCore(nn.Module):
    """A user's core: a running mean, with a state of one tensor."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.size = hidden_size
        self.layer = nn.Linear(input_size, hidden_size)
        nn.init.constant_(self.layer.weight, 0.125)

    def step(self, x, state, done):
        mean = 0.5 * state[0] * (~done)[:, None] + 0.5 * self.layer(x)
        return mean, (mean,)

    def sequence(self, x, state, done):
        out = []
        for now, first in zip(x, done, strict=True):
            hidden, state = self.step(now, state, first)
            out.append(hidden)
        return torch.stack(out), state

    def initial_state(self, batch_size):
        return (torch.zeros(batch_size, self.size),)


def test_a_users_parts_plug_in_and_keep_their_weights():
    policy = Policy(
        spaces.Box(-1, 1, (2, 3)),
        spaces.Discrete(3),
        hidden_size=8,
        encoder=ConstantEncoder,
        core=AveragingCore,
    )
    assert (policy.encoder.layer.weight == 0.25).all()
    assert (policy.encoder.layer.bias == 0.5).all()
    assert (policy.core.layer.weight == 0.125).all()
    dist, value, (state,) = policy.sequence(
        torch.randn(4, 5, 2, 3), policy.initial_state(5), torch.zeros(4, 5, dtype=torch.bool)
    )
    assert dist.sample().shape == value.shape == (4, 5)
    assert state.shape == (5, 8)


def test_a_hidden_size_below_one_is_the_users_error():
    with pytest.raises(UserError, match="hidden_size is 0"):
        make_policy(OBSERVATION_SPACES["floats"], ACTION_SPACES["discrete"], NoCore, hidden_size=0)


def test_weights_load_back():
    policy = make_policy(OBSERVATION_SPACES["discrete"], ACTION_SPACES["box"], LSTMCore)
    other = make_policy(OBSERVATION_SPACES["discrete"], ACTION_SPACES["box"], LSTMCore)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1)
    other.load_state_dict(policy.state_dict())
    for a, b in zip(policy.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_describe_counts_every_parameter_once():
    policy = make_policy(OBSERVATION_SPACES["floats"], ACTION_SPACES["box"], LSTMCore, hidden_size=8)
    text = describe(policy)
    lines = {line.split()[0]: line for line in text.splitlines()}
    assert set(lines) == {
        "encoder.layers.0",
        "core",
        "action_head",
        "action_head.linear",
        "value_head",
        "total",
    }
    assert "8x3, 8" in lines["encoder.layers.0"]
    assert "LSTMCore" in lines["core"]
    total = sum(p.numel() for p in policy.parameters())
    assert lines["total"].split()[-1] == f"{total:,}"
    assert sum(int(line.split()[-1].replace(",", "")) for line in lines.values()) == 2 * total


def test_both_heads_in_one_product_equal_the_heads():
    space = OBSERVATION_SPACES["floats"]
    for kind, action_space in ACTION_SPACES.items():
        policy = make_policy(space, action_space, NoCore)
        obs = sample_observations(space, 1, 4)[0]
        dist, value, _ = policy.step(obs, (), torch.zeros(4, dtype=torch.bool))
        hidden = policy.encoder(obs)
        torch.testing.assert_close(value, policy.value_head(hidden).squeeze(-1))
        action = dist.sample()
        expected = policy.action_head(hidden).log_prob(action)
        torch.testing.assert_close(dist.log_prob(action), expected, msg=kind)


def test_normalised_observations_are_what_the_encoder_sees():
    space = OBSERVATION_SPACES["floats"]
    policy = make_policy(space, ACTION_SPACES["discrete"], NoCore, policy={"normalize_observations": True})
    plain = make_policy(space, ACTION_SPACES["discrete"], NoCore)
    plain.load_state_dict(policy.state_dict(), strict=False)
    obs = sample_observations(space, 6, 4)
    done = torch.zeros(6, 4, dtype=torch.bool)
    assert torch.equal(policy.sequence(obs, (), done)[1], plain.sequence(obs, (), done)[1])
    policy.update_statistics(obs, ~done)
    seen = (obs - obs.mean((0, 1))) / (obs.var((0, 1), correction=0) + 1e-8).sqrt()
    expected = plain.sequence(seen.clamp(-10, 10), (), done)[1]
    torch.testing.assert_close(policy.sequence(obs, (), done)[1], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(policy.step(obs[2], (), done[2])[1], expected[2], atol=1e-5, rtol=1e-4)


def test_action_bounds_are_checked():
    with pytest.raises(UserError, match="clip, tanh"):
        make_policy(
            OBSERVATION_SPACES["floats"], ACTION_SPACES["box"], NoCore, policy={"action_bounds": "clamp"}
        )
