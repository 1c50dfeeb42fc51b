"""When a score counts as reached, and that the processes of a benchmark end with it."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import learning
from benchmarks.learning import Rows, Target, Tracker
from puffertoolkit.errors import UserError

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
LOW, HIGH = Target("perf", 0.5), Target("perf", 0.9)


def row(step, perf, episodes=10):
    found = {"env/episodes": float(episodes), "env/perf": perf} if episodes else {}
    return {"step": step, "uptime_s": step / 10, **found}


def track(perfs, targets=(LOW,), limit_s=1e9):
    tracker = Tracker(targets, limit_s)
    for step, perf in enumerate(perfs, 1):
        tracker.see(row(step, perf or 0, episodes=0 if perf is None else 10))
    return tracker


def test_three_in_a_row_at_the_third():
    assert track([0.1, 0.6, 0.5, 0.7, 0.1]).reached == {LOW: {"steps": 4, "seconds": 0.4}}


@pytest.mark.parametrize("perfs", [[0.6, 0.6], [0.6, 0.6, 0.4, 0.6, 0.6], [0.4999] * 9, [None] * 9])
def test_not_yet(perfs):
    tracker = track(perfs)
    assert not tracker.reached
    assert not tracker.done


def test_iterations_without_episodes_neither_count_nor_interrupt():
    assert track([0.6, None, 0.6, None, None, 0.6]).reached == {LOW: {"steps": 6, "seconds": 0.6}}


def test_each_target_has_its_own_moment():
    tracker = track([0.6, 0.6, 0.95], (LOW, HIGH))
    assert list(tracker.reached) == [LOW]
    assert not tracker.done
    tracker = track([0.6, 0.95, 0.95, 0.95], (LOW, HIGH))
    assert tracker.reached == {LOW: {"steps": 3, "seconds": 0.3}, HIGH: {"steps": 4, "seconds": 0.4}}
    assert tracker.done
    assert tracker.best == {LOW: 0.95, HIGH: 0.95}


def test_nothing_counts_after_the_limit():
    tracker = track([0.6, 0.6, 0.6], limit_s=0.25)
    assert not tracker.reached
    assert tracker.done


def test_an_unknown_statistic_names_those_there_are():
    with pytest.raises(UserError, match="no statistic 'score' to reach; there are: episodes, perf"):
        track([0.6], (Target("score", 1),))


def test_rows_are_taken_once_and_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows = Rows(path)
    assert list(rows.new()) == []
    path.write_text('{"step": 1}\n{"step"')
    assert list(rows.new()) == [{"step": 1}]
    assert list(rows.new()) == []
    with path.open("a") as file:
        file.write(': 2}\n{"step": 3}\n')
    assert list(rows.new()) == [{"step": 2}, {"step": 3}]


def runs(*seconds):
    made = []
    for value in seconds:
        tracker = Tracker((LOW,), 100)
        tracker.steps, tracker.seconds = 900, 100.0
        if value is not None:
            tracker.reached[LOW] = {"steps": int(value * 10), "seconds": value}
        made.append(tracker)
    return made


@pytest.mark.parametrize(
    ("seconds", "middle"),
    [((3.0, 1.0, 2.0), 2.0), ((None, 1.0, 2.0), 2.0), ((None, None, 2.0), None), ((None, 2.0), None)],
)
def test_a_run_that_never_got_there_took_longer_than_any(seconds, middle):
    (result,) = learning.summary("squared", (LOW,), range(len(seconds)), runs(*seconds))
    assert result["seconds"] == middle
    assert result["steps"] == (None if middle is None else middle * 10)
    assert [run["reached"] for run in result["runs"]] == [value is not None for value in seconds]
    assert not any(isinstance(value, float) and math.isinf(value) for value in result.values())


def test_targets():
    assert Target.parse("score=400") == Target("score", 400.0)
    for wrong in ("score", "=3", "score=high", "score=nan"):
        with pytest.raises(UserError, match=r"like perf=0\.95"):
            Target.parse(wrong)
    assert learning.targets_of("mine", ["perf=0.5"]) == [LOW]
    with pytest.raises(UserError, match="No target is known for 'mine'"):
        learning.targets_of("mine", [])


def bench(*arguments, **options):
    command = [sys.executable, "-m", "benchmarks.learning", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=150, **options)


@pytest.mark.slow
def test_a_real_run_is_stopped_when_its_target_is_reached(tmp_path):
    small = ("vec.num_envs=64", "train.horizon=16", "train.minibatch_size=512")
    arguments = ("--env", "squared", "--seeds", "3", "--target", "episode_length=1", "--threads", "1")
    places = ("--json", str(tmp_path / "record.json"), "--keep", str(tmp_path / "runs"))
    result = bench(*arguments, *places, *small, "train.total_timesteps=100_000_000")
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    (found,) = record["results"]
    (run,) = found["runs"]
    rows = [json.loads(line) for line in next(tmp_path.rglob("metrics.jsonl")).read_text().splitlines()]
    ended = [each for each in rows if each.get("env/episodes")]
    # Every episode has at least one step: the third iteration that ended any reaches the target.
    assert (run["steps"], run["seconds"]) == (ended[2]["step"], ended[2]["uptime_s"])
    assert found["steps"] == run["steps"]
    assert rows[-1]["step"] < 100_000_000
    # Stopped as Ctrl-C would: the last checkpoint is that of the last row.
    assert len(list(tmp_path.rglob(f"step_*{rows[-1]['step']}"))) == 1
    assert record["command"].startswith("scripts/bench_learning --env squared")
    again = bench(*arguments, *places)
    assert again.returncode == 2
    assert "is not empty" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--env", "sqared", "--target", "perf=1"), "did you mean 'squared'"),
        (("train.lrr=1",), "did you mean 'train.lr'?"),
        (("--seeds", "-1"), "not an integer of at least 0"),
        (("--limit-s", "0"), "not a number above 0"),
        (("--json", "/nowhere/record.json"), "/nowhere, which is no folder"),
        (("--env", "squared", "--target", "perf"), "like perf=0.95"),
    ],
)
def test_mistakes_are_told_before_anything_starts(arguments, said, tmp_path):
    result = bench(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_it_started_ends_with_it(number, tmp_path):
    keep = tmp_path / "runs"
    command = [sys.executable, "-m", "benchmarks.learning", "--env", "squared", "--target", "perf=2"]
    command += ["--seeds", "0", "--threads", "1", "--keep", str(keep)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        metrics = keep / "squared_s0" / "metrics.jsonl"
        deadline = time.monotonic() + 100
        while not metrics.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert metrics.exists()
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.strip().endswith("interrupted")
    size = metrics.stat().st_size
    time.sleep(1.0)
    assert metrics.stat().st_size == size
