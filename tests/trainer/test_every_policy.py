"""Before the first update, the update computes what the rollout computed: for every policy there is."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from omegaconf import OmegaConf
from test_update import train_config

from puffertoolkit.config.build import build_policy
from puffertoolkit.config.paths import conf_dir
from puffertoolkit.trainer.optim import Optimizer
from puffertoolkit.trainer.rollout import Collector
from puffertoolkit.trainer.update import Learner

CPU = torch.device("cpu")
POLICIES = sorted(path.stem for path in (conf_dir() / "policy").glob("*.yaml"))
SPACES = {
    "discrete": Discrete(3),
    "multidiscrete": MultiDiscrete([2, 4, 3]),
    "box": Box(-1, 1, (2,)),
    "open box": Box(-np.inf, np.inf, (3,)),
}
SETTINGS = {"plain": {}, "normalised": {"normalize_observations": True}, "tanh": {"action_bounds": "tanh"}}


@pytest.fixture
def small(scripted):
    """The scripted vector with observations near one, so that rounding is small, too."""

    class Small(scripted):
        def _observe(self):
            super()._observe()
            self.observations /= 300

        def step(self, actions):
            super().step(actions)
            self.final_observations /= 300

    return Small


def make(vector, name, **changes):
    torch.manual_seed(1)
    node = OmegaConf.load(conf_dir() / "policy" / f"{name}.yaml")
    node.update({key: value for key, value in changes.items() if key in node})
    policy = build_policy(node, vector.single_observation_space, vector.single_action_space, trust=[])
    with torch.no_grad():  # the small gain of new heads would hide what depends on the state
        for name, weight in policy.named_parameters():
            if "action_head" in name and weight.dim() == 2:
                weight.mul_(20)
    return policy


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_ratio_is_one_before_the_first_update(small, name, space, setting):
    ends = {"terminate": {(3, 1), (7, 2), (9, 4)}, "truncate": {(2, 0), (5, 4), (12, 3)}}
    vector = small(5, **ends, dead={(4, 1), (5, 1)}, action_space=SPACES[space])
    policy = make(vector, name, **SETTINGS[setting])
    collector = Collector(vector, policy, 7, CPU)
    for _ in range(3):  # later rollouts begin in the middle of episodes
        batch = collector.collect()
        for segments in (batch, batch.segments(torch.tensor([3, 0, 4])), batch.some(slice(2, 4))):
            dist, values, _ = policy.sequence(segments.observations, segments.initial_state, segments.starts)
            ratios = (dist.log_prob(segments.actions) - segments.logprobs).exp()
            torch.testing.assert_close(ratios, torch.ones_like(ratios), rtol=0, atol=1e-5)
            torch.testing.assert_close(values, segments.values, rtol=1e-5, atol=1e-5)
        # As the trainer does: what is seen is taken into account between the rollouts only.
        policy.update_statistics(batch.observations, batch.masks)


@pytest.mark.parametrize("name", POLICIES)
def test_the_first_minibatch_sees_no_change_and_the_next_ones_do(small, name):
    vector = small(6, terminate={(2, 1), (5, 4)}, truncate={(3, 2)})
    policy = make(vector, name, normalize_observations=True)
    for batches, seen in ((1, False), (3, True)):
        cfg = train_config("ppo", horizon=4, minibatch_size=24 // batches, update_epochs=1, lr=1e-2)
        update = Learner(policy, Optimizer(policy.parameters(), cfg), cfg, torch.Generator().manual_seed(0))
        row = update.update(Collector(vector, policy, 4, CPU).collect(), 0.0)
        assert (abs(row["train/approx_kl"].item()) > 1e-6) == seen


@pytest.mark.parametrize("name", POLICIES)
def test_the_statistics_of_observations_move_after_the_update_only(small, name):
    vector = small(6)
    policy = make(vector, name, normalize_observations=True)
    cfg = train_config("ppo", horizon=4, minibatch_size=8, update_epochs=2)
    update = Learner(policy, Optimizer(policy.parameters(), cfg), cfg, torch.Generator().manual_seed(0))
    counts = []
    policy.encoder.register_forward_hook(lambda *_: counts.append(policy.normalizer.count.item()))
    collector = Collector(vector, policy, 4, CPU)
    for rollout in range(2):
        counts.clear()
        update.update(collector.collect(), 0.0)
        assert set(counts) == {24.0 * rollout}
    assert policy.normalizer.count.item() == 48
