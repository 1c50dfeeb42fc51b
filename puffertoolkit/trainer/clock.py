"""Where the time of an iteration goes."""

from __future__ import annotations

import time

Row = dict[str, float]


class Clock:
    """Stops laps of an iteration; `time/log_s` is that of the iteration before."""

    def __init__(self) -> None:
        self._begun = self._last = time.perf_counter()
        self._laps: Row = {"time/log_s": 0.0}
        self._rated = (0, self._begun)

    def go_on(self, uptime_s: float, step: int) -> None:
        """Count on from an earlier process, which had run for `uptime_s` and made `step` steps."""
        now = time.perf_counter()
        self._begun, self._rated = now - uptime_s, (step, now)

    def start(self) -> None:
        """An iteration begins."""
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """What was done since the last lap is called `name`."""
        now = time.perf_counter()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def drain(self) -> Row:
        """Seconds by name since the last call."""
        laps, self._laps = self._laps, {"time/log_s": 0.0}
        return laps

    @property
    def uptime_s(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._begun

    def rate(self, step: int) -> float:
        """Steps per second since the last call."""
        (step_before, before), now = self._rated, time.perf_counter()
        self._rated = (step, now)
        return (step - step_before) / (now - before)
