"""The program as a user runs it: train, look at what it left, evaluate, and make mistakes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SMALL = ("vec.num_envs=64", "train.horizon=16", "train.minibatch_size=512")


def program(*overrides, cwd, timeout=240):
    command = [sys.executable, "-m", "puffertoolkit", *overrides]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout)


def train(cwd, *overrides):
    result = program("train.total_timesteps=20_000", *SMALL, *overrides, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result, run_directory(result)


def run_directory(result):
    return Path(re.search(r"checkpoint=(\S+)$", result.stdout, re.M).group(1))


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    result, run = train(folder, "env=squared", "seed=3")
    return folder, folder / run, result


def test_a_run_leaves_what_it_promises(trained):
    folder, run, result = trained
    assert run.relative_to(folder).parts[:3] == ("outputs", "train", "squared")
    assert run.name.endswith("_s3")
    for name in (".hydra/config.yaml", "run.json", "metrics.jsonl", "tb", "checkpoints"):
        assert (run / name).exists(), name
    last = rows(run)[-1]
    assert last["step"] >= 20_000
    for key in ("epoch", "uptime_s", "sps", "env/score", "env/perf", "loss/policy", "loss/value", "train/lr"):
        assert key in last
    events = EventAccumulator(str(run / "tb")).Reload()
    assert events.Scalars("loss/value")[-1].step == last["step"]
    assert json.loads((run / "run.json").read_text())["seed"] == 3
    assert "mode=eval checkpoint=" in result.stdout
    assert "\x1b" not in result.stdout


def test_evaluation_of_a_run(trained):
    folder, run, _ = trained
    result = program(
        "mode=eval", f"checkpoint={run}", "eval.episodes=20", "eval.video=true", "eval.num_envs=8", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(next((folder / "outputs" / "eval" / "squared").glob("*/eval.json")).read_text())
    assert report["episodes"] == 20
    assert set(report["statistics"]) == {"score", "perf", "episode_return", "episode_length"}
    score, perf = report["statistics"]["score"], report["statistics"]["perf"]
    assert perf["mean"] == pytest.approx((score["mean"] + 1) / 2)
    assert score["plus_minus"] > 0
    with Image.open(next((folder / "outputs" / "eval").rglob("*.gif"))) as gif:
        assert gif.size == (704, 704)
    assert "perf" in result.stdout


def test_evaluation_repeats_exactly_and_depends_on_its_seed(trained):
    folder, run, _ = trained

    def means(seed):
        result = program("mode=eval", f"checkpoint={run}", f"seed={seed}", "eval.episodes=30", cwd=folder)
        path = re.search(r"^json +(.+)$", result.stdout, re.M).group(1)
        return json.loads((folder / path).read_text())["statistics"]

    assert means(1) == means(1)
    assert means(1) != means(2)


def test_a_checkpoint_of_another_env_is_refused(trained):
    folder, run, _ = trained
    result = program("mode=eval", f"checkpoint={run}", "env=pong", cwd=folder)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "squared" in result.stderr
    assert "pong" in result.stderr


def without_times(run):
    def keep(key):
        return not key.startswith(("time/", "sys/")) and key not in ("sps", "uptime_s")

    return [{k: v for k, v in row.items() if keep(k)} for row in rows(run)]


def test_same_seed_same_numbers_other_seed_others(tmp_path):
    runs = [tmp_path / train(tmp_path, "env=squared", "seed=5")[1] for _ in range(2)]
    assert without_times(runs[0]) == without_times(runs[1])
    assert runs[0] != runs[1]
    other = tmp_path / train(tmp_path, "env=squared", "seed=6")[1]
    assert without_times(runs[0]) != without_times(other)


@pytest.mark.parametrize("policy", ["mlp", "lstm"])
@pytest.mark.parametrize("algorithm", ["ppo", "pufferl"])
@pytest.mark.parametrize("env", ["cartpole", "breakout", "pong"])
def test_every_combination_trains(tmp_path, env, algorithm, policy):
    _, run = train(
        tmp_path, f"env={env}", f"train={algorithm}", f"policy={policy}", "train.total_timesteps=3000"
    )
    assert all(row["loss/value"] is not None for row in rows(tmp_path / run))


def test_continuous_actions_and_the_serial_backend(tmp_path):
    _, run = train(
        tmp_path,
        "env=cartpole",
        "env.continuous=true",
        "vec=serial",
        "vec.num_envs=8",
        "train.minibatch_size=128",
    )
    assert rows(tmp_path / run)[-1]["step"] >= 20_000


@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c(tmp_path, signals):
    command = [
        sys.executable,
        "-m",
        "puffertoolkit",
        "env=squared",
        "train.total_timesteps=100_000_000",
        *SMALL,
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    metrics = None
    for _ in range(600):
        metrics = next(tmp_path.rglob("metrics.jsonl"), None)
        if metrics and metrics.stat().st_size:
            break
        time.sleep(0.1)
    if signals == 2:
        # Stopped in between, or the run might end by the first signal before the second arrives.
        process.send_signal(signal.SIGSTOP)
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
    else:
        process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    checkpoints = list(metrics.parent.glob("checkpoints/step_*"))
    assert "Traceback" not in stderr
    if signals == 2:
        assert process.returncode == 130
    else:
        assert process.returncode == 0
        assert len(checkpoints) == 1
        assert "mode=eval checkpoint=" in stdout


def test_multirun_makes_a_directory_and_a_line_each(tmp_path):
    result = program(
        "-m", "env=squared,cartpole", "seed=1,2", "train.total_timesteps=5000", *SMALL, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    runs = {path.parent for path in tmp_path.rglob("metrics.jsonl")}
    assert len(runs) == 4
    for env in ("squared", "cartpole"):
        for seed in (1, 2):
            assert any(env in run.name and run.name.endswith(f"s{seed}") for run in runs)


@pytest.mark.slow
def test_twenty_seconds_of_training_improve_the_score(tmp_path):
    result = program("env=breakout", "train.lr=0.01", "train.total_timesteps=3_000_000", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    scores = [row["env/score"] for row in rows(tmp_path / run_directory(result)) if "env/score" in row]
    assert scores[0] < 2
    assert scores[-1] >= 5


def test_says_so_while_kernels_compile_for_the_first_time(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    first, _ = train(tmp_path, "env=squared")
    again, _ = train(tmp_path, "env=squared")
    assert "compiling the kernels of squared" in first.stdout
    assert "compiling" not in again.stdout
