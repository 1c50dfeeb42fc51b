"""Same seed, same numbers: again, after a kill, in another place, with other loggers."""

import fcntl
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from puffertoolkit.modes.reproduce import first_difference

pytestmark = pytest.mark.slow

SMALL = ("vec.num_envs=32", "train.horizon=16", "train.minibatch_size=256", "num_threads=2")
ITERATIONS, STEPS = 100, 32 * 16
KINDS = {
    "breakout": ("env=breakout", "train.normalize_rewards=true", "env.max_steps=50"),
    "squared-lstm": ("env=squared", "policy=lstm"),
    "cartpole-ppo": ("env=cartpole", "experiment=ppo", "policy.normalize_observations=true"),
}


def command(*overrides):
    return [sys.executable, "-m", "puffertoolkit", *overrides]


def program(*overrides, cwd):
    return subprocess.run(command(*overrides), cwd=cwd, capture_output=True, text=True, timeout=300)


def run_in(folder):
    [run] = folder.glob("outputs/train/*/*")
    return run


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def assert_same(run, other):
    assert len(rows(run)) == len(rows(other)) == ITERATIONS
    for wanted, found in zip(rows(run), rows(other), strict=True):
        assert first_difference(wanted, found) is None
    weights = [
        load_file(sorted(r.glob("checkpoints/step_*"))[-1] / "weights.safetensors") for r in (run, other)
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.fixture(scope="module", params=KINDS)
def straight(request, tmp_path_factory):
    """100 iterations in one go."""
    folder = tmp_path_factory.mktemp(request.param)
    overrides = (*KINDS[request.param], *SMALL, f"train.total_timesteps={ITERATIONS * STEPS}", "seed=5")
    done = program(*overrides, cwd=folder)
    assert done.returncode == 0, done.stderr
    return overrides, run_in(folder)


@pytest.fixture(scope="module")
def any_run(tmp_path_factory):
    """A short run."""
    folder = tmp_path_factory.mktemp("short")
    done = program("env=squared", *SMALL, "train.total_timesteps=5000", cwd=folder)
    assert done.returncode == 0, done.stderr
    return run_in(folder)


def test_killed_and_resumed_equals_one_go(straight, tmp_path):
    overrides, run = straight
    unlike = ("logger.tensorboard=false", "train.checkpoint_interval_s=0", "train.keep_checkpoints=2")
    killed = subprocess.Popen(command(*overrides, *unlike), cwd=tmp_path, stdout=subprocess.DEVNULL)
    for count in (30, 60):
        deadline = time.monotonic() + 120
        while (
            not (files := list(tmp_path.glob("outputs/*/*/*/metrics.jsonl")))
            or len(rows(files[0].parent)) < count
        ):
            assert killed.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        half = run_in(tmp_path)
        if count == 30:
            killed = subprocess.Popen(command(f"resume={half}"), cwd=tmp_path, stdout=subprocess.DEVNULL)
    # The last row may be cut anywhere, and rows may be ahead of the checkpoint.
    with (half / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 99999999, "epo')
    done = program(f"resume={half}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"going on from step \d", done.stdout)
    assert_same(run, half)
    uptimes = [row["uptime_s"] for row in rows(half)]
    assert uptimes == sorted(uptimes)
    record = json.loads((half / "run.json").read_text())
    assert [r["config"] for r in record["resumptions"]] == [".hydra/resumed_1", ".hydra/resumed_2"]
    assert [r["argv"] for r in record["resumptions"]] == [[f"resume={half}"]] * 2
    assert all(r["exact"] for r in record["resumptions"])
    assert len(list(half.glob("checkpoints/step_*"))) <= 3

    complete = program(f"resume={half}", cwd=tmp_path)
    assert complete.returncode == 2
    assert "is complete" in complete.stderr
    assert "train.total_timesteps=<more>" in complete.stderr


def test_reproduce_says_identical_wherever_the_run_lies(straight, tmp_path):
    _, run = straight
    moved = tmp_path / "else where"
    shutil.copytree(run, moved)
    done = program("mode=reproduce", f"run='{moved}'", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"identical: {ITERATIONS} iterations, {ITERATIONS * STEPS:,} steps" in done.stdout
    [again] = tmp_path.glob("outputs/reproduce/*/*")
    assert again.name.endswith("_s5")


def test_reproduce_names_the_first_difference_and_what_differs(straight, tmp_path):
    _, run = straight
    changed = tmp_path / "changed"
    shutil.copytree(run, changed)
    lines = rows(changed)
    lines[3]["loss/value"] += 1e-9
    (changed / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    record = json.loads((changed / "run.json").read_text())
    record["versions"]["torch"] = "1.0"
    (changed / "run.json").write_text(json.dumps(record))
    done = program("mode=reproduce", f"run={changed}", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"different: at step {4 * STEPS:,}, loss/value was" in done.stdout
    assert f"identical until then: 3 iterations, {3 * STEPS:,} steps" in done.stdout
    assert re.search(r"torch.*1\.0", done.stdout)


def test_from_an_older_checkpoint_the_rest_is_trained_anew_and_comes_out_the_same(tmp_path):
    small = (
        *SMALL,
        "train.total_timesteps=5000",
        "train.checkpoint_interval_s=0",
        "train.keep_checkpoints=20",
    )
    first = program("env=squared", *small, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    run = run_in(tmp_path)
    once = tmp_path / "once"
    shutil.copytree(run, once)
    checkpoints = sorted(run.glob("checkpoints/step_*"))
    # A process that is refused leaves no trace in what the next one does.
    refused = program(f"resume={run}", "train.lr=0.5", cwd=tmp_path)
    assert refused.returncode == 2
    done = program(f"resume={checkpoints[3]}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"going on from step {4 * STEPS:,}" in done.stdout
    assert "other settings" not in done.stdout
    assert "newer checkpoints were set aside: " in done.stdout
    abandoned = {path.name for path in run.glob("checkpoints/abandoned_*")}
    assert abandoned == {f"abandoned_{path.name}" for path in checkpoints[4:]}
    for wanted, found in zip(rows(once), rows(run), strict=True):
        assert first_difference(wanted, found) is None
    name = f"step_{10 * STEPS:012d}/weights.safetensors"
    ends = [load_file(r / "checkpoints" / name) for r in (once, run)]
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


def test_of_two_processes_that_go_on_with_a_run_one_is_refused(any_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(any_run, copy)
    more = command(f"resume={copy}", "train.total_timesteps=20_000")
    both = [
        subprocess.Popen(more, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in both]
    statuses = sorted(process.returncode for process in both)
    # The second may come so late that nothing is left to do.
    assert statuses == [0, 2], errors
    assert re.search(r"Another process is training|is complete", " ".join("".join(errors).split()))
    assert [row["epoch"] for row in rows(copy)] == list(range(1, 41))


def test_what_cannot_be_saved_is_said(tmp_path):
    gym = ("env._target_=gymnasium.envs.classic_control.CartPoleEnv", "~env.continuous", "~env.max_steps")
    small = ("vec.num_envs=4", "train.horizon=8", "train.minibatch_size=32", "train.total_timesteps=320")
    overrides = ("env=cartpole", "vec=serial", "trust=[gymnasium]", *gym, *small)
    first = program(*overrides, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    run = run_in(tmp_path)
    more = program(f"resume={run}", "train.total_timesteps=640", "trust=[gymnasium]", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    assert "cannot save its environments' state: new episodes begin in all of them" in more.stdout
    assert "with other settings: train.total_timesteps=640 (was 320)" in more.stdout
    assert [row["epoch"] for row in rows(run)] == list(range(1, 21))
    compared = program("mode=reproduce", f"run={run}", "trust=[gymnasium]", cwd=tmp_path)
    assert "went on with other settings (train.total_timesteps) from step 320" in compared.stdout
    assert compared.returncode == 0, compared.stdout + compared.stderr


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("resume=nowhere",), "There is no run or checkpoint at nowhere"),
        (("mode=reproduce",), "mode=reproduce needs a run: add run=<run directory>"),
        (("run={run}",), "'run' belongs to mode=reproduce"),
        (("checkpoint={run}",), "'checkpoint' belongs to mode=eval"),
        (("resume={run}", "train.horizon=8"), "train.horizon is 8 here and 16 in the run"),
        (("resume={run}", "experiment=ppo"), "leave experiment=ppo out"),
        (("resume={run}", "-m"), "leave -m out"),
        (("resume={run}", "vec.num_envs=64"), "vec.num_envs is 64 here and 32 in the run"),
        (("mode=reproduce", "run={run}", "train.lr=1"), "train.lr is 1.0 here and"),
        (("resume={run}", "train.total_timesteps=60_000"), "Another process is training in"),
    ],
)
def test_mistakes_get_one_message(any_run, overrides, message, tmp_path):
    with (any_run / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = program(*(text.format(run=any_run) for text in overrides), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_damaged_newest_checkpoint_is_passed_over(any_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(any_run, copy)
    [only] = copy.glob("checkpoints/step_*")
    newer = only.with_name("step_000000099999")
    shutil.copytree(only, newer)
    (newer / "trainer.pt").write_bytes(b"torn")
    done = program(f"resume={copy}", "train.total_timesteps=6000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{newer} is damaged" in done.stdout
    assert f"({only.name})" in done.stdout
    (only / "weights.safetensors").write_bytes(b"torn")
    for checkpoint in copy.glob("checkpoints/step_*"):
        (checkpoint / "weights.safetensors").write_bytes(b"torn")
    done = program(f"resume={copy}", "train.total_timesteps=9000", cwd=tmp_path)
    assert done.returncode == 2
    assert "has no checkpoint to go on from" in done.stderr.replace("\n", " ")
    assert (
        Path(copy / ".hydra" / "config.yaml").read_text() == (any_run / ".hydra" / "config.yaml").read_text()
    )
