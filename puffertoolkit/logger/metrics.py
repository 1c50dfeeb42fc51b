"""Metrics on disk: one JSON object per line in `metrics.jsonl`, and the same numbers for TensorBoard."""

from __future__ import annotations

import json
import math
import os
import queue
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from puffertoolkit.errors import UserError
from puffertoolkit.files import replace_file

Scalar = float | int | bool | str | None


class MetricsLog:
    """Appends rows to `metrics.jsonl` and, if asked, to `tb/` of a run's directory.

    Every row is flushed, so that a killed run keeps all of its rows but perhaps the last one. TensorBoard's
    files are written by a thread, which also does the slow import.

    Args:
        run_dir: The run's directory; it must exist.
        tensorboard: Whether to write `tb/` too.
        resume_step: Go on after this step: rows of later ones, from a process that was killed, are dropped.
    """

    def __init__(
        self, run_dir: str | os.PathLike[str], tensorboard: bool = True, resume_step: int | None = None
    ) -> None:
        self.path = Path(run_dir) / "metrics.jsonl"
        self._order: dict[str, None] = {}
        self.kept = [] if resume_step is None else _drop_later(self.path, resume_step)
        for row in self.kept:
            self._order.update(dict.fromkeys(row))
        torn = _lacks_newline(self.path)
        self._file = self.path.open("a", encoding="utf-8")
        if torn:
            self._file.write("\n")
        self._tensorboard = _TensorBoardThread(Path(run_dir) / "tb", resume_step) if tensorboard else None

    def write(self, row: Mapping[str, Any]) -> None:
        """Writes one row.

        Args:
            row: Numbers by name, among them `step`, in agent steps. Scalars of NumPy and Torch are converted;
                what is not finite becomes null, as JSON has no word for it. Text is kept in `metrics.jsonl`
                and left out of TensorBoard.

        Raises:
            TypeError: A value is not a scalar.
            KeyError: The row has no `step`.
            UserError: The disk is full or gone.
        """
        values = {key: to_scalar(key, value) for key, value in row.items()}
        step = values["step"]
        for key in values:
            self._order.setdefault(key)
        line = {key: finite_or_none(values[key]) for key in self._order if key in values}
        numbers = {k: float(v) for k, v in values.items() if k != "step" and isinstance(v, (int, float))}
        try:
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()
            if self._tensorboard is not None:
                self._tensorboard.put(int(step or 0), numbers)
        except OSError as error:
            raise self._failure(error) from error

    def sync(self) -> None:
        """Waits until the rows are on the disk, as a checkpoint that follows them will be.

        Raises:
            UserError: The disk is full or gone.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from error
        if self._tensorboard is not None:
            self._tensorboard.flush()

    def _failure(self, error: OSError) -> UserError:
        return UserError(
            f"The metrics could not be written to {self.path.parent}: {error}. The run stops here "
            "rather than lose its record; the checkpoints written so far are whole."
        )

    def close(self) -> None:
        """Writes out what is pending and closes the files; more than once does no harm."""
        self._file.close()
        if self._tensorboard is not None:
            self._tensorboard.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def to_scalar(key: str, value: Any) -> Scalar:
    """A plain Python scalar of `value`, which may be a one-element array or tensor.

    Raises:
        TypeError: It is none; the message has the key.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    # NumPy and Torch share this method; asking for it spares importing either.
    if hasattr(value, "item"):
        try:
            item = value.item()
        except (RuntimeError, ValueError) as error:
            shape = tuple(value.shape)
            raise TypeError(f"metric '{key}' must be one number, not an array of shape {shape}") from error
        if isinstance(item, (bool, int, float, str)):
            return item
    raise TypeError(f"metric '{key}' must be a number, not {type(value).__name__}: {value!r}")


def finite_or_none(value: Scalar) -> Scalar:
    """A scalar as a line of `metrics.jsonl` holds it: JSON has no word for what is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl`, without a last one that a kill cut short; none if there is no file.

    Raises:
        UserError: a line is no JSON object.
    """
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    try:
        return [dict(json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} holds something other than rows of metrics: {error}") from error


def _drop_later(path: Path, step: int) -> list[dict[str, Any]]:
    """Keep the rows up to `step`, and return them."""
    rows = read_rows(path)
    kept = [row for row in rows if row["step"] <= step]
    replace_file(path, "".join(json.dumps(row) + "\n" for row in kept).encode())
    return kept


def _lacks_newline(path: Path) -> bool:
    """Whether the file ends in the middle of a line, as after a kill."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


class _TensorBoardThread:
    """Writes one event file, record by record, from a queue."""

    FLUSH_INTERVAL_S = 2.0

    def __init__(self, directory: Path, resume_step: int | None = None) -> None:
        self._resume_step = resume_step
        directory.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._path = _unused(directory / name)
        # Without a limit: a slow disk must not stop the training, and rows are small.
        self._rows: queue.SimpleQueue[tuple[float, int, dict[str, float]] | None] = queue.SimpleQueue()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)
        self._thread.start()

    def put(self, step: int, numbers: dict[str, float]) -> None:
        if self._error is not None:
            raise self._error
        self._rows.put((time.time(), step, numbers))

    def flush(self) -> None:
        """Have what was put so far written out soon; does not wait for it."""
        self._rows.put((time.time(), 0, {}))  # a row of nothing

    def close(self) -> None:
        self._rows.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write_rows()
        except OSError as error:
            self._error = error

    def _write_rows(self) -> None:
        # These rather than tensorboard's EventFileWriter: that one imports TensorFlow where it is installed.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self._path.open("wb") as file:
            writer = RecordWriter(file)
            writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
            if self._resume_step is not None:
                # TensorBoard then forgets what files of earlier processes say of later steps.
                begun = SessionLog(status=SessionLog.START)
                event = Event(wall_time=time.time(), step=self._resume_step + 1, session_log=begun)
                writer.write(event.SerializeToString())
            next_flush = 0.0
            while (row := self._rows.get()) is not None:
                wall_time, step, numbers = row
                if not numbers:
                    file.flush()
                    continue
                values = [Summary.Value(tag=tag, simple_value=number) for tag, number in numbers.items()]
                event = Event(wall_time=wall_time, step=step, summary=Summary(value=values))
                writer.write(event.SerializeToString())
                if time.monotonic() >= next_flush:
                    file.flush()
                    next_flush = time.monotonic() + self.FLUSH_INTERVAL_S


def _unused(path: Path) -> Path:
    """The path, or the path with a number after it if it is taken."""
    number, candidate = 0, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.{number}")
    return candidate
