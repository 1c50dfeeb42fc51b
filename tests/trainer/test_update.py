"""Loss, minibatches, priorities and optimizers, each against an independent calculation."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import yaml
from gymnasium.spaces import Box, Discrete

from puffertoolkit.config.paths import conf_dir
from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.policies import LSTMCore, MLPEncoder, NoCore, Policy
from puffertoolkit.trainer.loss import Targets, ppo_loss
from puffertoolkit.trainer.optim import Optimizer, scheduled_lr
from puffertoolkit.trainer.rollout import Collector
from puffertoolkit.trainer.update import Learner, priorities

CPU = torch.device("cpu")


def train_config(name="pufferl", **changes):
    values = yaml.safe_load((conf_dir() / "train" / f"{name}.yaml").read_text())
    types = {field.name: field.type for field in dataclasses.fields(TrainConfig)}
    values = {k: float(v) if "float" in types[k] and v is not None else v for k, v in values.items()}
    return TrainConfig(**{**values, **changes})


def learner(vector, cfg, core=NoCore, seed=0):
    torch.manual_seed(seed)
    policy = Policy(vector.single_observation_space, vector.single_action_space, 16, MLPEncoder, core)
    collector = Collector(vector, policy, cfg.horizon, CPU)
    generator = torch.Generator().manual_seed(seed)
    return policy, collector, Learner(policy, Optimizer(policy.parameters(), cfg), cfg, generator)


@pytest.mark.parametrize("core", [NoCore, LSTMCore])
@pytest.mark.parametrize("action_space", [Discrete(3), Box(-1, 1, (2,))])
def test_ratio_is_one_before_the_first_update(scripted, core, action_space):
    cfg = train_config(horizon=6, minibatch_size=24)
    vector = scripted(4, truncate={(2, 0)}, terminate={(3, 1), (7, 2)}, action_space=action_space)
    policy, collector, _ = learner(vector, cfg, core)
    for _ in range(2):  # the second rollout begins in the middle of episodes
        batch = collector.collect()
        dist, values, _ = policy.sequence(batch.observations, batch.initial_state, batch.starts)
        torch.testing.assert_close(dist.log_prob(batch.actions), batch.logprobs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(values, batch.values, rtol=1e-5, atol=1e-5)


def reference_loss(logits, values, batch, advantages, cfg, weights):
    """The loss as a loop over single steps, in plain Python floats."""
    rows = [(t, n) for t in range(batch.horizon) for n in range(batch.num_agents) if batch.masks[t, n]]
    adv = {r: float(advantages[r]) for r in rows}
    returns = {r: adv[r] + float(batch.values[r]) for r in rows}
    if cfg.normalize_advantage:
        mean = sum(adv.values()) / len(rows)
        std = math.sqrt(sum((a - mean) ** 2 for a in adv.values()) / len(rows))
        adv = {r: (a - mean) / (std + 1e-8) for r, a in adv.items()}
    policy = value = entropy = 0.0
    for r in rows:
        p = np.exp(np.array(logits[r].tolist()))
        p /= p.sum()
        ratio = p[int(batch.actions[r])] / math.exp(float(batch.logprobs[r]))
        a = adv[r] * float(weights[r[1]])
        policy -= min(a * ratio, a * min(max(ratio, 1 - cfg.clip_coef), 1 + cfg.clip_coef))
        error = (float(values[r]) - returns[r]) ** 2
        if cfg.vf_clip_coef is not None:
            old = float(batch.values[r])
            near = old + min(max(float(values[r]) - old, -cfg.vf_clip_coef), cfg.vf_clip_coef)
            error = max(error, (near - returns[r]) ** 2)
        value += 0.5 * error
        entropy -= (p * np.log(p)).sum()
    return (policy + cfg.vf_coef * value - cfg.ent_coef * entropy) / len(rows)


@pytest.mark.parametrize("changes", [{}, {"vf_clip_coef": None}, {"normalize_advantage": False}])
def test_loss_equals_a_loop_over_steps(scripted, changes):
    cfg = train_config(horizon=5, minibatch_size=15, ent_coef=0.1, **changes)
    vector = scripted(3, dead={(1, 0), (2, 0)})
    _, collector, _ = learner(vector, cfg)
    batch = collector.collect()
    torch.manual_seed(4)
    logits, values = torch.randn(5, 3, 3), batch.values + torch.randn(5, 3)
    advantages, weights = torch.randn(5, 3), torch.rand(3)
    dist = torch.distributions.Categorical(logits=logits)
    log_ratios = dist.log_prob(batch.actions) - batch.logprobs
    targets = Targets.of(batch, advantages, weights, cfg)
    got, _ = ppo_loss(dist, values, log_ratios, batch, targets, cfg)
    assert got.item() == pytest.approx(
        reference_loss(logits, values, batch, advantages, cfg, weights), rel=1e-5
    )


def test_garbage_under_the_mask_changes_nothing(scripted):
    cfg = train_config(horizon=4, minibatch_size=20, priority_alpha=0.0)
    dead = {(t, n) for t in range(9) for n in (3, 4)}
    results = []
    for fill in (0.0, 1e6):
        policy, collector, update = learner(scripted(5, dead=dead), cfg)
        batch = collector.collect()
        for tensor in (batch.rewards, batch.values, batch.next_values):
            tensor[:, 3:] = fill
        batch.logprobs[:, 3:] = -7.0 if fill else 0.0
        batch.observations[:, 3:] = fill
        update.update(batch, 0.0)
        results.append(torch.cat([p.flatten() for p in policy.parameters()]))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("epochs", [1, 2])
def test_live_ratios_enter_the_loss(scripted, epochs):
    """The targets of the critic are those of advantages recomputed with the present policy's ratios."""
    cfg = train_config(
        horizon=4,
        minibatch_size=8,
        priority_alpha=0.0,
        vtrace_rho_clip=1.1,
        vtrace_c_clip=0.9,
        vf_clip_coef=None,
        update_epochs=epochs,
        lr=1e-30,
    )
    _, collector, update = learner(scripted(2), cfg)
    batch = collector.collect()
    losses = []
    for shift in (torch.zeros(8), torch.linspace(-1, 1, 8)):
        batch.logprobs -= shift.reshape(4, 2)
        ratios = shift.reshape(4, 2).exp().double().numpy()
        losses.append(update.update(batch, 0.0)["loss/value"].item())
        squares = []
        for n in range(2):
            carried = 0.0
            for t in reversed(range(4)):
                gap = batch.rewards[t, n] + cfg.gamma * batch.next_values[t, n] - batch.values[t, n]
                through = cfg.gamma * cfg.gae_lambda * min(0.9, ratios[t, n]) * (not batch.ends[t, n])
                carried = min(1.1, ratios[t, n]) * gap.item() + through * carried
                # The critic still says what it said: its error is the advantage.
                squares.append(0.5 * carried**2)
        assert losses[-1] == pytest.approx(sum(squares) / 8, rel=1e-4)
    assert losses[0] != pytest.approx(losses[1], rel=1e-2)


@pytest.mark.parametrize("agents", [8, 7])
def test_every_segment_once_an_epoch_in_a_new_order(scripted, agents):
    cfg = train_config("ppo", horizon=2, minibatch_size=6)
    _, collector, update = learner(scripted(agents), cfg)
    experience = collector.collect()
    orders = []
    for _ in range(2):
        batches = [index.tolist() for index, _ in update._minibatches(experience, None, 0.0)]
        assert [len(batch) for batch in batches] == [3, 3, agents - 6]
        orders.append([n for batch in batches for n in batch])
        assert sorted(orders[-1]) == list(range(agents))
    assert orders[0] != orders[1]


def test_priorities_against_brute_force():
    advantages = torch.tensor([[1.0, -2, 0, 0.5], [1.0, 3, 0, -0.5]])
    raw = [sum(abs(float(a)) for a in advantages[:, n]) ** 0.7 for n in range(4)]
    wanted = [w / sum(raw) for w in raw]
    torch.testing.assert_close(priorities(advantages, 0.7), torch.tensor(wanted))
    torch.testing.assert_close(priorities(torch.zeros(2, 4), 0.7), torch.full((4,), 0.25))


def test_priority_weights_undo_the_priorities_at_the_end(scripted):
    cfg = train_config(horizon=2, minibatch_size=8, priority_alpha=0.9, priority_beta=0.3)
    _, collector, update = learner(scripted(4), cfg)
    experience = collector.collect()
    estimates = update.advantage(experience, None)
    raw = [sum(abs(float(a)) for a in estimates[:, n]) ** 0.9 for n in range(4)]
    for progress, beta in ((0.0, 0.3), (0.5, 0.65), (1.0, 1.0)):
        index, weights = next(update._minibatches(experience, torch.ones(2, 4), progress))
        wanted = [(4 * raw[n] / sum(raw)) ** -beta for n in index.tolist()]
        torch.testing.assert_close(weights, torch.tensor(wanted))


def test_segments_are_drawn_as_often_as_their_priority_says(scripted):
    """The mean over draws weighted by 1 / (N p) is the plain mean over all segments: nothing is favoured."""
    cfg = train_config(horizon=2, minibatch_size=10, priority_alpha=0.5, priority_beta=1.0)
    _, collector, update = learner(scripted(5), cfg)
    experience = collector.collect()
    p = priorities(update.advantage(experience, None), 0.5).numpy()
    counts, weighed = np.zeros(5), np.zeros(5)
    for _ in range(2000):
        [(index, weights)] = update._minibatches(experience, torch.ones(2, 5), 0.0)
        np.add.at(counts, index.numpy(), 1)
        np.add.at(weighed, index.numpy(), weights.numpy())
    # Four standard deviations of a binomial count.
    assert (abs(counts - 10_000 * p) < 4 * np.sqrt(10_000 * p * (1 - p))).all()
    assert abs(weighed / counts - 1 / (5 * p)).max() < 1e-4


@pytest.mark.parametrize(("agents", "size", "wanted"), [(7, 6, [3, 3, 1]), (5, 4, [2, 2, 1]), (4, 4, [2, 2])])
@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_odd_numbers_of_segments_are_all_used(scripted, agents, size, wanted, alpha):
    """As many segments as there are agents are learnt from in an epoch, whatever the minibatch."""
    cfg = train_config(horizon=2, minibatch_size=size, priority_alpha=alpha, update_epochs=3)
    _, collector, update = learner(scripted(agents), cfg)
    sizes, sequence = [], update._sequence
    update._sequence = lambda obs, *rest: sizes.append(obs.shape[1]) or sequence(obs, *rest)
    row = update.update(collector.collect(), 0.0)
    assert sizes == 3 * wanted
    assert all(value.isfinite() for value in row.values())


def test_no_priorities_no_weights_and_every_segment_once(scripted):
    cfg = train_config(horizon=2, minibatch_size=4, priority_alpha=0.0)
    _, collector, update = learner(scripted(6), cfg)
    batches = list(update._minibatches(collector.collect(), torch.ones(2, 6), 0.0))
    assert [weights for _, weights in batches] == [None] * 3
    assert sorted(n for index, _ in batches for n in index.tolist()) == list(range(6))
    # And priorities of exponent 0 would be the same for all.
    torch.testing.assert_close(priorities(torch.randn(2, 6), 0.0), torch.full((6,), 1 / 6))


@pytest.mark.parametrize("optimizer", ["muon", "adam", "adamw"])
@pytest.mark.parametrize("core", [NoCore, LSTMCore])
def test_updates_lower_the_loss_of_a_fixed_batch(scripted, optimizer, core):
    cfg = train_config(
        horizon=8, minibatch_size=32, optimizer=optimizer, lr=0.01, priority_alpha=0.0, vf_clip_coef=None
    )
    _, collector, update = learner(scripted(4), cfg, core)
    batch = collector.collect()
    batch.observations /= 300
    batch.rewards /= 30
    batch.values.zero_()
    batch.next_values.zero_()
    losses = [update.update(batch, 0.0)["loss/value"].item() for _ in range(40)]
    assert losses[-1] < 0.7 * losses[0]


def test_muon_takes_the_matrices_and_adam_the_rest():
    policy = Policy(Box(-1, 1, (4,)), Box(-1, 1, (2,)), 16, MLPEncoder, NoCore)
    muon, adam = Optimizer(policy.parameters(), train_config()).parts
    assert isinstance(muon, torch.optim.Muon)
    assert all(p.ndim == 2 for g in muon.param_groups for p in g["params"])
    held = sum(len(g["params"]) for part in (muon, adam) for g in part.param_groups)
    assert held == len(list(policy.parameters()))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_does_not_spread_to_the_others(value):
    sound, broken = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = Optimizer([sound, broken], train_config(optimizer="adam"))
    sound.grad, broken.grad = torch.tensor([1.0, 2.0]), torch.tensor([0.0, value])
    assert not optimizer.clip_gradients().isfinite()
    assert sound.grad.isfinite().all()
    assert not broken.grad.isfinite().all()


@pytest.mark.parametrize("optimizer", ["muon", "adam", "adamw"])
def test_weight_decay_pulls_towards_zero_as_each_optimizer_has_it(optimizer):
    """Decoupled from the gradient with adamw and for Muon's matrices; part of the gradient with adam."""
    matrix = torch.nn.Parameter(torch.full((2, 2), 4.0))
    cfg = train_config(optimizer=optimizer, lr=0.1, weight_decay=0.5, adam_eps=1e-8)
    updates = Optimizer([matrix], cfg)
    matrix.grad = torch.zeros(2, 2)
    updates.step()
    # With no gradient Adam's own step is nothing; of a gradient that is the decay alone it is lr.
    wanted = 4.0 - 0.1 if optimizer == "adam" else 4.0 * (1 - 0.1 * 0.5)
    torch.testing.assert_close(matrix.detach(), torch.full((2, 2), wanted))


def test_gradient_clipping_and_its_report():
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = Optimizer([weight], train_config(optimizer="adam", max_grad_norm=1.0))
    (0.5 * weight.square().sum()).backward()
    norm = optimizer.clip_gradients()
    assert norm.item() == pytest.approx(5.0)
    torch.testing.assert_close(weight.grad, torch.tensor([0.6, 0.8]))


@pytest.mark.parametrize(
    ("schedule", "progress", "wanted"),
    [
        ("constant", 0.7, 1.0),
        ("linear", 0.0, 1.0),
        ("linear", 0.25, 0.775),
        ("linear", 1.0, 0.1),
        ("cosine", 0.0, 1.0),
        ("cosine", 0.5, 0.55),
        ("cosine", 1.0, 0.1),
    ],
)
def test_learning_rate(schedule, progress, wanted):
    cfg = train_config(lr=1.0, lr_schedule=schedule, lr_min_ratio=0.1, total_timesteps=1000)
    assert scheduled_lr(cfg, int(1000 * progress)) == pytest.approx(wanted)
    assert scheduled_lr(cfg, 5000) == scheduled_lr(cfg, 1000)
    warm = dataclasses.replace(cfg, lr_warmup_steps=400)
    rise = min(1.0, 1000 * progress / 400)
    assert scheduled_lr(warm, int(1000 * progress)) == pytest.approx(wanted * rise)
