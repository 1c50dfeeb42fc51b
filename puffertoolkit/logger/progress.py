"""What a display knows of a run: its facts, its newest numbers, and the history of its score."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puffertoolkit.logger.metrics import to_scalar


@dataclass(frozen=True)
class RunInfo:
    """What stays the same during a run.

    Attributes:
        env: The env's short name.
        policy: The policy in a few words, with its size: `MLP 128, 0.04M parameters`.
        device: What it trains on.
        run_dir: The run's directory.
        total_steps: Agent steps in all.
    """

    env: str
    policy: str
    device: str
    run_dir: Path
    total_steps: int


class History:
    """The whole course of one number in bounded memory: when it is full, neighbours are averaged."""

    CAPACITY = 512

    def __init__(self) -> None:
        self._values: list[float] = []
        self._pending: list[float] = []
        self._stride = 1

    def append(self, value: float) -> None:
        """Adds the next value."""
        self._pending.append(value)
        if len(self._pending) < self._stride:
            return
        self._values.append(sum(self._pending) / len(self._pending))
        self._pending.clear()
        if len(self._values) == self.CAPACITY:
            pairs = zip(self._values[::2], self._values[1::2], strict=True)
            self._values = [(a + b) / 2 for a, b in pairs]
            self._stride *= 2

    def values(self) -> list[float]:
        """The course so far, at even spacing."""
        return list(self._values)


class Progress:
    """Where the run stands. Rows go in; a display reads it, perhaps from another thread.

    A value missing from a row, as an episode mean is when no episode ended, keeps its last value.

    Args:
        info: The run.
        note: Gives a line to show for the moment, or None; asked at every drawing.
    """

    # The weight of the newest iteration in the speed and the times shown, which would flicker otherwise.
    SMOOTHING = 0.2

    def __init__(self, info: RunInfo, note: Callable[[], str | None] | None = None) -> None:
        self.info = info
        self.note = note
        self.values: dict[str, float] = {}
        self.score = History()
        self.phases_s: dict[str, float] = {}
        self.rows = 0
        self._step_s: float | None = None
        self._row_at_s = self._started_s = time.monotonic()

    def update(self, row: Mapping[str, Any]) -> None:
        """Takes in a row of metrics."""
        scalars = {key: to_scalar(key, value) for key, value in row.items()}
        numbers = {key: float(value) for key, value in scalars.items() if isinstance(value, (int, float))}
        finite = {key: value for key, value in numbers.items() if math.isfinite(value)}
        # A new dictionary each time: one that a drawing thread iterates over is never changed.
        self.values = {**self.values, **finite}
        if "env/score" in finite:
            self.score.append(finite["env/score"])
        if (sps := finite.get("sps", 0.0)) > 0:
            self._step_s = self._smooth(self._step_s, 1 / sps)
        times = {key[5:-2]: value for key, value in finite.items() if key.startswith("time/")}
        smoothed = {name: self._smooth(self.phases_s.get(name), value) for name, value in times.items()}
        self.phases_s = {**self.phases_s, **smoothed}
        self._row_at_s = time.monotonic()
        self.rows += 1

    @property
    def sps(self) -> float | None:
        """Agent steps per second of late, None while that is not known."""
        return None if self._step_s is None else 1 / self._step_s

    @property
    def step(self) -> int:
        """Agent steps so far."""
        return int(self.values.get("step", 0))

    @property
    def share(self) -> float:
        """How much of the run is done, from 0 to 1."""
        return min(self.step / self.info.total_steps, 1.0) if self.info.total_steps > 0 else 1.0

    def elapsed_s(self) -> float:
        """Seconds since the start, the time since the last row included."""
        if self.rows == 0 or "uptime_s" not in self.values:
            return time.monotonic() - self._started_s
        return self.values["uptime_s"] + time.monotonic() - self._row_at_s

    def left_s(self) -> float | None:
        """Seconds left at the present speed, None while that is not known."""
        if self.sps is None:
            return None
        left = max(self.info.total_steps - self.step, 0) / self.sps
        return max(left - (time.monotonic() - self._row_at_s), 0.0)

    def _smooth(self, old: float | None, new: float) -> float:
        # The first iteration compiles and warms up: it says nothing about those to come.
        return new if self.rows < 2 or old is None else old + self.SMOOTHING * (new - old)
