"""That the two trainings set side by side are given the same, and measured in turn."""

import inspect
import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from stable_baselines3 import PPO

from benchmarks import common, contention, scaling, train
from benchmarks.processes import Sample, Worker, end, running
from benchmarks.sb3 import OceanVecEnv, Trunk, build
from benchmarks.settings import CASES, OURS, Settings
from ocean_numba import Breakout, Cartpole
from puffertoolkit.errors import UserError

SMALL = Settings("breakout", 8, 16, 64, 1, hidden_size=16, threads=1)
QUICK = SimpleNamespace(repeats=3, duration_s=0.05, warmup_s=0.01, busy=1)


@pytest.fixture
def workers_start(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(common.__file__).rpartition("/benchmarks/")[0])


def test_the_adapter_shows_the_vector_as_it_is():
    adapter, plain = OceanVecEnv(Cartpole(num_envs=4, max_steps=10)), Cartpole(num_envs=4, max_steps=10)
    plain.reset(0)
    assert np.array_equal(adapter.reset(), plain.observations)
    cut = ended = 0
    for step in range(40):
        actions = np.full(4, step % 2) if step < 20 else np.ones(4, int)
        before = adapter.env.observations.copy()
        observations, rewards, dones, infos = adapter.step(actions)
        plain.step(actions)
        assert np.array_equal(observations, plain.observations)
        assert np.array_equal(rewards, plain.rewards)
        assert np.array_equal(dones, plain.terminations | plain.truncations)
        for agent in range(4):
            assert ("terminal_observation" in infos[agent]) == dones[agent]
            if dones[agent]:
                assert np.array_equal(infos[agent]["terminal_observation"], plain.final_observations[agent])
                assert infos[agent]["TimeLimit.truncated"] == plain.truncations[agent]
                cut, ended = cut + plain.truncations[agent], ended + plain.terminations[agent]
        # A buffer that the next step overwrites would change what a rollout has kept.
        kept = (observations.copy(), rewards.copy(), dones.copy())
        adapter.env.observations[:] = before
        adapter.env.rewards[:] = -1
        assert all(np.array_equal(a, b) for a, b in zip(kept, (observations, rewards, dones), strict=True))
        adapter.env.observations[:] = plain.observations
    assert cut
    assert ended


def test_one_call_is_one_rollout_and_one_update():
    iterate, facts = build(SMALL)
    assert facts["num_agents"] == 8
    model = next(
        cell.cell_contents for cell in iterate.__closure__ if hasattr(cell.cell_contents, "num_timesteps")
    )
    before = [p.detach().clone() for p in model.policy.parameters()]
    for count in (1, 2, 3):
        assert iterate() == 8 * 16
        assert model.num_timesteps == count * 8 * 16
        assert model._n_updates == count
    assert any((old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True))


def test_the_trunk_has_the_layers_that_are_asked_for():
    space = Breakout(num_envs=1).single_observation_space
    trunk = Trunk(space, 32, 3)
    shapes = [tuple(p.shape) for p in trunk.parameters() if p.ndim == 2]
    assert shapes == [(32, math.prod(space.shape)), (32, 32), (32, 32)]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_both_have_the_same_network_and_are_measured_in_turn(name, workers_start, capfd):
    case = replace(CASES[name], num_envs=8, horizon=16, minibatch_size=64, threads=1)
    result = train.compare(case, QUICK)
    for side in ("ours", "theirs"):
        assert len(result[side]["repeats"]) == 3
        assert result[side]["sps"] == sorted(result[side]["repeats"])[1] > 0
        assert result[side]["memory_mb"] > 50
    assert result["ratio"] == result["ours"]["sps"] / result["theirs"]["sps"]
    order = [
        line.split(":")[0].rsplit(" ", 1)[1] for line in capfd.readouterr().err.splitlines() if "/3" in line
    ]
    assert order == [train.OUR_NAME, train.THEIR_NAME] * 3


def test_unequal_trainings_are_refused():
    same = {"num_agents": 8, "parameters": 100, "num_threads": 1}
    train.require_same(same, dict(same))
    for fact in same:
        with pytest.raises(UserError, match=f"{fact} is .* in puffertoolkit and .* in Stable-Baselines3"):
            train.require_same(same, {**same, fact: 7})


def test_ours_is_set_to_the_defaults_of_the_other():
    theirs = {name: p.default for name, p in inspect.signature(PPO.__init__).parameters.items()}
    ours = dict(text.split("=") for text in SMALL.overrides())
    for key, name in {
        "lr": "learning_rate",
        "gamma": "gamma",
        "gae_lambda": "gae_lambda",
        "ent_coef": "ent_coef",
        "vf_coef": "vf_coef",
        "max_grad_norm": "max_grad_norm",
    }.items():
        assert float(ours[f"train.{key}"]) == theirs[name]
    assert theirs["clip_range_vf"] is None
    for case in CASES.values():
        common.require_valid([*OURS[case.env], *case.overrides()])


@pytest.mark.slow
def test_under_load(workers_start):
    small = ["env=squared", "vec.num_envs=16", "train.horizon=8", "train.minibatch_size=64", "num_threads=1"]
    measured = contention.measure(small, QUICK)
    assert [result["condition"] for result in measured["results"]] == list(contention.CONDITIONS)
    alone = measured["results"][0]
    assert alone["ratio"] == 1
    for result in measured["results"]:
        assert result["sps"] == sorted(result["repeats"])[1] > 0
        assert result["ratio"] == result["sps"] / alone["sps"]


class _Second:
    """Notes when it was told to train, for how long, and when it was asked for the result."""

    def begin(self, duration_s):
        self.begun, self.ends = time.monotonic(), time.monotonic() + duration_s

    def result(self, duration_s):
        self.asked = time.monotonic()


def test_the_second_training_goes_on_before_during_and_after_what_is_measured(monkeypatch):
    monkeypatch.setattr(contention, "LEAD_S", 0.2)
    second = _Second()
    with contention.beside("training", second, QUICK):
        assert time.monotonic() - second.begun >= contention.LEAD_S
        # The last iteration begins at the end of the time, and may take as long again.
        longest = 2 * QUICK.duration_s
        assert time.monotonic() + longest <= second.ends
        assert not hasattr(second, "asked")
    assert second.asked >= second.begun


@pytest.mark.parametrize(
    ("threads", "others", "cores", "share"),
    [(2, 0, 2, 1), (2, 1, 2, 2 / 3), (2, 2, 2, 1 / 2), (1, 1, 2, 1), (1, 3, 2, 1 / 2), (4, 4, 2, 1 / 2)],
)
def test_fair_share(threads, others, cores, share):
    assert contention.fair_share(threads, others, cores) == pytest.approx(share)


def test_the_same_minibatch_for_all_numbers_of_agents():
    options = SimpleNamespace(**vars(QUICK), overrides=["env=pong"], horizon=8, minibatch=64, threads=1)
    few, many = (scaling.overrides_of(agents, options) for agents in (16, 64))
    assert [(a, b) for a, b in zip(few, many, strict=True) if a != b] == [
        ("vec.num_envs=16", "vec.num_envs=64")
    ]
    common.require_valid(few)


@pytest.mark.slow
def test_cost_is_time_by_steps():
    options = SimpleNamespace(**vars(QUICK), overrides=["env=squared"], horizon=8, minibatch=64, threads=1)
    result = scaling.measure(scaling.overrides_of(16, options))
    assert result["num_agents"] == 16
    for kind in scaling.KINDS:
        assert result["ns_per_step"][kind] * result["sps"][kind] == pytest.approx(1e9)
    assert 0 < result["needed_memory_mb"] < result["peak_memory_mb"]


def test_a_worker_that_cannot_start_is_told(workers_start, capfd):
    settings = json.dumps(asdict(replace(SMALL, env="NoSuchGame-v0")))
    with (
        pytest.raises(UserError, match="the other ended with status"),
        Worker.start("the other", "sb3", settings),
    ):
        pass
    assert "NoSuchGame" in capfd.readouterr().err


def test_a_busy_process_is_busy_and_ends(workers_start):
    with Worker.start("busy", "busy") as worker:
        process = worker.process
        assert process.poll() is None
        process.stdin.close()
        # It ends with the benchmark even if that is killed: all it has of it is this pipe.
        assert process.wait(20) == 0


def test_a_process_that_does_not_listen_is_killed():
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    deaf = f"{ignore}; print(1, flush=True); time.sleep(99)"
    with running([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        end(process, grace_s=0.2)
        assert process.returncode == -9
    end(process)


def test_speed_of_a_sample():
    assert Sample(steps=100, seconds=4.0, memory_mb=1.0).sps == 25
