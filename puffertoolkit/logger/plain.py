"""The display for files, pipes and simple terminals: one plain line now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TextIO

from puffertoolkit.logger import formats
from puffertoolkit.logger.display import Display
from puffertoolkit.logger.progress import Progress, RunInfo


class PlainLines(Display):
    """Prints one line per `interval_s`, and the last row in any case.

    Args:
        info: The run.
        stream: Where to print.
        interval_s: Seconds from one line to the next.
    """

    def __init__(self, info: RunInfo, stream: TextIO, interval_s: float) -> None:
        super().__init__(info, stream)
        self._interval_s = interval_s
        self._printed_at_s: float | None = None
        self._printed_rows = 0

    def start(self) -> None:
        """Says what runs and where."""
        info = self.progress.info
        self.print_line(f"{info.env}  {info.policy}  {info.device}  {info.run_dir}")

    def update(self, row: Mapping[str, Any]) -> None:
        """Takes in a row of metrics and prints it if it is time."""
        self.progress.update(row)
        now = time.monotonic()
        if self._printed_at_s is None or now - self._printed_at_s >= self._interval_s:
            self._print_row()
            self._printed_at_s = now

    def message(self, text: str) -> None:
        """Prints a line of text."""
        self.print_line(text)

    def stop(self) -> None:
        """Prints the last row, unless it was printed."""
        if self.progress.rows > self._printed_rows:
            self._print_row()

    def _print_row(self) -> None:
        self._printed_rows = self.progress.rows
        self.print_line(line(self.progress))


def line(progress: Progress) -> str:
    """The run's state in one line of plain ASCII."""
    values = progress.values
    total = progress.info.total_steps
    parts = [
        progress.info.env,
        f"{progress.step:,}/{total:,} steps",
        formats.percent(progress.share),
        f"{formats.compact(progress.sps or 0)} SPS",
    ]
    named = (("score", "env/score"), ("perf", "env/perf"), ("return", "env/episode_return"))
    parts += [f"{name} {formats.number(values[key])}" for name, key in named if key in values]
    parts.append(f"left {formats.duration(progress.left_s())}")
    return "  ".join(parts)
