"""Processes that a benchmark starts, and ends whatever happens."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from puffertoolkit.errors import UserError

START_S = 300.0
"""A worker that has not built everything after so long is stuck."""
GRACE_S = 10.0


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, all of which is gone when the block is left."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes], grace_s: float = GRACE_S) -> None:
    """End a process and those it started: asked first, then killed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            # What is still in the buffer has no reader.
            with suppress(BrokenPipeError):
                stream.close()


@dataclass(frozen=True)
class Sample:
    """One measurement: agent steps made in so many seconds, and the process's peak memory in MB."""

    steps: int
    seconds: float
    memory_mb: float

    @property
    def sps(self) -> float:
        """Agent steps per second."""
        return self.steps / self.seconds


class Worker:
    """A training in a process of its own, which goes on for as long as it is told and then waits.

    Two of them can be measured in turn on the same cores, with nothing of the one in the other's process. A
    worker ends by itself when the benchmark does: its standard input ends.
    """

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name, self.process = name, process
        self._unread = b""
        self.facts: dict[str, Any] = self._receive(START_S)

    @classmethod
    @contextmanager
    def start(cls, name: str, *arguments: str) -> Iterator[Worker]:
        """A worker that has built everything and waits."""
        command = [sys.executable, "-m", "benchmarks.worker", *arguments]
        with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            yield cls(name, process)

    def begin(self, duration_s: float) -> None:
        """Let it train for `duration_s`, at least one iteration; `result` tells how far it came."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{duration_s}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None

    def result(self, duration_s: float) -> Sample:
        """Wait for the end of what `begin` began."""
        return Sample(**self._receive(duration_s + START_S))

    def measure(self, duration_s: float) -> Sample:
        """Train for `duration_s`, and tell how far it came."""
        self.begin(duration_s)
        return self.result(duration_s)

    def _receive(self, timeout_s: float) -> Any:
        assert self.process.stdout is not None
        pipe, deadline = self.process.stdout.fileno(), time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise UserError(f"{self.name} has not answered for {timeout_s:.0f} s.")
            block = os.read(pipe, 1 << 16)
            if not block:
                raise self._died()
            self._unread += block
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def _died(self) -> UserError:
        status = self.process.wait()
        return UserError(f"{self.name} ended with status {status}; what it said stands above.")
