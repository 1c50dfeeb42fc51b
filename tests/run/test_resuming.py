"""A run that goes on: which checkpoint, which others make way, who may write, and what is put on record."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys

import pytest
import torch
from omegaconf import OmegaConf

from puffertoolkit.errors import UserError
from puffertoolkit.run.checkpoint import save_checkpoint
from puffertoolkit.run.directory import RunDirectory, resume_point, set_aside
from puffertoolkit.run.manifest import best_checkpoint, latest_checkpoint, list_checkpoints
from puffertoolkit.run.provenance import differences

CONFIG = OmegaConf.create({"seed": 7, "num_threads": 0})


def save(run, step, score=None, keep=9):
    return save_checkpoint(run.checkpoints, step, {"w": torch.ones(1)}, {}, {}, keep=keep, score=score)


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints at steps 1, 2, 3."""
    directory = RunDirectory(tmp_path / "run")
    directory.write_provenance(CONFIG, ["env=breakout"], 2, "cpu")
    for step in (1, 2, 3):
        save(directory, step, score=-step)
    return directory


def checkpoint(run, step):
    return run.checkpoints / f"step_{step:012d}"


def steps(run):
    return [info.step for info in list_checkpoints(run.checkpoints)[0]]


# --- where to go on ---


def test_a_run_goes_on_from_its_newest_and_a_checkpoint_from_itself(run):
    assert resume_point(run.path) == (checkpoint(run, 3), [])
    assert resume_point(run.checkpoints) == (checkpoint(run, 3), [])
    assert resume_point(checkpoint(run, 2)) == (checkpoint(run, 2), [])
    assert resume_point(checkpoint(run, 1) / "manifest.json") == (checkpoint(run, 1), [])


@pytest.mark.parametrize("name", ["manifest.json", "trainer.pt", "weights.safetensors"])
def test_damaged_ones_are_passed_over_and_named(run, name):
    for step in (2, 3):
        (checkpoint(run, step) / name).write_bytes(b"torn")
    found, notes = resume_point(run.path)
    assert found == checkpoint(run, 1)
    assert (
        sorted(str(path) in " ".join(notes) for path in (checkpoint(run, 2), checkpoint(run, 3)))
        == [True] * 2
    )
    with pytest.raises(UserError, match="is damaged"):
        resume_point(checkpoint(run, 3))


def test_where_none_is_whole_the_message_says_how_to_begin_again(run, tmp_path):
    for step in (1, 2, 3):
        (checkpoint(run, step) / "trainer.pt").unlink()
    with pytest.raises(UserError, match="mode=reproduce run="):
        resume_point(run.path)
    empty = RunDirectory(tmp_path / "empty")
    empty.write_provenance(CONFIG, [])
    with pytest.raises(UserError, match="ended before its first one was written"):
        resume_point(empty.path)
    with pytest.raises(UserError, match="There is no run or checkpoint"):
        resume_point(tmp_path / "nowhere")


def test_newer_ones_make_way_and_lose_nothing(run):
    contents = (checkpoint(run, 3) / "weights.safetensors").read_bytes()
    (checkpoint(run, 2) / "manifest.json").write_text("{")
    renamed = set_aside(run, checkpoint(run, 1))
    assert sorted(path.name for path in renamed) == [f"abandoned_{checkpoint(run, s).name}" for s in (2, 3)]
    assert steps(run) == [1]
    assert latest_checkpoint(run.checkpoints).path == checkpoint(run, 1)
    assert (run.checkpoints / "abandoned_step_000000000003" / "weights.safetensors").read_bytes() == contents
    # The same steps are trained again, and abandoned again.
    for step in (2, 3):
        save(run, step, score=-step)
    assert latest_checkpoint(run.checkpoints).step == 3
    assert [path.name for path in set_aside(run, checkpoint(run, 2))] == ["abandoned_step_000000000003-2"]
    assert set_aside(run, checkpoint(run, 2)) == []


def test_a_renamed_checkpoint_sets_aside_those_written_after_it(run):
    renamed = run.checkpoints / "favourite"
    checkpoint(run, 1).rename(renamed)
    assert resume_point(renamed)[0] == renamed
    set_aside(run, renamed)
    assert steps(run) == []


def test_newest_and_best_are_kept_over_processes(run):
    save(run, 4, score=9.0, keep=2)
    set_aside(run, resume_point(run.path)[0])
    for step in (5, 6, 7):
        save(run, step, score=0.0, keep=2)
    assert steps(run) == [4, 6, 7]
    assert best_checkpoint(run.checkpoints).step == 4


# --- who may write ---


def test_a_second_process_is_refused_until_the_first_has_ended_however_it_ends(run):
    code = f"""
import sys
from puffertoolkit.run.directory import RunDirectory
with RunDirectory({str(run.path)!r}).only_writer():
    print("holding", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "holding\n"
        told = rf"Another process is training in .*process {holder.pid} on "
        with pytest.raises(UserError, match=told), run.only_writer():
            raise AssertionError("both write")
        holder.kill()
        holder.wait()
        with run.only_writer():
            pass


def test_a_file_system_without_locks_keeps_nobody_out(run, monkeypatch):
    def unknown(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    with run.only_writer():
        pass


# --- the record ---


def resumed(run, step, exact=True, num_threads=2):
    return run.record_resumption(
        CONFIG, ["resume=x"], num_threads, "cpu", step=step, config=f".hydra/r{step}", exact=exact
    )


def test_the_record_keeps_the_first_process_and_lists_the_others(run):
    first = run.read_provenance()
    added = [resumed(run, 1), resumed(run, 2, exact=False, num_threads=1)]
    record = run.read_provenance()
    assert record.pop("resumptions") == added
    assert record == first
    assert [(a["step"], a["exact"], a["config"]) for a in added] == [
        (1, True, ".hydra/r1"),
        (2, False, ".hydra/r2"),
    ]
    assert all(a["command"] == "python -m puffertoolkit resume=x" for a in added)
    assert {"versions", "git", "num_threads", "processor", "device"} <= added[0].keys()


def test_a_kill_while_the_record_is_written_leaves_the_old_one(run, monkeypatch):
    before = run.provenance.read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        resumed(run, 1)
    assert run.provenance.read_bytes() == before


@pytest.mark.parametrize("text", [None, "{", "[1]", "7"])
def test_a_missing_or_damaged_record_is_told(run, text):
    run.provenance.unlink()
    if text is not None:
        run.provenance.write_text(text)
    with pytest.raises(UserError, match=r"run\.json cannot be read"):
        run.read_provenance()


def test_what_may_change_the_numbers_is_named(run):
    here = run.read_provenance()
    assert differences(here, here) == []
    there = json.loads(run.provenance.read_text())
    there["versions"] |= {"torch": "1.0"}
    del there["versions"]["numba"]
    there["git"]["sha"] = None
    there |= {"processor": "abacus", "num_threads": 9, "host": "elsewhere", "command": "other"}
    found = {name: (old, new) for name, old, new in differences(there, here)}
    assert found.pop("git sha", ("unknown", ""))[0] == "unknown"
    assert found == {
        "processor": ("abacus", here["processor"]),
        "num_threads": ("9", "2"),
        "torch": ("1.0", here["versions"]["torch"]),
        "numba": ("unknown", here["versions"]["numba"]),
    }
    assert [name for name, *_ in differences({}, here)]
