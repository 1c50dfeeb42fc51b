"""What mode=reproduce compares, how far, and what it says."""

import json
import math

import pytest
from omegaconf import OmegaConf

from puffertoolkit.errors import UserError
from puffertoolkit.modes.reproduce import Comparison, comparable_rows, first_difference
from puffertoolkit.run.directory import RunDirectory

ROW = {
    "step": 64,
    "epoch": 1,
    "uptime_s": 1.0,
    "sps": 9.0,
    "loss/value": 0.5,
    "time/env_s": 1.0,
    "sys/memory_mb": 5,
}


def test_times_and_memory_are_not_compared():
    other = {**ROW, "uptime_s": 2.0, "sps": 1.0, "time/env_s": 3.0, "time/new_s": 1.0, "sys/memory_mb": 6}
    assert first_difference(ROW, other) is None


@pytest.mark.parametrize("value", [math.nextafter(0.5, 1), 0.5 + 1e-9, None, "0.5"])
def test_the_smallest_difference_is_named_with_both_values(value):
    text = first_difference(ROW, {**ROW, "loss/value": value})
    assert text == f"at step 64, loss/value was 0.5 and is {value}"


def test_a_metric_that_only_one_has_is_a_difference():
    without = {name: value for name, value in ROW.items() if name != "loss/value"}
    assert "loss/value was missing and is 0.5" in first_difference(without, ROW)
    assert "loss/value was 0.5 and is missing" in first_difference(ROW, without)


def rows(number):
    return [{**ROW, "step": 64 * n, "epoch": n, "loss/value": n / 3} for n in range(1, number + 1)]


def test_compares_as_far_as_the_run_goes():
    comparison = Comparison(rows(2))
    comparison.add(rows(2)[0])
    assert not comparison.done
    assert (
        comparison.verdict()
        == "stopped: identical so far (1 iterations, 64 steps), 1 iterations were not compared"
    )
    comparison.add(rows(2)[1])
    assert comparison.done
    assert comparison.verdict() == "identical: 2 iterations, 128 steps"
    comparison.add(rows(3)[2])
    assert comparison.verdict() == "identical: 2 iterations, 128 steps"


def test_stops_at_the_first_difference():
    comparison = Comparison(rows(3))
    wrong = rows(3)
    wrong[1]["loss/value"] = 7.0
    for row in wrong:
        comparison.add(row)
    assert comparison.done
    assert comparison.verdict() == (
        "different: at step 128, loss/value was 0.6666666666666666 and is 7.0 "
        "(identical until then: 1 iterations, 64 steps)"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_compared_as_the_file_holds_it(value):
    comparison = Comparison([{**ROW, "loss/value": None}])
    comparison.add({**ROW, "loss/value": value})
    assert comparison.difference is None


CONFIG = {
    "env": {"_target_": "a.B"},
    "policy": {"_target_": "a.P"},
    "vec": {"num_envs": 4},
    "train": {"lr": 0.1, "keep_checkpoints": 3},
    "seed": 1,
    "device": "cpu",
    "num_threads": 0,
}
HYDRA = {"hydra": {"runtime": {"choices": {"env": "b", "policy": "p", "vec": "v", "train": "t"}}}}


@pytest.fixture
def run(tmp_path):
    """A run of ten iterations of 64 steps, and a way to say that it was resumed."""
    directory = RunDirectory(tmp_path / "run")

    def write(folder, **train):
        (directory.path / folder).mkdir(parents=True)
        OmegaConf.save(
            {**CONFIG, "train": {**CONFIG["train"], **train}}, directory.path / folder / "config.yaml"
        )
        OmegaConf.save(HYDRA, directory.path / folder / "hydra.yaml")

    write(".hydra")
    directory.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows(10)))
    directory.resumed = lambda number, **train: write(f".hydra/resumed_{number}", **train)
    return directory


def process(number, step, exact=True, num_threads=2, **facts):
    config = f".hydra/resumed_{number}"
    return {"config": config, "step": step, "exact": exact, "num_threads": num_threads, **facts}


def compared(run, *processes):
    found, notes = comparable_rows(run, {"num_threads": 2, "resumptions": list(processes)})
    return found[-1]["epoch"], " ".join(notes)


def test_a_run_at_a_stretch_or_killed_and_resumed_is_compared_whole(run):
    assert compared(run) == (10, "")
    run.resumed(1, keep_checkpoints=9)
    assert compared(run, process(1, 320)) == (10, "")


def test_other_settings_end_the_comparison(run):
    run.resumed(1)
    run.resumed(2, lr=0.2)
    epoch, note = compared(run, process(1, 64), process(2, 320))
    assert epoch == 5
    assert (
        note == "The run went on with other settings (train.lr) from step 320, and is compared until there."
    )
    run.resumed(3)
    assert "(num_threads) from step 128" in compared(run, process(3, 128, num_threads=1))[1]


def test_environments_that_began_anew_end_the_comparison(run):
    run.resumed(1)
    assert compared(run, process(1, 192, exact=False)) == (
        3,
        "The run went on with new episodes from step 192, and is compared until there.",
    )


def test_what_was_trained_anew_from_an_earlier_step_does_not_count(run):
    run.resumed(1, lr=0.2)
    run.resumed(2)
    run.resumed(3, lr=0.3)
    assert compared(run, process(1, 320), process(2, 128)) == (10, "")
    assert compared(run, process(1, 320), process(2, 128), process(3, 64))[0] == 1


def test_another_machine_is_told_and_compared_all_the_same(run):
    run.resumed(1)
    epoch, note = compared(run, process(1, 192, versions={"torch": "1.0"}))
    assert epoch == 10
    assert note == "From step 192 the run was trained elsewhere: torch was unknown and then 1.0."


def test_rows_of_other_kinds_and_a_torn_last_one_are_left_out(run):
    with run.metrics.open("a") as file:
        file.write('{"step": 640, "eval/score": 1.0}\n{"step": 704, "ep')
    assert compared(run)[0] == 10


def test_a_run_without_rows_is_told(run):
    run.metrics.unlink()
    with pytest.raises(UserError, match="has no metrics to compare with"):
        compared(run)
