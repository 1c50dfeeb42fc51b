"""How a training slows down while other processes want the same cores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from rich.table import Table

from benchmarks import common
from benchmarks.common import median, spread
from benchmarks.processes import Worker
from puffertoolkit.threads import available_cpus

SCRIPT = "bench_contention"
LEAD_S = 1.0
"""The other training begins so much before what is measured."""
CONDITIONS = {
    "alone": "nothing else runs",
    "busy": "beside Python processes that compute without pause",
    "training": "beside a second training, just like it",
}


def main(arguments: Sequence[str]) -> int:
    """Measure the training under each condition in turn."""
    parser = common.parser(
        SCRIPT,
        "Training speed alone, beside processes that keep cores busy, and beside a second training; measured "
        "in turn. A fair share is what a scheduler that treats all threads alike would give.",
    )
    parser.add_argument(
        "--busy", type=common.positive, default=1, help="processes that keep a core busy each"
    )
    common.add_plan(parser, duration_s=5.0)
    common.add_threads(parser)
    common.add_overrides(parser)
    options = parser.parse_intermixed_args(arguments)
    common.require_writable(options.json)
    overrides = [*options.overrides, f"num_threads={options.threads}"]
    common.require_valid(overrides)
    names = ("repeats", "duration_s", "warmup_s", "threads", "busy", "overrides")
    report = common.record("contention", SCRIPT, arguments, {key: getattr(options, key) for key in names})
    report.update(measure(overrides, options))
    common.finish(report, table(report), options.json)
    return common.OK


def measure(overrides: Sequence[str], options: Any) -> dict[str, Any]:
    """Speeds under each condition, and how they compare."""
    common.say("building two trainings ...")
    speeds: dict[str, list[float]] = {name: [] for name in CONDITIONS}
    with (
        Worker.start("the training", "ours", *overrides) as training,
        Worker.start("the second training", "ours", *overrides) as second,
    ):
        for worker in (training, second):
            worker.measure(options.warmup_s)
        for turn in range(options.repeats):
            for name in CONDITIONS:
                with beside(name, second, options):
                    speed = training.measure(options.duration_s).sps
                speeds[name].append(speed)
                common.say(f"{turn + 1}/{options.repeats} {name}: {speed:,.0f} steps/s")
        facts = training.facts
    others = {"alone": 0, "busy": options.busy, "training": facts["num_threads"]}
    alone = median(speeds["alone"])
    results = [
        {
            "condition": name,
            "sps": median(speeds[name]),
            "spread": spread(speeds[name]),
            "repeats": speeds[name],
            "ratio": median(speeds[name]) / alone,
            "fair": fair_share(facts["num_threads"], others[name], available_cpus()),
        }
        for name in CONDITIONS
    ]
    return {"training": facts, "results": results}


@contextmanager
def beside(condition: str, second: Worker, options: Any) -> Iterator[None]:
    """Whatever the condition says goes on for as long as the block lasts."""
    with ExitStack() as stack:
        if condition == "busy":
            for number in range(options.busy):
                stack.enter_context(Worker.start(f"busy process {number + 1}", "busy"))
        if condition == "training":
            # Long enough for a last iteration of what is measured that takes as long again. Its own speed
            # is not asked for: at the end it is alone.
            duration_s = 2 * (LEAD_S + options.duration_s)
            second.begin(duration_s)
            stack.callback(second.result, duration_s)
            time.sleep(LEAD_S)
        yield


def fair_share(threads: int, others: int, cores: int) -> float:
    """The part of its speed that a training keeps if each of all busy threads gets as much time.

    Args:
        threads: of the training.
        others: threads of other processes that never wait.
        cores: that all of them share.
    """
    alone = min(threads, cores)
    return min(threads, cores * threads / (threads + others)) / alone


def table(report: dict[str, Any]) -> Table:
    """What was measured, a row for each condition."""
    facts = report["training"]
    title = (
        f"{facts['env']}, {facts['num_agents']:,} agents, {facts['policy']}, {facts['num_threads']} threads "
        f"on {report['machine']['cpu_count']} cores"
    )
    shown = Table(title=title, title_justify="left", title_style="bold")
    shown.add_column("training")
    for column in ("agent steps per second", "±", "of its speed alone", "a fair share"):
        shown.add_column(column, justify="right")
    for result in report["results"]:
        shown.add_row(
            CONDITIONS[result["condition"]],
            f"{result['sps']:,.0f}",
            f"{result['spread'] / 2:.0%}",
            f"{result['ratio']:.0%}",
            f"{result['fair']:.0%}",
        )
    return shown


if __name__ == "__main__":
    common.program(main)
