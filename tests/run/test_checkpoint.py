from __future__ import annotations

import errno
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from puffertoolkit.errors import UserError
from puffertoolkit.run import checkpoint as module
from puffertoolkit.run.checkpoint import load_checkpoint, save_checkpoint
from puffertoolkit.run.manifest import (
    MANIFEST,
    TRAINER,
    WEIGHTS,
    best_checkpoint,
    latest_checkpoint,
    list_checkpoints,
    sha256_of,
)


def save(directory, step, score=None, keep=3, value=None):
    """A small checkpoint all of whose numbers are its step."""
    value = float(step if value is None else value)
    return save_checkpoint(
        directory,
        step,
        weights={"layer.weight": torch.full((2, 3), value)},
        trainer_state={"optimizer": {"moment": torch.full((4,), value)}, "epoch": step},
        manifest={"env": "breakout"},
        keep=keep,
        score=score,
    )


def steps(directory):
    return [info.step for info in list_checkpoints(directory)[0]]


def assert_whole(path, step):
    loaded = load_checkpoint(path)
    assert loaded.manifest["step"] == step
    assert loaded.weights["layer.weight"].eq(step).all()
    assert loaded.trainer_state["optimizer"]["moment"].eq(step).all()


def test_what_was_saved_comes_back_exactly(tmp_path):
    weights = {
        "a": torch.randn(3, 4),
        "b": torch.arange(5),
        "c": torch.tensor(1.5, dtype=torch.float64),
        "half": torch.ones(2, dtype=torch.bfloat16),
    }
    state = {
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0)}},
            "param_groups": [{"lr": 0.1, "params": [0]}],
        },
        "rng": torch.random.get_rng_state(),
        "nested": (1, None, True, "text", [2.5, {"x": b"bytes"}]),
        "big": 2**80,
    }
    path = save_checkpoint(
        tmp_path / "checkpoints", 12_345_678, weights, state, {"env": "pong"}, keep=2, score=1.5
    )
    assert path == tmp_path / "checkpoints" / "step_000012345678"
    assert {file.name for file in path.iterdir()} == {WEIGHTS, TRAINER, MANIFEST}
    loaded = load_checkpoint(path)
    assert set(loaded.weights) == set(weights)
    for name, tensor in weights.items():
        assert loaded.weights[name].dtype == tensor.dtype
        assert torch.equal(loaded.weights[name], tensor)
    assert torch.equal(loaded.trainer_state["rng"], state["rng"])
    assert loaded.trainer_state["nested"] == state["nested"]
    assert loaded.trainer_state["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
    assert loaded.trainer_state["big"] == 2**80
    assert loaded.manifest["env"] == "pong"
    assert loaded.manifest["step"] == 12_345_678
    assert loaded.manifest["score"] == 1.5
    assert loaded.manifest["files"][WEIGHTS]["sha256"] == sha256_of(path / WEIGHTS)


def test_the_weights_are_plain_safetensors(tmp_path):
    path = save(tmp_path, 7)
    assert safetensors.torch.load_file(path / WEIGHTS)["layer.weight"].tolist() == [[7.0] * 3] * 2


def test_tied_and_sliced_weights_are_saved_apart(tmp_path):
    table = torch.arange(12.0).reshape(3, 4)
    weights = {"in": table, "out": table, "column": table[:, 1], "turned": table.t()}
    path = save_checkpoint(tmp_path, 1, weights, {}, {}, keep=1)
    loaded = load_checkpoint(path).weights
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())


def test_parameters_of_a_module_need_no_detaching(tmp_path):
    layer = torch.nn.Linear(2, 2)
    path = save_checkpoint(tmp_path, 1, dict(layer.named_parameters()), {}, {}, keep=1)
    assert torch.equal(load_checkpoint(path).weights["weight"], layer.weight)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=1, max_size=8), st.integers(1, 4))
def test_the_newest_and_the_best_are_kept(tmp_path_factory, scores, keep):
    directory = tmp_path_factory.mktemp("checkpoints")
    for index, score in enumerate(scores, start=1):
        save(directory, index, score=score, keep=keep)
    newest = set(range(max(1, len(scores) - keep + 1), len(scores) + 1))
    scored = [(score, index) for index, score in enumerate(scores, start=1) if score is not None]
    best = max(scored)[1] if scored else None
    assert set(steps(directory)) == newest | ({best} if best else set())
    assert latest_checkpoint(directory).step == len(scores)
    found = best_checkpoint(directory)
    assert (found.step if found else None) == best
    shutil.rmtree(directory)


@pytest.mark.parametrize("score", [None, math.nan, math.inf])
def test_a_score_that_is_no_number_does_not_compete(tmp_path, score):
    save(tmp_path, 1, score=0.5)
    save(tmp_path, 2, score=score)
    assert best_checkpoint(tmp_path).step == 1


def test_an_empty_or_missing_directory_has_no_checkpoint(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    assert best_checkpoint(tmp_path / "missing") is None


def test_a_second_checkpoint_of_a_step_takes_the_place_of_the_first_without_overwriting(tmp_path):
    first = save(tmp_path, 5, value=1)
    second = save(tmp_path, 5, value=2)
    assert first != second
    assert latest_checkpoint(tmp_path).path == second
    assert load_checkpoint(first).weights["layer.weight"].eq(1).all()


def test_the_one_just_written_is_the_latest_even_at_an_earlier_step(tmp_path):
    for step in (10, 20, 30):
        save(tmp_path, step, keep=2)
    path = save(tmp_path, 15, keep=2)
    assert latest_checkpoint(tmp_path).path == path
    assert steps(tmp_path) == [30, 15]


def test_state_that_could_not_be_loaded_again_is_refused_when_saving(tmp_path):
    for value in (np.float64(1), np.zeros(2), object(), {1, 2}, len, torch.nn.Linear(1, 1)):
        with pytest.raises(TypeError, match=r"trainer_state\['a'\]\[1\]"):
            save_checkpoint(tmp_path, 1, {}, {"a": [0, value]}, {}, keep=1)
    assert list(tmp_path.iterdir()) == []


def test_keep_below_one_is_refused(tmp_path):
    with pytest.raises(ValueError, match="keep"):
        save(tmp_path, 1, keep=0)


def test_everything_is_on_the_disk_before_the_name_is_there(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    save(tmp_path, 1)
    # Three files and their directory; then the name; then the directory which holds the name.
    assert calls == ["fsync"] * 4 + ["replace", "fsync"]


class Crash(BaseException):
    """Stands for a kill: no handler of ordinary errors sees it."""


def crash_at(monkeypatch, target, name, call):
    real, calls = getattr(target, name), []

    def counted(*args, **kwargs):
        calls.append(args)
        if len(calls) == call:
            raise Crash
        return real(*args, **kwargs)

    monkeypatch.setattr(target, name, counted)


@pytest.mark.parametrize(
    ("target", "name", "call", "latest"),
    [
        (module, "write_synced", 1, 1),
        (module, "write_synced", 2, 1),
        (module, "write_synced", 3, 1),
        (module, "sync_directory", 1, 1),
        (os, "replace", 1, 1),
        (module, "sync_directory", 2, 2),
        (os, "replace", 2, 2),
        (shutil, "rmtree", 1, 2),
    ],
)
def test_a_crash_at_any_moment_leaves_a_whole_latest_checkpoint(
    tmp_path, monkeypatch, target, name, call, latest
):
    save(tmp_path, 1, keep=1)
    with monkeypatch.context() as patch:
        crash_at(patch, target, name, call)
        with pytest.raises(Crash):
            save(tmp_path, 2, keep=1)
    good, bad = list_checkpoints(tmp_path)
    assert bad == []
    assert latest_checkpoint(tmp_path).step == latest
    for info in good:
        assert_whole(info.path, info.step)
    # The next one clears up after the crash.
    save(tmp_path, 3, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000000003"]
    assert_whole(latest_checkpoint(tmp_path).path, 3)


@pytest.mark.parametrize("call", range(1, 9))
def test_a_full_disk_is_told_in_one_sentence_and_the_run_can_go_on(tmp_path, monkeypatch, call):
    save(tmp_path, 1, keep=1)
    real, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle)

    monkeypatch.setattr(os, "fsync", full)
    # That a directory could not be synced is no failure; three files can fail to be written.
    if call <= 3:
        with pytest.raises(UserError, match=r"step 2 could not be written to .*: .*No space left"):
            save(tmp_path, 2, keep=1)
        assert_whole(latest_checkpoint(tmp_path).path, 1)
    save(tmp_path, 3, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000000003"]


def test_a_file_half_written_when_the_crash_came_is_never_taken_for_a_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def torn(path, data):
        path.write_bytes(data[: len(data) // 2])
        raise Crash

    monkeypatch.setattr(module, "write_synced", torn)
    with pytest.raises(Crash):
        save(tmp_path, 2)
    assert steps(tmp_path) == [1]


def test_a_process_killed_at_any_moment_leaves_a_whole_latest_checkpoint(tmp_path):
    """Kill at 60 random moments; each process goes on saving where the one before was killed."""
    code = f"""
        import os, random, signal, sys, time
        from pathlib import Path
        import torch
        from puffertoolkit.run.checkpoint import load_checkpoint, save_checkpoint
        from puffertoolkit.run.manifest import latest_checkpoint, list_checkpoints

        directory = Path({str(tmp_path)!r})

        def save_for_ever(out):
            info = latest_checkpoint(directory)
            step = info.step if info else 0
            while True:
                step += 1
                value = torch.full((20_000,), float(step))
                weights, state = {{"layer.weight": value}}, {{"optimizer": {{"moment": value}}}}
                save_checkpoint(directory, step, weights, state, {{}}, keep=2, score=-step)
                os.write(out, b"%d\\n" % step)

        draw, said, interrupted = random.Random(1), 0, 0
        for _ in range(60):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                save_for_ever(writing)
            os.close(writing)
            with open(reading) as pipe:
                said = int(pipe.readline())
                time.sleep(draw.uniform(0, 0.02))
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                said = max([said, *map(int, pipe.read().split())])
            good, bad = list_checkpoints(directory)
            assert not bad, bad
            assert good[-1].step >= said, (good[-1].step, said)
            for info in good:
                checkpoint = load_checkpoint(info.path)
                assert (checkpoint.weights["layer.weight"] == info.step).all()
                assert (checkpoint.trainer_state["optimizer"]["moment"] == info.step).all()
            interrupted += any(name.startswith(".") for name in os.listdir(directory))
        print(said, interrupted)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps, interrupted = map(int, done.stdout.split())
    assert steps >= 60
    # A kill between two checkpoints proves nothing: some must have come in the middle of one.
    assert interrupted >= 10


def flip_a_bit(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut_in_half(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def delete(file):
    file.unlink()


@pytest.mark.parametrize("damage", [flip_a_bit, cut_in_half, delete])
@pytest.mark.parametrize("name", [WEIGHTS, TRAINER])
def test_a_damaged_file_is_named_with_an_older_checkpoint_that_is_good(tmp_path, damage, name):
    save(tmp_path, 1)
    good = save(tmp_path, 2)
    bad = save(tmp_path, 3)
    damage(bad / name)
    with pytest.raises(UserError) as error:
        load_checkpoint(bad)
    assert str(bad / name) in str(error.value)
    assert f"checkpoint={good}" in str(error.value)


@pytest.mark.parametrize("damage", [cut_in_half, delete])
def test_a_damaged_manifest_is_named_and_the_latest_is_not_silently_an_older_one(tmp_path, damage):
    good = save(tmp_path, 1)
    bad = save(tmp_path, 2)
    damage(bad / MANIFEST)
    for call in (lambda: load_checkpoint(bad), lambda: latest_checkpoint(tmp_path)):
        with pytest.raises(UserError) as error:
            call()
        assert str(bad / MANIFEST) in str(error.value)
        assert f"checkpoint={good}" in str(error.value)
    save(tmp_path, 3)
    assert latest_checkpoint(tmp_path).step == 3


def test_a_damaged_one_is_not_recommended(tmp_path):
    oldest, older, newest = (save(tmp_path, step) for step in (1, 2, 3))
    flip_a_bit(older / WEIGHTS)
    flip_a_bit(newest / WEIGHTS)
    with pytest.raises(UserError) as error:
        load_checkpoint(newest)
    assert f"checkpoint={oldest}" in str(error.value)
    assert f"checkpoint={older}" not in str(error.value)


def test_where_none_is_good_the_message_says_so(tmp_path):
    only = save(tmp_path, 1)
    flip_a_bit(only / WEIGHTS)
    with pytest.raises(UserError, match="No other checkpoint"):
        load_checkpoint(only)


class Payload:
    def __reduce__(self):
        return os.mkdir, ("payload-ran",)


def test_a_stranger_pickle_is_refused_without_running(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / "checkpoints", 1)
    for write in (
        lambda file: torch.save({"x": Payload()}, file),
        lambda file: file.write_bytes(pickle.dumps(Payload())),
        lambda file: file.write_bytes(b"not a pickle"),
        lambda file: file.write_bytes(b""),
    ):
        write(path / TRAINER)
        rehash(path)
        with pytest.raises(UserError, match=TRAINER.replace(".", r"\.")):
            load_checkpoint(path)
    assert not (tmp_path / "payload-ran").exists()


def test_weights_of_another_format_are_named(tmp_path):
    path = save(tmp_path, 1)
    torch.save({"a": torch.ones(1)}, path / WEIGHTS)
    rehash(path)
    with pytest.raises(UserError, match=r"weights\.safetensors does not hold weights"):
        load_checkpoint(path)


def rehash(path):
    """Makes a manifest agree with changed files, as a forger would."""
    manifest = json.loads((path / MANIFEST).read_text())
    for name, entry in manifest["files"].items():
        entry.update(sha256=sha256_of(path / name), bytes=(path / name).stat().st_size)
    (path / MANIFEST).write_text(json.dumps(manifest))


def test_a_format_of_the_future_asks_for_an_upgrade(tmp_path):
    path = save(tmp_path, 1)
    manifest = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(UserError, match="newer version"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "{}", '{"format": 1}',
     '{"format": 1, "step": "x", "serial": 1, "score": null, "files": {}}',
     '{"format": 1, "step": 1, "serial": 1, "score": "x", "files": {}}',
     '{"format": 1, "step": 1, "serial": 1, "score": null, "files": []}',
     '{"format": 1, "step": 1, "serial": 1, "score": null, "files": {"weights.safetensors": 3}}'],
)  # fmt: skip
def test_a_foreign_manifest_is_no_traceback(tmp_path, text):
    path = save(tmp_path, 1)
    (path / MANIFEST).write_text(text)
    with pytest.raises(UserError, match=r"manifest\.json"):
        load_checkpoint(path)
