"""Every piece of the algorithm has a switch, and none of the switches is dead."""

import pytest
import torch
from test_update import learner, train_config

from puffertoolkit.policies import LSTMCore
from puffertoolkit.trainer.rewards import RewardShaper

CPU = torch.device("cpu")
# What is on, or strong enough to be felt; two epochs, so that clipping has something to clip.
ALL = {
    "update_epochs": 2,
    "minibatch_size": 12,
    "lr": 0.02,
    "vf_clip_coef": 0.1,
    "ent_coef": 0.05,
    "max_grad_norm": 0.05,
    "normalize_rewards": True,
    "reward_clip": 0.5,
    "weight_decay": 0.1,
    "vtrace_rho_clip": 1.0,
    "vtrace_c_clip": 1.0,
}
OFF = {
    "optimizer": "adam",
    "vtrace_rho_clip": None,
    "vtrace_c_clip": None,
    "priority_alpha": 0.0,
    "priority_beta": 0.0,
    "vf_clip_coef": None,
    "clip_coef": 1e6,
    "normalize_advantage": False,
    "normalize_rewards": False,
    "reward_clip": None,
    "max_grad_norm": 1e9,
    "ent_coef": 0.0,
    "vf_coef": 0.0,
    "gae_lambda": 1.0,
    "gamma": 0.0,
    "update_epochs": 1,
    "minibatch_size": 24,
    "lr": 0.01,
    "weight_decay": 0.0,
    "muon_momentum": 0.0,
    "adam_beta1": 0.0,
    "adam_beta2": 0.0,
    "adam_eps": 1.0,
    "horizon": 2,
}
# These change when and how much of it is done, not what an update does of a rollout; other tests are theirs.
ELSEWHERE = {
    "total_timesteps",
    "lr_schedule",
    "lr_min_ratio",
    "lr_warmup_steps",
    "device_batch_size",
    "precision",
    "compile",
    "checkpoint_interval_s",
    "keep_checkpoints",
}


def weights_after_training(scripted, **changes):
    """All weights after two rollouts and updates with `ALL` and the changes."""
    cfg = train_config(**{"horizon": 4, "priority_beta": 0.5, "vf_coef": 0.5, **ALL, **changes})
    vector = scripted(6, terminate={(2, 1), (5, 4)}, truncate={(3, 2)}, dead={(1, 5), (2, 5)})
    policy, collector, update = learner(vector, cfg, LSTMCore)
    rewards = RewardShaper(cfg, vector.num_agents, CPU)
    for progress in (0.0, 0.5):
        batch = collector.collect()
        batch.observations /= 500
        # As if an older policy had acted: ratios far from one, of which the clips have something to clip.
        batch.logprobs += torch.linspace(-0.5, 0.5, batch.logprobs.numel()).view_as(batch.logprobs)
        rewards.apply(batch)
        update.update(batch, progress)
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])


@pytest.fixture(scope="module")
def with_all():
    from conftest import Scripted

    return weights_after_training(Scripted)


def test_the_same_settings_give_the_same_update(scripted, with_all):
    assert torch.equal(weights_after_training(scripted), with_all)


@pytest.mark.parametrize("switch", OFF)
def test_switching_a_piece_off_changes_the_update(scripted, with_all, switch):
    without = weights_after_training(scripted, **{switch: OFF[switch]})
    assert without.isfinite().all()
    assert (without - with_all).abs().max() > 1e-5


def test_every_setting_has_its_test():
    assert set(OFF) | ELSEWHERE == set(vars(train_config()))
    assert not set(OFF) & ELSEWHERE
