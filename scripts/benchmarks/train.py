"""Our training beside that of Stable-Baselines3, in turn on the same cores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.table import Table

from benchmarks import common
from benchmarks.common import median, spread
from benchmarks.processes import Sample, Worker
from benchmarks.settings import CASES, OURS, Settings
from puffertoolkit.errors import UserError

SCRIPT = "bench_train"
OUR_NAME, THEIR_NAME = "puffertoolkit", "Stable-Baselines3"


def main(arguments: Sequence[str]) -> int:
    """Measure the chosen environments."""
    parser = common.parser(
        SCRIPT,
        "Training speed beside Stable-Baselines3's PPO: the same environment, network and batches, each in a "
        "process of its own, measured in turn.",
    )
    parser.add_argument("--env", nargs="+", choices=list(CASES), default=list(CASES), help="what to train on")
    common.add_plan(parser, duration_s=5.0)
    common.add_threads(parser)
    options = parser.parse_args(arguments)
    common.require_writable(options.json)
    settings = {key: getattr(options, key) for key in ("repeats", "duration_s", "warmup_s", "threads")}
    report = common.record("train", SCRIPT, arguments, settings)
    report["versions"]["stable-baselines3"] = common.version_of("stable-baselines3")
    report["results"] = [
        compare(replace(CASES[name], threads=options.threads), options) for name in options.env
    ]
    common.finish(report, table(report), options.json)
    return common.OK


def compare(case: Settings, options: Any) -> dict[str, Any]:
    """Measure both in turn, A B A B ..."""
    common.say(f"{case.env}: building both ...")
    with (
        Worker.start(THEIR_NAME, "sb3", json.dumps(asdict(case))) as theirs,
        Worker.start(OUR_NAME, "ours", *OURS[case.env], *case.overrides()) as ours,
    ):
        require_same(ours.facts, theirs.facts)
        for worker in (ours, theirs):
            worker.measure(options.warmup_s)
        samples: dict[str, list[Sample]] = {OUR_NAME: [], THEIR_NAME: []}
        for turn in range(options.repeats):
            for worker in (ours, theirs):
                sample = worker.measure(options.duration_s)
                samples[worker.name].append(sample)
                common.say(
                    f"{case.env} {turn + 1}/{options.repeats} {worker.name}: {sample.sps:,.0f} steps/s"
                )
        facts = ours.facts
    result = {name: summary(each) for name, each in samples.items()}
    return {
        "settings": asdict(case),
        "parameters": facts["parameters"],
        "num_threads": facts["num_threads"],
        "ours": result[OUR_NAME],
        "theirs": result[THEIR_NAME],
        "ratio": result[OUR_NAME]["sps"] / result[THEIR_NAME]["sps"],
    }


def require_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise a UserError if the two are not of the same size: their ratio would say nothing."""
    for fact in ("num_agents", "parameters", "num_threads"):
        if ours[fact] != theirs[fact]:
            raise UserError(
                f"The two trainings do not compare: {fact} is {ours[fact]} in {OUR_NAME} and {theirs[fact]} "
                f"in {THEIR_NAME}. Make benchmarks/settings.py say the same of both."
            )


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """The median of the repeats, and all of them."""
    each = [sample.sps for sample in samples]
    return {
        "sps": median(each),
        "spread": spread(each),
        "repeats": each,
        "memory_mb": max(sample.memory_mb for sample in samples),
    }


def table(report: dict[str, Any]) -> Table:
    """What was measured, a row for each environment."""
    shown = Table(title="Training, agent steps per second", title_justify="left", title_style="bold")
    shown.add_column("environment")
    for column in (OUR_NAME, "±", THEIR_NAME, "±", "ratio", "memory, MB"):
        shown.add_column(column, justify="right")
    for result in report["results"]:
        ours, theirs = result["ours"], result["theirs"]
        shown.add_row(
            result["settings"]["env"],
            f"{ours['sps']:,.0f}",
            f"{ours['spread'] / 2:.0%}",
            f"{theirs['sps']:,.0f}",
            f"{theirs['spread'] / 2:.0%}",
            f"{result['ratio']:.1f}",
            f"{ours['memory_mb']:,.0f} / {theirs['memory_mb']:,.0f}",
        )
    return shown


if __name__ == "__main__":
    common.program(main)
