"""Writes docs/benchmarks.md from the records in docs/benchmarks: no number there is typed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import common, contention, learning, scaling, train
from puffertoolkit.errors import UserError

SCRIPT = "bench_docs"
DOCS = Path(__file__).parents[2] / "docs"
RECORDS, PAGE = DOCS / "benchmarks", DOCS / "benchmarks.md"
HEAD = """# Benchmarks

Written by `scripts/bench_docs` from the records in [benchmarks](benchmarks), which are what the commands
below wrote: change a record, not this page. Speeds are medians of agent steps per second, ± half of the way
from the slowest to the fastest repeat. Absolute figures move from machine to machine: compare those of one
table.
"""


def speed_table(report: dict[str, Any]) -> Table:
    """What mode=bench measured."""
    shown = Table(
        title=(
            f"{report['env']}, {report['num_agents']:,} agents, {report['policy']}, {report['device']}, "
            f"{report['num_threads']} threads, horizon {report['horizon']}, minibatch "
            f"{report['minibatch_size']:,}, epochs {report['update_epochs']}, {report['precision']}"
        )
    )
    for column in ("simulation", "rollout", "training", "memory, MB"):
        shown.add_column(column, justify="right")
    for part in report["shares"]:
        shown.add_column(f"{part}, %", justify="right")
    speeds = (
        f"{report['sps'][kind]:,.0f} ± {report['spread'][kind] / 2:.0%}"
        for kind in ("simulation", "rollout", "training")
    )
    shares = (f"{100 * share:.1f}" for share in report["shares"].values())
    shown.add_row(*speeds, f"{report['peak_memory_mb']:,.0f}", *shares)
    return shown


@dataclass(frozen=True)
class Section:
    """A heading, what the tables beneath it say, how to read a record, and how to make one."""

    title: str
    text: str
    table: Callable[[dict[str, Any]], Table]
    command: str


SECTIONS = {
    "speed": Section(
        "Speed",
        "Environments alone under random actions, rollouts (the policy acts, the environments step, the "
        "buffer fills), and whole iterations; then the shares of an iteration's time. `rest` is what is none "
        "of environment, forward, backward and optimizer.",
        speed_table,
        "python -m puffertoolkit mode=bench",
    ),
    "train": Section(
        "Beside Stable-Baselines3",
        "The same environment, the same network (layers shared by policy and value), the same batches and "
        "optimizer; each in a process of its own, measured in turn. Breakout is ours for both; CartPole-v1 "
        "is Gymnasium's, one Python object per environment.",
        train.table,
        "scripts/bench_train --json docs/benchmarks/train.json",
    ),
    "learning": Section(
        "Time to score",
        "Until the mean of the episodes has reached the target in three iterations in a row, with the "
        "settings that `env=<name>` alone gives unless the command says otherwise. Seconds count from the "
        "start of the first iteration, with kernels compiled. `>` is a run that was given up, or ended, "
        "before it got there. The policy of all four is `mlp`, two layers: their observations say all that "
        "matters, so a memory would only cost time (an LSTM takes three times as long per step), and one "
        "layer less, on breakout, stayed at 117 points where two reached 600 and more in 20 M steps.",
        learning.table,
        "scripts/bench_learning --json docs/benchmarks/learning.json",
    ),
    "contention": Section(
        "On busy cores",
        "The same training while other processes want the cores. A fair share is what remains if each of all "
        "busy threads gets as much time.",
        contention.table,
        "scripts/bench_contention --json docs/benchmarks/contention.json",
    ),
    "scaling": Section(
        "Few agents and many",
        "Nanoseconds per agent step with the same minibatch, and the memory: what the run says beforehand "
        "that training adds, and the peak of the whole process.",
        scaling.table,
        "scripts/bench_scaling --json docs/benchmarks/scaling.json",
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Write the page, or see whether it is up to date."""
    parser = common.bare_parser(SCRIPT, "Write docs/benchmarks.md from the records in docs/benchmarks.")
    parser.add_argument("--records", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; status 1 if the page would change"
    )
    options = parser.parse_args(arguments)
    page = render(options.records)
    if options.check:
        return int(not options.output.is_file() or options.output.read_text() != page)
    options.output.write_text(page)
    common.say(f"wrote {options.output}")
    return common.OK


def render(folder: Path) -> str:
    """The page of all records in a folder.

    Raises:
        UserError: the folder does not exist, or a file in it is no record.
    """
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder} with records; name one with --records.")
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in SECTIONS}
    for path in sorted(folder.glob("*.json")):
        report = read(path)
        found[report["kind"]].append(report)
    return "\n".join([HEAD, *(_section(section, found[kind]) for kind, section in SECTIONS.items())])


def read(path: Path) -> dict[str, Any]:
    """The record in a file.

    Raises:
        UserError: it is not one.
    """
    try:
        report = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}.") from error
    kind = report.get("kind") if isinstance(report, dict) else None
    if kind not in SECTIONS:
        raise UserError(
            f"{path} is no record of a benchmark: its kind is {kind!r}, not {', '.join(SECTIONS)}."
        )
    return dict(report)


def _section(section: Section, reports: Sequence[dict[str, Any]]) -> str:
    parts = [f"## {section.title}", section.text]
    for report in reports:
        parts += [markdown(section.table(report)), _origin(report)]
    if not reports:
        parts.append(f"Not measured yet: `{section.command}`")
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """The table as Markdown, its title above it."""
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    rules = ["---:" if column.justify == "right" else "---" for column in table.columns]
    heads = [str(column.header) for column in table.columns]
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (heads, rules, *rows)]
    return "\n".join([f"**{table.title}**", "", *lines])


def _origin(report: dict[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return (
        f"`{report['command']}`  \n{report['date']}, {machine['processor']}, {machine['cpu_count']} cores, "
        f"{machine['system']} on {machine['architecture']}; {named}"
    )


if __name__ == "__main__":
    common.program(main)
