"""mode=reproduce: train an earlier run again, and say whether the numbers are the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from puffertoolkit.config.saved import TRAINED, load_run
from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.errors import UserError
from puffertoolkit.logger.metrics import MetricsLog, read_rows
from puffertoolkit.logger.paths import shown_path
from puffertoolkit.modes.session import Session
from puffertoolkit.run.directory import RunDirectory, run_directory
from puffertoolkit.run.interrupt import Interrupt
from puffertoolkit.threads import available_cpus
from puffertoolkit.trainer.trainer import Row, Trainer

IDENTICAL, DIFFERENT = 0, 1
# What the machine had to do with rather than the algorithm.
NOT_COMPARED = ("time/", "sys/", "uptime_s", "sps")


def run(cfg: DictConfig, run_dir: Path) -> int:
    """Train `cfg.run` again; returns 0 if every number is the same, else 1."""
    original = run_directory(cfg.run)
    record = _record(original)
    rows, cut = comparable_rows(original, record.get("resumptions", []))
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"Training {shown_path(original.path)} again: {len(rows)} iterations to compare.")
    directory = RunDirectory(run_dir)
    session = Session.build(cfg, cfg.vec.num_envs)
    directory.write_provenance(cfg, sys.argv[1:], session.num_threads)
    _print_differences(console, record, _record(directory))
    if cut:
        console.print(cut, style="yellow")

    train = cast(TrainConfig, OmegaConf.to_object(cfg.train))
    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    comparison = Comparison(rows)
    with Interrupt() as interrupt, MetricsLog(run_dir, cfg.logger.tensorboard) as metrics:

        def report(row: Row) -> None:
            metrics.write(row)
            comparison.add(row)

        trainer.train(report, lambda: None, lambda: comparison.done or interrupt.requested)
    session.vector.close()
    console.print(comparison.verdict(), style="green" if comparison.difference is None else "red")
    console.print(f"The new run is in {shown_path(run_dir)}")
    complete = comparison.difference is None and comparison.compared == len(rows)
    return IDENTICAL if complete else DIFFERENT


class Comparison:
    """Compares rows of metrics with those of an earlier run, as they come.

    Args:
        rows: the earlier run's.
    """

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.compared = 0
        self.difference: str | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        """Compare the next row."""
        if self.done:
            return
        # As the file holds it: what is not finite is null there.
        found = json.loads(json.dumps(_finite(row)))
        self.difference = first_difference(self.rows[self.compared], found)
        self.compared += self.difference is None

    @property
    def done(self) -> bool:
        """Nothing is left to compare, or a difference was found."""
        return self.difference is not None or self.compared == len(self.rows)

    def verdict(self) -> str:
        """The outcome in a sentence."""
        step = self.rows[self.compared - 1]["step"] if self.compared else 0
        same = f"{self.compared} iterations, {step:,} steps"
        if self.difference is not None:
            return f"different: {self.difference} (identical until then: {same})"
        if self.compared < len(self.rows):
            left = len(self.rows) - self.compared
            return f"stopped: identical so far ({same}), {left} iterations were not compared"
        return f"identical: {same}"


def first_difference(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """The first metric in which two rows differ, in words; None if there is none."""
    for name in [*wanted, *(name for name in found if name not in wanted)]:
        if name.startswith(NOT_COMPARED):
            continue
        there, here = (row.get(name, "missing") for row in (wanted, found))
        if there != here:
            return f"at step {wanted['step']:,}, {name} was {there} and is {here}"
    return None


def comparable_rows(
    original: RunDirectory, resumptions: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], str]:
    """The rows of a run up to where its settings changed, and what to tell if they did.

    Args:
        original: the run.
        resumptions: what `run.json` says of the processes that took it up again.

    Raises:
        UserError: there are none.
    """
    rows = [row for row in read_rows(original.metrics) if "epoch" in row]
    if not rows:
        raise UserError(f"The run {original.path} has no metrics to compare with: it ended before its first.")
    first = load_run(original.path, TRAINED).sections
    for resumption in resumptions:
        if load_run(original.path, TRAINED, original.path / resumption["config"]).sections != first:
            step = resumption["step"]
            return [row for row in rows if row["step"] <= step], (
                f"The run went on with other settings from step {step:,}, and is compared until there."
            )
    return rows, ""


def _record(directory: RunDirectory) -> dict[str, Any]:
    try:
        return dict(json.loads(directory.provenance.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{directory.provenance} cannot be read: {error}. The run cannot be rebuilt."
        ) from error


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What may change the numbers and is not the same: (name, there, here)."""
    for name in {**there["versions"], **here["versions"]}:
        yield name, str(there["versions"].get(name)), str(here["versions"].get(name))
    for name in ("platform", "processor", "num_threads"):
        yield name, str(there.get(name)), str(here.get(name))
    for what in ("sha", "dirty"):
        yield f"git {what}", str(there["git"].get(what)), str(here["git"].get(what))


def _print_differences(console: Console, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    rows = [row for row in differences(there, here) if row[1] != row[2]]
    if rows:
        table = Table(
            "", "the run", "now", title="These differ and may change the numbers", title_justify="left"
        )
        for row in rows:
            table.add_row(*row)
        console.print(table, style="yellow")
    if there["git"].get("dirty"):
        console.print(
            "The run's code was not as committed; git.diff beside it says how it differed.", style="yellow"
        )
    if int(there["num_threads"]) > available_cpus():
        console.print(
            f"The run used {there['num_threads']} threads, and this machine has {available_cpus()} cores: "
            "the numbers can be the same, the speed cannot.",
            style="yellow",
        )


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    infinite = (float("inf"), float("-inf"))
    return {name: None if value != value or value in infinite else value for name, value in row.items()}
