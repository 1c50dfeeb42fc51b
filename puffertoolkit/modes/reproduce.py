"""mode=reproduce: train an earlier run again, and say whether the numbers are the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from puffertoolkit.config import saved
from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.errors import UserError
from puffertoolkit.logger.choice import make_display
from puffertoolkit.logger.metrics import MetricsLog, finite_or_none, read_rows
from puffertoolkit.logger.paths import shown_path
from puffertoolkit.modes.session import Session
from puffertoolkit.run import provenance
from puffertoolkit.run.directory import RunDirectory, run_directory
from puffertoolkit.run.interrupt import Interrupt
from puffertoolkit.threads import available_cpus
from puffertoolkit.trainer.memory import needed_memory, require_memory
from puffertoolkit.trainer.trainer import Row, Trainer

IDENTICAL, DIFFERENT = 0, 1
# What the machine had to do with rather than the algorithm.
NOT_COMPARED = ("time/", "sys/", "uptime_s", "sps")


def run(cfg: DictConfig, run_dir: Path) -> int:
    """Train `cfg.run` again; returns 0 if every number is the same, else 1."""
    original = run_directory(cfg.run)
    record = original.read_provenance()
    rows, notes = comparable_rows(original, record)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"Training {shown_path(original.path)} again: {len(rows)} iterations to compare.")
    directory = RunDirectory(run_dir)
    session = Session.build(cfg, cfg.vec.num_envs)
    train = cast(TrainConfig, OmegaConf.to_object(cfg.train))
    require_memory(needed_memory(train, session.vector, session.policy), session.device)
    directory.write_provenance(cfg, provenance.arguments, session.num_threads, session.device_name)
    _print_differences(console, record, directory.read_provenance())
    for note in notes:
        console.print(note, style="yellow")

    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    comparison = Comparison(rows)
    info = session.run_info(run_dir, rows[-1]["step"])
    with (
        Interrupt() as interrupt,
        MetricsLog(run_dir, cfg.logger.tensorboard) as metrics,
        make_display(cfg.logger, info, note=interrupt.note) as display,
    ):

        def report(row: Row) -> None:
            metrics.write(row)
            display.update(row)
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
        found = {name: finite_or_none(value) for name, value in row.items()}
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
    original: RunDirectory, record: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a run up to where one process cannot repeat them, and what to tell of it.

    Args:
        original: the run.
        record: its `run.json`.

    Raises:
        UserError: there are none.
    """
    rows = [row for row in read_rows(original.metrics) if "epoch" in row]
    if not rows:
        raise UserError(f"The run {original.path} has no metrics to compare with: it ended before its first.")
    # A process that began before the end of another dropped what that had done from there on.
    processes: list[Mapping[str, Any]] = []
    for process in record.get("resumptions", []):
        processes = [p for p in processes if p["step"] < process["step"]] + [process]
    first = saved.load_run(original.path, saved.TRAINED)
    notes = []
    for process in processes:
        step = process["step"]
        if why := _why_other_numbers(original, record, process, first):
            notes.append(f"The run {why} from step {step:,}, and is compared until there.")
            return [row for row in rows if row["step"] <= step], notes
        if unlike := [
            f"{name} was {a} and then {b}" for name, a, b in provenance.differences(record, process)
        ]:
            notes.append(f"From step {step:,} the run was trained elsewhere: {', '.join(unlike)}.")
    return rows, notes


def _why_other_numbers(
    original: RunDirectory, record: Mapping[str, Any], process: Mapping[str, Any], first: saved.SavedRun
) -> str:
    """What keeps a process that went on with a run from being repeated by one that trains it at a stretch."""
    folder = saved.config_folder(original.path, process)
    now = saved.load_run(original.path, saved.TRAINED, folder).sections
    changed = [key for key, _, _ in saved.changed_keys(first, OmegaConf.create(now), saved.TRAINED)]
    # Of the threads, config files say what was asked for.
    names = [key for key in changed if key not in (*saved.HARMLESS, "num_threads")]
    if process["num_threads"] != record["num_threads"]:
        names.append("num_threads")
    if names:
        return f"went on with other settings ({', '.join(names)})"
    return "" if process["exact"] else "went on with new episodes"


def _print_differences(console: Console, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    if rows := provenance.differences(there, here):
        table = Table(
            "", "the run", "now", title="These differ and may change the numbers", title_justify="left"
        )
        for row in rows:
            table.add_row(*row)
        console.print(table, style="yellow")
    if (there.get("git") or {}).get("dirty"):
        console.print(
            "The run's code was not as committed; git.diff beside it says how it differed.", style="yellow"
        )
    if here["num_threads"] > available_cpus():
        console.print(
            f"The run used {here['num_threads']} threads, and this machine has {available_cpus()} cores: "
            "the numbers can be the same, the speed cannot.",
            style="yellow",
        )
