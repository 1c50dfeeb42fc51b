"""What all benchmarks share: the command line, the record in JSON, the table."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import shlex
import signal
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table

from puffertoolkit.errors import UserError
from puffertoolkit.modes.bench import machine_of_benchmark
from puffertoolkit.run.provenance import versions

OK, USAGE_ERROR, INTERRUPTED = 0, 2, 130
FILE_WIDTH = 120
"""Columns of a table that goes to a file or a pipe."""


def bare_parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser of `scripts/<name>`."""
    return argparse.ArgumentParser(
        prog=f"scripts/{name}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """The same, with the options that all measurements have."""
    made = bare_parser(name, description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the record there, too")
    return made


def add_plan(made: argparse.ArgumentParser, duration_s: float) -> None:
    """Add how often and how long to measure."""
    made.add_argument("--repeats", type=repeats, default=5, help="measurements of each, at least 3")
    made.add_argument(
        "--duration-s", type=positive_number, default=duration_s, help="seconds of one measurement"
    )
    made.add_argument(
        "--warmup-s", type=positive_number, default=2.0, help="seconds of each before the first, not measured"
    )


def add_threads(made: argparse.ArgumentParser) -> None:
    """Add the number of CPU threads of each process."""
    made.add_argument("--threads", type=natural, default=0, help="CPU threads of a training; 0 = all cores")


def add_overrides(made: argparse.ArgumentParser) -> None:
    """Add the overrides of the configuration, which are passed on."""
    made.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="settings, as `python -m puffertoolkit` takes them"
    )


def _number(text: str, convert: Callable[[str], Any], holds: Callable[[Any], bool], wanted: str) -> Any:
    try:
        value = convert(text)
    except ValueError:
        value = None
    if value is None or not math.isfinite(value) or not holds(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return value


def natural(text: str) -> int:
    """An integer of at least 0."""
    return int(_number(text, int, lambda value: value >= 0, "an integer of at least 0"))


def positive(text: str) -> int:
    """An integer of at least 1."""
    return int(_number(text, int, lambda value: value >= 1, "an integer of at least 1"))


def repeats(text: str) -> int:
    """An integer of at least 3: fewer have no median worth the name."""
    return int(_number(text, int, lambda value: value >= 3, "an integer of at least 3"))


def positive_number(text: str) -> float:
    """A number above 0."""
    return float(_number(text, float, lambda value: value > 0, "a number above 0"))


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return float(statistics.median(values))


def spread(values: Sequence[float]) -> float:
    """From the least to the greatest, as a part of the median."""
    return (max(values) - min(values)) / median(values)


def record(kind: str, script: str, arguments: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """The head of a record: what was measured where, and the command that does it again."""
    return {
        "kind": kind,
        "date": datetime.date.today().isoformat(),
        "command": shlex.join([f"scripts/{script}", *arguments]),
        "machine": machine_of_benchmark(),
        "versions": versions(),
        "settings": settings,
    }


def version_of(package: str) -> str | None:
    """The version that is installed; None if it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def require_writable(path: Path | None) -> None:
    """Raise a UserError if a record could not be written there: better before an hour of measuring."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"is in {path.parent}, which is no folder"
        raise UserError(f"--json {path} {what}; name a file in a folder that exists.")


def finish(report: dict[str, Any], table: Table, path: Path | None) -> None:
    """Show the table, and write the record if asked."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(table)
    if path is not None:
        path.write_text(json.dumps(report, indent=2) + "\n")
        console.print(f"json  {path}")


def say(text: str) -> None:
    """Tell what goes on, on the error stream: the table alone is the output."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def require_valid(overrides: Sequence[str]) -> None:
    """Raise a UserError with everything that is wrong with these overrides."""
    command = [sys.executable, "-m", "puffertoolkit", *overrides, "--cfg", "job"]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise UserError(result.stderr.strip())


def program(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a benchmark as the whole process: its mistakes as text, its interruption without a traceback."""
    # A kill unwinds the stack as Ctrl-C does, and with it the processes that were started.
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGHUP, _interrupted)
    try:
        status = main(sys.argv[1:])
    except UserError as error:
        text = str(error)
        say(text if "\n" in text else textwrap.fill(text, 100, break_long_words=False))
        status = USAGE_ERROR
    except KeyboardInterrupt:
        say("interrupted")
        status = INTERRUPTED
    sys.exit(status)


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt
