from __future__ import annotations

import errno
import io
import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from puffertoolkit.errors import UserError
from puffertoolkit.logger.metrics import MetricsLog, _TensorBoardThread, to_scalar


def rows_of(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_each_row_is_on_disk_as_soon_as_it_is_written(tmp_path):
    with MetricsLog(tmp_path, tensorboard=False) as log:
        for step in (64, 128):
            log.write({"step": step, "sps": 10.5})
            assert rows_of(tmp_path)[-1] == {"step": step, "sps": 10.5}


def test_scalars_of_numpy_and_torch_become_plain_numbers(tmp_path):
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write(
            {
                "step": np.int64(3),
                "a": np.float32(0.5),
                "b": torch.tensor(1.25),
                "c": torch.ones(1),
                "d": np.bool_(True),
                "e": np.array([7]),
                "f": "text",
            }
        )
    assert rows_of(tmp_path) == [{"step": 3, "a": 0.5, "b": 1.25, "c": 1.0, "d": True, "e": 7, "f": "text"}]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), torch.tensor(math.inf)])
def test_what_is_not_finite_is_null_and_the_line_stays_strict_json(tmp_path, value):
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write({"step": 1, "x": value})

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    line = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(line, parse_constant=refuse) == {"step": 1, "x": None}


def test_the_order_of_keys_is_that_of_their_first_appearance(tmp_path):
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write({"step": 1, "b": 1, "a": 2})
        log.write({"a": 1, "z": 2, "b": 3, "step": 2})
    assert [list(row) for row in rows_of(tmp_path)] == [["step", "b", "a"], ["step", "b", "a", "z"]]


@pytest.mark.parametrize("value", [np.zeros(3), torch.zeros(2, 2), [1.0], {"a": 1}, object(), 1j])
def test_what_is_no_scalar_is_refused_by_name(tmp_path, value):
    with MetricsLog(tmp_path, tensorboard=False) as log, pytest.raises(TypeError, match="loss/policy"):
        log.write({"step": 1, "loss/policy": value})
    assert rows_of(tmp_path) == []


def test_a_row_without_a_step_is_refused(tmp_path):
    with MetricsLog(tmp_path, tensorboard=False) as log, pytest.raises(KeyError, match="step"):
        log.write({"sps": 1})


def test_a_line_torn_by_a_kill_does_not_spoil_the_next(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2, "sp')
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write({"step": 3})
    assert (tmp_path / "metrics.jsonl").read_text().splitlines() == [
        '{"step": 1}',
        '{"step": 2, "sp',
        '{"step": 3}',
    ]


def test_a_full_disk_is_told_in_one_sentence(tmp_path):
    class FullDisk(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    with MetricsLog(tmp_path, tensorboard=False) as log:
        log._file.close()
        log._file = FullDisk()
        with pytest.raises(UserError, match="No space left on device"):
            log.write({"step": 1})


def test_a_failing_event_file_is_told_at_the_next_row_and_never_blocks(tmp_path):
    log = MetricsLog(tmp_path, tensorboard=False)
    (tmp_path / "tb").mkdir()
    thread = _TensorBoardThread(tmp_path / "tb")
    thread.close()
    thread._error = OSError(errno.ENOSPC, "No space left on device")
    log._tensorboard = thread
    with log, pytest.raises(UserError, match="No space left on device"):
        log.write({"step": 1})


def test_tensorboard_reads_the_numbers_at_their_agent_steps(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with MetricsLog(tmp_path, tensorboard=True) as log:
        for step in range(0, 500, 100):
            log.write({"step": step, "env/score": step / 10, "loss/value": math.nan, "note": "text"})
    events = event_accumulator.EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["env/score", "loss/value"]
    assert [(event.step, event.value) for event in events.Scalars("env/score")] == [
        (step, pytest.approx(step / 10)) for step in range(0, 500, 100)
    ]
    assert all(math.isnan(event.value) for event in events.Scalars("loss/value"))


def test_a_resumed_run_drops_the_rows_of_steps_that_come_anew_and_no_others(tmp_path):
    """The first process was killed at step 500, after a checkpoint at step 300."""
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with MetricsLog(tmp_path) as log:
        for step in range(100, 600, 100):
            log.write({"step": step, "b": 1.0, "a": float(step)})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 600, "b"')
    # Event files are read in the order of their names, which begin with the second of their making.
    [first] = (tmp_path / "tb").iterdir()
    first.rename(first.with_name(first.name.replace("tfevents.", "tfevents.0")))
    with MetricsLog(tmp_path, resume_step=300) as log:
        assert [row["step"] for row in log.kept] == [100, 200, 300]
        for step in (450, 600):
            log.write({"a": -float(step), "step": step, "b": 1.0})
    assert [row["step"] for row in rows_of(tmp_path)] == [100, 200, 300, 450, 600]
    assert {tuple(row) for row in rows_of(tmp_path)} == {("step", "b", "a")}
    events = event_accumulator.EventAccumulator(str(tmp_path / "tb")).Reload()
    found = [(event.step, event.value) for event in events.Scalars("a")]
    assert found == [(100, 100.0), (200, 200.0), (300, 300.0), (450, -450.0), (600, -600.0)]


def test_a_kill_while_rows_are_dropped_loses_none(tmp_path, monkeypatch):
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write({"step": 1})
        log.write({"step": 2})
    before = (tmp_path / "metrics.jsonl").read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        MetricsLog(tmp_path, tensorboard=False, resume_step=1)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_what_is_no_row_is_told_by_the_file_s_name(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("not json\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl holds something other than rows"):
        MetricsLog(tmp_path, tensorboard=False, resume_step=1)


def test_rows_are_on_the_disk_before_a_checkpoint_that_follows_them(tmp_path, monkeypatch):
    synced = []
    with MetricsLog(tmp_path) as log:
        log.write({"step": 1, "first": 1.0})
        log.write({"step": 2, "second": 1.0})
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", synced.append)
            log.sync()
        assert synced == [log._file.fileno()]
        deadline = time.monotonic() + 30
        # Only a flush brings the second row there so soon: the first was less than two seconds ago.
        while not any(b"second" in file.read_bytes() for file in (tmp_path / "tb").iterdir()):
            assert time.monotonic() < deadline, "the event file was not flushed"
            time.sleep(0.01)


def test_a_disk_that_is_full_at_a_checkpoint_is_told_in_one_sentence(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with MetricsLog(tmp_path, tensorboard=False) as log, pytest.raises(UserError, match="No space left"):
        log.sync()


def test_two_logs_of_one_run_keep_both_event_files(tmp_path):
    for step in (1, 2):
        with MetricsLog(tmp_path, tensorboard=True) as log:
            log.write({"step": step, "x": 1.0})
    assert len(list((tmp_path / "tb").iterdir())) == 2
    assert [row["step"] for row in rows_of(tmp_path)] == [1, 2]


def test_closing_twice_does_no_harm(tmp_path):
    log = MetricsLog(tmp_path, tensorboard=True)
    log.close()
    log.close()


def test_neither_tensorboard_nor_torch_is_imported_unasked(tmp_path):
    code = (
        "import sys; from puffertoolkit.logger.metrics import MetricsLog\n"
        f"log = MetricsLog({str(tmp_path)!r}, tensorboard=False); log.write({{'step': 1}}); log.close()\n"
        "print([name for name in ('torch', 'tensorboard', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(), st.none()))
def test_a_plain_scalar_is_itself(value):
    assert to_scalar("x", value) is value
