"""What mode=bench measures, and that measuring leaves the trainer as it was. Never how fast anything is."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from puffertoolkit.config import schema
from puffertoolkit.config.paths import conf_dir
from puffertoolkit.modes import measure
from puffertoolkit.modes.session import Session
from puffertoolkit.trainer.trainer import Trainer
from puffertoolkit.vector import Vector

CPU = torch.device("cpu")
SMALL = ("vec.num_envs=16", "train.horizon=8", "train.minibatch_size=64", "num_threads=1")
QUICK = ("bench.repeats=3", "bench.duration_s=0.05", "bench.warmup_s=0.01")


def bench(folder, *overrides):
    command = [sys.executable, "-m", "puffertoolkit", "mode=bench", *overrides, *QUICK]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    (file,) = folder.rglob("bench.json")
    return json.loads(file.read_text()), result.stdout


@pytest.fixture
def trainer():
    schema.register()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = compose("config", ["env=squared", *SMALL])
    session = Session.build(cfg, cfg.vec.num_envs)
    made = Trainer(
        OmegaConf.to_object(cfg.train), session.vector, session.policy, session.seeds, session.device
    )
    made.begin()
    return made


@pytest.mark.parametrize(
    "overrides", [("env=squared",), ("env=cartpole", "vec=serial", "policy=lstm")], ids=" ".join
)
def test_the_report_is_whole_and_consistent(overrides, tmp_path):
    report, shown = bench(tmp_path, *overrides, *SMALL)
    for name in ("simulation", "rollout", "training"):
        repeats = report["repeats"][name]
        assert len(repeats) == 3
        assert min(repeats) > 0
        assert report["sps"][name] == sorted(repeats)[1]
        assert report["spread"][name] == pytest.approx((max(repeats) - min(repeats)) / sorted(repeats)[1])
        assert f"{report['sps'][name]:,.0f}" in shown
    assert set(report["shares"]) == {"env", "forward", "backward", "optimizer", "rest"}
    assert sum(report["shares"].values()) == pytest.approx(1)
    assert all(0 < share < 1 for share in report["shares"].values())
    assert report["num_agents"] == 16
    assert report["num_threads"] == 1
    assert report["command"].startswith(f"python -m puffertoolkit mode=bench {overrides[0]}")
    assert report["peak_memory_mb"] > 50
    assert report["versions"]["torch"] == torch.__version__


def test_fewer_than_three_repeats_are_refused(tmp_path):
    command = [sys.executable, "-m", "puffertoolkit", "mode=bench", "bench.repeats=2"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "bench.repeats" in result.stderr
    assert not list(tmp_path.iterdir())


def test_speed_is_steps_by_time():
    def work():
        time.sleep(0.02)
        return 100

    sps = measure.repeat(work, 0.1, CPU)
    # A sleep may last longer than asked for, never less.
    assert 0 < sps <= 5000
    assert measure.repeat(work, 0.0, CPU) > 0


def test_warm_up_is_not_measured():
    calls = []

    def work():
        calls.append(time.perf_counter())
        if len(calls) == 1:
            time.sleep(0.2)
        return 1

    speed = measure.Plan(repeats=3, duration_s=0.001, warmup_s=0.0).speed(work, CPU)
    assert len(speed.sps) == 3
    # Had the slow first call counted, its repeat would be at most 5 a second.
    assert min(speed.sps) > 5


def test_median_and_spread():
    speed = measure.Speed([10.0, 30.0, 20.0])
    assert speed.median == 20
    assert speed.spread == 1


class Still(Vector):
    """Does nothing but keep the actions; the last agent is dead."""

    def __init__(self, action_space):
        self.allocate_buffers(5, Box(-1, 1, (2,)), action_space)
        self.masks[-1] = False
        self.actions = []

    def reset(self, seed):
        self.seed = seed

    def step(self, actions):
        self.actions.append(actions.copy())

    def drain_rows(self):
        return np.zeros(5), {}

    def render(self, index=0):
        raise NotImplementedError

    def close(self):
        pass


@pytest.mark.parametrize(
    "space", [Discrete(3, start=-1), MultiDiscrete([2, 4]), Box(-2, 2, (3,), np.float32)], ids=str
)
def test_random_actions_are_what_a_policy_would_send(space):
    vector = Still(space)
    sets = measure.random_actions(vector, 8, seed=1)
    assert len(sets) == 8
    assert len({each.tobytes() for each in sets}) > 1
    for actions in sets:
        assert actions.shape == (5, *space.shape)
        if isinstance(space, Discrete):
            assert set(actions) <= {0, 1, 2}
        else:
            assert all(space.contains(action) for action in actions)
    again = measure.random_actions(vector, 8, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(sets, again, strict=True))


def test_dead_agents_take_no_steps(monkeypatch):
    monkeypatch.setattr(measure, "repeat", lambda work, duration_s, device: work())
    plan = measure.Plan(repeats=3, duration_s=0.0, warmup_s=0.0)
    # Four of five agents live, in each of the prepared steps.
    assert measure.simulation(Still(Discrete(3)), plan).median == 4 * measure.ACTION_SETS


def test_an_iteration_is_that_of_the_trainer_with_schedules_at_rest(trainer):
    iterate = measure.iteration(trainer)
    before = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    assert iterate() == 16 * 8
    assert iterate() == 16 * 8
    assert trainer.step == 0
    assert trainer.epoch == 2
    after = trainer.policy.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_the_stopwatch_times_each_part_and_goes_without_a_trace(trainer):
    iterate = measure.iteration(trainer)
    iterate()
    backward = torch.Tensor.backward
    held = [dict(vars(owner)) for owner in (trainer.vector, trainer.policy, trainer.learner)]
    watch = measure.Stopwatch(trainer)
    begun = time.perf_counter()
    with watch:
        assert torch.Tensor.backward is not backward
        iterate()
    total = time.perf_counter() - begun
    assert all(seconds > 0 for seconds in watch.seconds.values())
    assert sum(watch.seconds.values()) < total
    measured = dict(watch.seconds)
    iterate()
    assert watch.seconds == measured
    assert torch.Tensor.backward is backward
    for owner, names in zip((trainer.vector, trainer.policy, trainer.learner), held, strict=True):
        assert vars(owner).keys() == names.keys()
