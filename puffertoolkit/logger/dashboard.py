"""The live dashboard in a terminal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from puffertoolkit.logger import panels
from puffertoolkit.logger.display import Display, Note
from puffertoolkit.logger.progress import RunInfo

MIN_WIDTH = 48
MIN_HEIGHT = 10


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        """Goes quiet, where rich would end the process."""
        self.quiet = True


class Dashboard(Display):
    """Draws the run's state in place, from a thread of its own.

    Args:
        info: The run.
        stream: The terminal.
        note: Gives a line to show for the moment, or None.
    """

    # At most this often; when no row has come, the clock alone is no reason to draw more than once a second.
    INTERVAL_S = 0.25
    IDLE_INTERVAL_S = 1.0

    def __init__(self, info: RunInfo, stream: TextIO, note: Note | None = None) -> None:
        super().__init__(info, stream, note)
        self._error: Exception | None = None
        self.console = _Terminal(file=stream, force_terminal=True, highlight=False)
        self._live = Live(
            console=self.console,
            get_renderable=self._render,
            auto_refresh=False,
            vertical_overflow="crop",
        )
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_stopped, name="dashboard", daemon=True)

    def start(self) -> None:
        """Draws for the first time and starts the thread."""
        self._guarded(lambda: self._live.start(refresh=True))
        self._thread.start()

    def update(self, row: Mapping[str, Any]) -> None:
        """Takes in a row of metrics; the thread draws it when its time comes."""
        self.progress.update(row)
        self._news.set()

    def message(self, text: str) -> None:
        """Prints a line above the dashboard, where it stays."""
        self._guarded(lambda: self.console.print(Text(text), soft_wrap=True))

    def stop(self) -> None:
        """Draws the last row and leaves the picture on the screen."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        # It draws once more, and gives back the cursor and standard output even where drawing failed.
        with contextlib.suppress(OSError, ValueError):
            self._live.stop()
        if self._error is not None:
            self.print_line(f"The dashboard stopped early: {self._error!r}. The run itself was not affected.")

    def _draw_until_stopped(self) -> None:
        while not self._stopping.wait(self.INTERVAL_S):
            self._news.wait(self.IDLE_INTERVAL_S - self.INTERVAL_S)
            self._news.clear()
            if not self._stopping.is_set():
                self._guarded(self._live.refresh)

    def _render(self) -> RenderableType:
        if self._error is None:
            try:
                # The cursor rests on a line of its own, where the echo of ^C wraps no line of the picture.
                return Group(panels.render(self.progress, *self.console.size), Text())
            except Exception as error:
                self._error = error
        return Text()

    def _guarded(self, draw: Callable[[], None]) -> None:
        """Draws, unless drawing failed before: no fault of a screen may end a training."""
        if self._error is None:
            try:
                draw()
            except Exception as error:
                self._error = error


def can_draw(stream: TextIO) -> bool:
    """Whether the stream is a terminal which can show the dashboard."""
    if not stream.isatty():
        return False
    console = Console(file=stream)
    unicode = console.encoding.startswith("utf")
    return (
        unicode
        and not console.is_dumb_terminal
        and console.width >= MIN_WIDTH
        and console.height >= MIN_HEIGHT
    )
