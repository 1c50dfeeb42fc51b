"""Ctrl-C and SIGTERM end a run cleanly; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Turns the first SIGINT or SIGTERM into a flag which the loop reads; the second exits with status 130.

    Use it as a context manager; the handlers that stood before come back when it ends. Only the main thread
    may set handlers: anywhere else it does nothing and `requested` stays false.

    Example:
        with Interrupt() as interrupt:
            while not interrupt.requested:
                train_a_little()
            save_checkpoint()
    """

    def __init__(self) -> None:
        self.requested = False
        self.signal_name: str | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def note(self) -> str | None:
        """What to tell the user while the loop still finishes its work; None before any signal."""
        return (
            f"{self.signal_name}: saving and stopping soon; once more stops now" if self.requested else None
        )

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Nothing is printed here: a handler may run in the middle of another write to the terminal.
        if not self.requested:
            self.signal_name = signal.Signals(number).name
            self.requested = True
            return
        # An exit rather than a kill, so that the terminal and open files are left in order. With the earlier
        # handlers back, a third signal also cuts short whatever cleaning up is still going on.
        self._restore()
        raise SystemExit(130)

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            # A handler that was not set from Python reads as None, and cannot be put back by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
