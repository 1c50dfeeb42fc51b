"""Same seed, same numbers: whatever steps the environments, and across a stop in the middle."""

import io
from functools import partial

import pytest
import torch
from test_update import train_config

import ocean_numba
from puffertoolkit.errors import UserError
from puffertoolkit.modes.reproduce import first_difference
from puffertoolkit.policies import LSTMCore, MLPEncoder, NoCore, Policy
from puffertoolkit.seeding import SeedTree
from puffertoolkit.trainer.trainer import Trainer
from puffertoolkit.vector import make_vector

CPU = torch.device("cpu")
NUM_ENVS, HORIZON, ITERATIONS = 6, 12, 6


def trainer(name="Breakout", backend="native", num_threads=1, core=LSTMCore, num_envs=NUM_ENVS, **changes):
    # Episodes so short that several end within every rollout.
    cls = partial(getattr(ocean_numba, name), max_steps=17)
    vector = make_vector(backend, cls, num_envs, num_threads)
    settings = {"horizon": HORIZON, "minibatch_size": 24, "checkpoint_interval_s": 1e9}
    settings["total_timesteps"] = ITERATIONS * NUM_ENVS * HORIZON
    torch.manual_seed(0)
    policy = Policy(vector.single_observation_space, vector.single_action_space, 16, MLPEncoder, core)
    return Trainer(train_config(**{**settings, **changes}), vector, policy, SeedTree(4), CPU)


def run(trained, iterations=ITERATIONS, each=lambda: None):
    rows = []
    until = trained.epoch + iterations

    def report(row):
        rows.append(row)
        each()

    trained.train(report, lambda: None, lambda: trained.epoch == until)
    return rows


def assert_same(wanted, found, trained, other):
    assert len(wanted) == len(found)
    for there, here in zip(wanted, found, strict=True):
        assert first_difference(there, here) is None
    weights, others = (t.policy.state_dict() for t in (trained, other))
    assert all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.mark.parametrize("name", ["Breakout", "Cartpole"])
def test_numbers_do_not_depend_on_what_steps_the_environments(name):
    reference = trainer(name)
    rows = run(reference)
    assert sum("env/score" in row for row in rows) > ITERATIONS // 2
    for backend, num_threads in (("native", 2), ("serial", 1)):
        other = trainer(name, backend, num_threads)
        assert_same(rows, run(other), reference, other)


def copied(state):
    """As a checkpoint holds it."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


VARIANTS = {
    "plain": {},
    "no memory": {"core": NoCore},
    "serial": {"backend": "serial"},
    "another env": {"name": "Cartpole", "optimizer": "adamw", "update_epochs": 2},
    "rewards": {"normalize_rewards": True, "reward_clip": 2.0},
    "schedule": {"lr_schedule": "linear", "lr_warmup_steps": 200, "priority_alpha": 0.0},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_stopped_and_taken_up_equals_one_go(variant):
    straight = trainer(**VARIANTS[variant])
    rows = run(straight)
    first = trainer(**VARIANTS[variant])
    before = run(first, 3)
    state, weights = copied(first.state_dict()), copied(first.policy.state_dict())
    second = trainer(**VARIANTS[variant])
    torch.rand(5)  # whatever was drawn in between
    second.policy.load_state_dict(weights)
    assert second.load_state_dict(state) is True
    after = run(second)
    assert_same(rows, before + after, straight, second)
    assert after[0]["uptime_s"] > before[-1]["uptime_s"]


def test_saving_changes_nothing():
    saving, not_saving = trainer(), trainer()
    rows = run(saving, each=lambda: copied(saving.state_dict()))
    assert_same(rows, run(not_saving), saving, not_saving)


def test_environments_that_cannot_be_saved_begin_anew_with_a_seed_of_their_own(scripted):
    def plain():
        cfg = train_config(horizon=4, minibatch_size=8, total_timesteps=160, checkpoint_interval_s=1e9)
        vector = scripted(4)
        vector.seeds = []
        reset = vector.reset
        vector.reset = lambda seed: (vector.seeds.append(seed), reset(seed))
        space = vector.single_observation_space, vector.single_action_space
        return Trainer(cfg, vector, Policy(*space, 16, MLPEncoder, NoCore), SeedTree(0), CPU)

    first, second = plain(), plain()
    run(first, 2)
    state = copied(first.state_dict())
    assert state["vector"] is None
    assert second.load_state_dict(state) is False
    assert second.collector.starts.all()
    assert (second.step, second.epoch) == (32, 2)
    run(second, 1)
    assert len(first.vector.seeds) == len(second.vector.seeds) == 1
    assert first.vector.seeds != second.vector.seeds


@pytest.mark.parametrize("changes", [{"num_envs": 4}, {"name": "Cartpole", "core": NoCore}])
def test_the_state_of_other_environments_is_refused(changes):
    state = copied(trainer(core=NoCore).state_dict())
    other = trainer(**{"core": NoCore, **changes})
    with pytest.raises(UserError, match="The checkpoint is of other environments: the state is that of 6 x"):
        other.load_state_dict(state)
