"""Which episodes count in an evaluation, and what is said about them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from puffertoolkit.errors import UserError
from puffertoolkit.modes.eval import evaluate, load_weights, summarise
from puffertoolkit.modes.session import Session, resolve_device
from puffertoolkit.policies import MLPEncoder, NoCore, Policy
from puffertoolkit.run.checkpoint import Checkpoint
from puffertoolkit.seeding import SeedTree
from puffertoolkit.vector import Vector


class Lengths(Vector):
    """Environment n always plays episodes of n + 1 steps and scores 10 n + the number of the episode."""

    def __init__(self, num_envs):
        self.allocate_buffers(num_envs, Box(-1, 1, (2,)), Discrete(2))

    def reset(self, seed):
        self.seed = seed
        self.steps = np.zeros(self.num_agents, int)
        self.counts = np.zeros(self.num_agents)
        self.played = np.zeros(self.num_agents, int)
        self.scores = np.zeros(self.num_agents)

    def step(self, actions):
        self.steps += 1
        self.terminations[:] = self.steps == np.arange(1, self.num_agents + 1)
        self.counts += self.terminations
        self.scores += self.terminations * (10 * np.arange(self.num_agents) + self.played)
        self.played += self.terminations
        self.steps[self.terminations] = 0

    def drain_rows(self):
        counts, scores = self.counts.copy(), self.scores.copy()
        self.counts[:], self.scores[:] = 0, 0
        return counts, {"score": scores}

    def render(self, index=0):
        return np.full((4, 6, 3), self.steps[index], np.uint8)

    def close(self):
        pass


def session(num_envs):
    vector = Lengths(num_envs)
    policy = Policy(vector.single_observation_space, vector.single_action_space, 8, MLPEncoder, NoCore)
    return Session("lengths", torch.device("cpu"), 1, SeedTree(3), vector, policy)


def settings(**changes):
    values = {
        "episodes": 10,
        "deterministic": False,
        "max_steps": 1000,
        "video": False,
        "video_max_steps": 50,
    }
    return SimpleNamespace(**{**values, **changes})


def test_each_environment_plays_its_share_however_long_it_takes():
    evaluation = evaluate(session(4), settings(episodes=10))
    # Ten episodes on four environments: three on the first two, two on the others; the first ones of each.
    wanted = [0, 1, 2, 10, 11, 12, 20, 21, 30, 31]
    assert sorted(evaluation.statistics["score"]) == wanted
    assert evaluation.unfinished == 0


def test_what_does_not_end_is_counted_as_unfinished():
    evaluation = evaluate(session(4), settings(episodes=4, max_steps=2))
    assert sorted(evaluation.statistics["score"]) == [0, 10]
    assert evaluation.unfinished == 2


def test_the_film_ends_with_the_first_episode():
    played = session(3)
    played.vector.render = lambda index: np.full((4, 6, 3), played.vector.steps[0], np.uint8)
    assert len(evaluate(played, settings(video=True)).frames) == 1
    assert len(evaluate(session(3), settings(video=False)).frames) == 0


def test_seeds_are_never_those_of_training():
    played = session(2)
    evaluate(played, settings())
    training = [SeedTree(seed).envs for seed in range(200)]
    assert played.vector.seed == SeedTree(3).evaluation
    assert played.vector.seed not in training


def test_summary_against_numpy():
    evaluation = evaluate(session(4), settings())
    report = summarise(evaluation, 0.95)
    scores = evaluation.statistics["score"]
    entry = report["statistics"]["score"]
    assert entry["mean"] == pytest.approx(np.mean(scores))
    # 2.262 is the 97.5 % quantile of Student's t with nine degrees of freedom.
    assert entry["plus_minus"] == pytest.approx(2.262 * np.std(scores, ddof=1) / np.sqrt(10), rel=1e-3)
    assert report["episodes"] == 10


def checkpoint_of(played, **changes):
    return Checkpoint("run/step_1", played.policy.state_dict(), {}, {**played.manifest(), **changes})


def test_weights_go_only_where_they_fit(tmp_path):
    played = session(2)
    load_weights(played, checkpoint_of(played))
    with pytest.raises(UserError, match="was trained on 'other' with the observations Box"):
        load_weights(played, checkpoint_of(played, env="other", observation_space="Box(4,)"))
    wider = session(2)
    wider.policy = Policy(Box(-1, 1, (2,)), Discrete(2), 16, MLPEncoder, NoCore)
    with pytest.raises(UserError, match="do not fit the policy"):
        load_weights(played, checkpoint_of(wider))


@pytest.mark.parametrize("name", ["cuda:99", "nonsense"])
def test_a_device_that_is_not_there(name):
    with pytest.raises(UserError, match="device=auto"):
        resolve_device(name)
