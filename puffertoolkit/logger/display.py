"""What every display of a running training can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO

from puffertoolkit.logger import formats
from puffertoolkit.logger.paths import evaluate_command, shown_path
from puffertoolkit.logger.progress import Progress, RunInfo

Note = Callable[[], str | None]


class Display(ABC):
    """Shows a run. It is a context manager: it starts and stops with the block.

    Args:
        info: The run.
        stream: Where to write.
        note: Gives a line to show for the moment, or None; for displays that draw by themselves.
    """

    def __init__(self, info: RunInfo, stream: TextIO, note: Note | None = None) -> None:
        self.progress = Progress(info, note)
        self.stream = stream
        self._broken = False

    @abstractmethod
    def start(self) -> None:
        """Begins to show the run."""

    @abstractmethod
    def update(self, row: Mapping[str, Any]) -> None:
        """Takes in a row of metrics; costs the training next to nothing."""

    @abstractmethod
    def message(self, text: str) -> None:
        """Shows a line of text for good."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the display, with the last row on the screen; more than once does no harm."""

    def closing(self) -> None:
        """Stops, then says how the run ended, where it is, and how to evaluate it."""
        self.stop()
        progress = self.progress
        step, total = progress.step, progress.info.total_steps
        steps = f"{step:,}" if step >= total else f"{step:,} of {total:,}"
        result = "".join(
            f"   {name} {formats.number(progress.values[key], 4)}"
            for name, key in (("score", "env/score"), ("perf", "env/perf"))
            if key in progress.values
        )
        path = shown_path(progress.info.run_dir)
        self.print_line(f"Trained {steps} steps in {formats.duration(progress.elapsed_s())}{result}")
        self.print_line(f"The run is in {path}")
        self.print_line("Evaluate it with")
        self.print_line(f"  {evaluate_command(path)}")

    def print_line(self, text: str) -> None:
        """Writes a line as it is: whole, not wrapped, so that it can be copied."""
        # A reader that went away (`| head`, a closed terminal) must not end hours of training.
        if self._broken:
            return
        try:
            self.stream.write(text + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            self._broken = True

    def __enter__(self) -> Display:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
