"""How long it takes to learn: seconds and agent steps until a score is reached, over several seeds."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import common
from benchmarks.common import median
from benchmarks.processes import running
from puffertoolkit.errors import UserError

SCRIPT = "bench_learning"
CONSECUTIVE = 3
"""So many iterations in a row that ended episodes must be good enough: one can be lucky."""
POLL_S = 0.2
START_S = 120.0
"""A run that has written nothing after so long is stuck."""
STOP_S = 60.0
"""Time to write the last checkpoint."""


@dataclass(frozen=True)
class Target:
    """A statistic of the environment's episodes, and what its mean has to reach."""

    name: str
    value: float

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read "perf=0.95"."""
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise UserError(f"--target {text} is not a statistic and a number, like perf=0.95 or score=400.")
        return cls(name, number)

    def __str__(self) -> str:
        return f"{self.name} {self.value:g}"


TARGETS = {
    "cartpole": [Target("perf", 0.95)],
    "squared": [Target("perf", 0.95)],
    "pong": [Target("perf", 0.9)],
    "breakout": [Target("score", 400), Target("score", 800)],
}


@dataclass
class Tracker:
    """Follows the rows of one run, and notes when each target was reached.

    A target is reached in the third of three iterations in a row whose episodes' mean is good enough;
    iterations in which no episode ended do not count. What is noted are steps and seconds at the end of
    that third one. After `limit_s` nothing counts any more.
    """

    targets: Sequence[Target]
    limit_s: float
    reached: dict[Target, dict[str, float]] = field(default_factory=dict)
    best: dict[Target, float] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0
    _streak: dict[Target, int] = field(default_factory=dict)

    def see(self, row: dict[str, Any]) -> None:
        """Take up the next row of metrics.jsonl."""
        self.steps, self.seconds = row["step"], row["uptime_s"]
        if self.seconds > self.limit_s or not row.get("env/episodes"):
            return
        for target in self.targets:
            value = row.get(f"env/{target.name}")
            if value is None:
                known = ", ".join(key.removeprefix("env/") for key in row if key.startswith("env/"))
                raise UserError(f"There is no statistic '{target.name}' to reach; there are: {known}.")
            self.best[target] = max(value, self.best.get(target, value))
            self._streak[target] = self._streak.get(target, 0) + 1 if value >= target.value else 0
            if self._streak[target] >= CONSECUTIVE:
                self.reached.setdefault(target, {"steps": self.steps, "seconds": self.seconds})

    @property
    def done(self) -> bool:
        """Whether every target was reached, or the time is over."""
        return len(self.reached) == len(self.targets) or self.seconds > self.limit_s


class Rows:
    """The rows of a file that grows; a line that is not yet complete waits."""

    def __init__(self, path: Path) -> None:
        self.path, self._read = path, 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Those since the last call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield json.loads(line)


def main(arguments: Sequence[str]) -> int:
    """Train every chosen environment with every seed."""
    parser = common.parser(
        SCRIPT,
        "Seconds and agent steps until the mean of the episodes has reached a score, in three iterations in "
        "a row; seconds count from the start of the first iteration, with kernels compiled.",
    )
    parser.add_argument("--env", nargs="+", default=list(TARGETS), help="environments to learn")
    parser.add_argument("--seeds", nargs="+", type=common.natural, default=[0, 1, 2], help="a run for each")
    parser.add_argument(
        "--limit-s", type=common.positive_number, default=1500.0, help="seconds after which a run is given up"
    )
    parser.add_argument(
        "--target", action="append", default=[], help="what to reach instead, like perf=0.9; may be repeated"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the runs in this folder")
    common.add_threads(parser)
    common.add_overrides(parser)
    options = parser.parse_intermixed_args(arguments)
    common.require_writable(options.json)
    overrides = [*options.overrides, f"num_threads={options.threads}"]
    for env in options.env:
        common.require_valid([f"env={env}", *overrides])
    targets = {env: targets_of(env, options.target) for env in options.env}
    require_new(options.keep)
    settings = {
        "seeds": options.seeds,
        "limit_s": options.limit_s,
        "threads": options.threads,
        "overrides": options.overrides,
    }
    report = common.record("learning", SCRIPT, arguments, settings)
    report["results"] = []
    with tempfile.TemporaryDirectory(prefix="bench_learning_") as temporary:
        folder = (options.keep or Path(temporary)).absolute()
        for env in options.env:
            compile_kernels(env, overrides, Path(temporary))
            runs = [
                learn(env, seed, targets[env], overrides, folder, options.limit_s) for seed in options.seeds
            ]
            report["results"] += summary(env, targets[env], options.seeds, runs)
    common.finish(report, table(report), options.json)
    return common.OK


def require_new(folder: Path | None) -> None:
    """Raise a UserError if runs are to be kept where there is something already."""
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--keep {folder} is not empty; name a folder that is new.")


def targets_of(env: str, named: Sequence[str]) -> list[Target]:
    """The targets named on the command line, or else those of the environment."""
    if named:
        return [Target.parse(text) for text in named]
    if env not in TARGETS:
        raise UserError(f"No target is known for '{env}'; name one, like --target perf=0.9.")
    return TARGETS[env]


def command_of(env: str, seed: int, overrides: Sequence[str], folder: Path) -> list[str]:
    """The training as anybody would start it, quiet and into a folder of its own."""
    run_dir = folder / f"{env}_s{seed}"
    quiet = ["logger.tensorboard=false", "logger.dashboard=off", "logger.print_interval_s=3600"]
    places = [f"seed={seed}", f"hydra.run.dir={run_dir}"]
    return [sys.executable, "-m", "puffertoolkit", f"env={env}", *quiet, *overrides, *places]


def compile_kernels(env: str, overrides: Sequence[str], folder: Path) -> None:
    """Run one iteration: what is compiled once per machine is not part of learning."""
    command = [*command_of(env, 0, overrides, folder / "compile"), "train.total_timesteps=1"]
    with running(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        if process.wait(STOP_S + START_S) != 0:
            raise UserError(f"The training of {env} ended with status {process.returncode}; see above.")


def learn(
    env: str, seed: int, targets: Sequence[Target], overrides: Sequence[str], folder: Path, limit_s: float
) -> Tracker:
    """One run, ended by its last target, the time limit, or its own last step."""
    tracker, rows = Tracker(targets, limit_s), Rows(folder / f"{env}_s{seed}" / "metrics.jsonl")
    command = command_of(env, seed, overrides, folder)
    begun = time.monotonic()
    with running(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not tracker.done:
            time.sleep(POLL_S)
            for row in rows.new():
                tracker.see(row)
            if tracker.steps == 0 and time.monotonic() - begun > START_S:
                raise UserError(f"The training of {env} has not made an iteration in {START_S:.0f} s.")
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            status = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise UserError(f"The training of {env} did not stop within {STOP_S:.0f} s.") from None
        if status != 0:
            raise UserError(f"The training of {env} with seed {seed} ended with status {status}; see above.")
    # The last rows of a run that ended by itself.
    if not tracker.done:
        for row in rows.new():
            tracker.see(row)
    for target in targets:
        common.say(f"{env} seed {seed}: {target} {_outcome(tracker, target)}")
    return tracker


def _outcome(tracker: Tracker, target: Target) -> str:
    if target in tracker.reached:
        at = tracker.reached[target]
        return f"after {at['seconds']:.1f} s and {at['steps']:,} steps"
    best = tracker.best.get(target)
    seen = "no episode ended" if best is None else f"best iteration {best:.4g}"
    return f"not reached in {tracker.seconds:.1f} s and {tracker.steps:,} steps ({seen})"


def summary(
    env: str, targets: Sequence[Target], seeds: Sequence[int], runs: Sequence[Tracker]
) -> list[dict[str, Any]]:
    """A result for each target: every run, and the medians over them."""
    results = []
    for target in targets:
        each = [
            {
                "seed": seed,
                "reached": target in run.reached,
                **run.reached.get(target, {"steps": run.steps, "seconds": run.seconds}),
                "best": run.best.get(target),
            }
            for seed, run in zip(seeds, runs, strict=True)
        ]
        results.append(
            {
                "env": env,
                "statistic": target.name,
                "target": target.value,
                "seconds": _median(each, "seconds"),
                "steps": _median(each, "steps"),
                "runs": each,
            }
        )
    return results


def _median(runs: Sequence[dict[str, Any]], key: str) -> float | None:
    """The median; a run that never got there took longer than any. None: so did the median."""
    middle = median([run[key] if run["reached"] else math.inf for run in runs])
    return middle if math.isfinite(middle) else None


def table(report: dict[str, Any]) -> Table:
    """What was measured, a row for each target."""
    shown = Table(title="Until a score is reached", title_justify="left", title_style="bold")
    shown.add_column("environment")
    shown.add_column("target")
    for column in ("seconds, median", "of each seed", "steps, median"):
        shown.add_column(column, justify="right")
    for result in report["results"]:
        each = ", ".join(
            f"{run['seconds']:.1f}" if run["reached"] else f">{run['seconds']:.0f}" for run in result["runs"]
        )
        seconds, steps = result["seconds"], result["steps"]
        shown.add_row(
            result["env"],
            f"{result['statistic']} {result['target']:g}",
            "not reached" if seconds is None else f"{seconds:.1f}",
            each,
            "-" if steps is None else f"{steps:,.0f}",
        )
    return shown


if __name__ == "__main__":
    common.program(main)
