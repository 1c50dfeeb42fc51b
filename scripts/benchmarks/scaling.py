"""What an agent step costs, and what memory it takes, with few agents and with many."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import common
from benchmarks.processes import running
from puffertoolkit.errors import UserError

SCRIPT = "bench_scaling"
KINDS = ("simulation", "rollout", "training")


def main(arguments: Sequence[str]) -> int:
    """Measure with every number of agents."""
    parser = common.parser(
        SCRIPT,
        "The cost of an agent step with few and with many agents and the same minibatch: mode=bench of each.",
    )
    parser.add_argument(
        "--agents",
        nargs="+",
        type=common.positive,
        default=[256, 1024, 4096, 16384],
        help="copies of the env",
    )
    parser.add_argument(
        "--minibatch",
        type=common.positive,
        default=16384,
        help="agent steps per gradient step, of all of them",
    )
    parser.add_argument("--horizon", type=common.positive, default=64, help="steps per segment")
    common.add_plan(parser, duration_s=3.0)
    common.add_threads(parser)
    common.add_overrides(parser)
    options = parser.parse_intermixed_args(arguments)
    common.require_writable(options.json)
    commands = {agents: overrides_of(agents, options) for agents in options.agents}
    for overrides in commands.values():
        common.require_valid(overrides)
    names = ("minibatch", "horizon", "repeats", "duration_s", "warmup_s", "threads", "overrides")
    report = common.record("scaling", SCRIPT, arguments, {key: getattr(options, key) for key in names})
    report["results"] = [measure(overrides) for overrides in commands.values()]
    report["training"] = {key: report["results"][0][key] for key in ("env", "policy", "num_threads")}
    common.finish(report, table(report), options.json)
    return common.OK


def overrides_of(agents: int, options: Any) -> list[str]:
    """The configuration with so many agents; the same minibatch for all."""
    return [
        "mode=bench",
        *options.overrides,
        f"vec.num_envs={agents}",
        f"train.horizon={options.horizon}",
        f"train.minibatch_size={options.minibatch}",
        f"num_threads={options.threads}",
        f"bench.repeats={options.repeats}",
        f"bench.duration_s={options.duration_s}",
        f"bench.warmup_s={options.warmup_s}",
    ]


def measure(overrides: Sequence[str]) -> dict[str, Any]:
    """What mode=bench says, in a process of its own: peak memory is that of a process."""
    with tempfile.TemporaryDirectory(prefix="bench_scaling_") as folder:
        command = [sys.executable, "-m", "puffertoolkit", *overrides, f"hydra.run.dir={folder}"]
        with running(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            if process.wait() != 0:
                raise UserError(f"mode=bench ended with status {process.returncode}; what it said is above.")
        bench = json.loads((Path(folder) / "bench.json").read_text())
    agents = bench["num_agents"]
    common.say(f"{agents:,} agents: {bench['sps']['training']:,.0f} steps/s of training")
    return {
        **{key: bench[key] for key in ("env", "policy", "num_threads", "num_agents", "sps", "spread")},
        "ns_per_step": {kind: 1e9 / bench["sps"][kind] for kind in KINDS},
        "needed_memory_mb": bench["needed_memory_mb"],
        "peak_memory_mb": bench["peak_memory_mb"],
    }


def table(report: dict[str, Any]) -> Table:
    """What was measured, a row for each number of agents."""
    facts = report["training"]
    title = f"{facts['env']}, {facts['policy']}, {facts['num_threads']} threads: ns per agent step"
    shown = Table(title=title, title_justify="left", title_style="bold")
    for column in ("agents", *KINDS, "memory foretold, MB", "of the whole process, MB"):
        shown.add_column(column, justify="right")
    for result in report["results"]:
        shown.add_row(
            f"{result['num_agents']:,}",
            *(f"{result['ns_per_step'][kind]:,.0f}" for kind in KINDS),
            f"{result['needed_memory_mb']:,.0f}",
            f"{result['peak_memory_mb']:,.0f}",
        )
    return shown


if __name__ == "__main__":
    common.program(main)
