"""mode=bench: how fast the configured environments, rollouts and updates are on this machine."""

from __future__ import annotations

import datetime
import json
import platform
import shlex
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.logger.paths import shown_path
from puffertoolkit.modes.measure import Plan, measure
from puffertoolkit.modes.session import Session, policy_summary
from puffertoolkit.run import provenance
from puffertoolkit.trainer.memory import needed_memory, require_memory
from puffertoolkit.trainer.trainer import peak_memory_mb

MEANING = {
    "simulation": "environments alone, random actions",
    "rollout": "policy acts, environments step, buffer fills",
    "training": "rollout and update",
}


def run(cfg: DictConfig, run_dir: Path) -> dict[str, Any]:
    """Measure what `cfg` describes; returns agent steps per second by name, and writes bench.json."""
    train = cast(TrainConfig, OmegaConf.to_object(cfg.train))
    session = Session.build(cfg, cfg.vec.num_envs)
    needed = needed_memory(train, session.vector, session.policy)
    require_memory(needed, session.device)
    plan = Plan(cfg.bench.repeats, cfg.bench.duration_s, cfg.bench.warmup_s)
    result = measure(session, train, plan)
    session.vector.close()
    report = {
        "kind": "speed",
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "puffertoolkit", *provenance.arguments]),
        "env": session.env_name,
        "policy": policy_summary(session),
        "parameters": session.num_parameters,
        "device": session.device_name,
        "backend": cfg.vec.backend,
        "num_agents": session.vector.num_agents,
        "num_threads": session.num_threads,
        "horizon": train.horizon,
        "minibatch_size": train.minibatch_size,
        "update_epochs": train.update_epochs,
        "precision": train.precision,
        "compile": train.compile,
        **result,
        "needed_memory_mb": needed.total / 1e6,
        "peak_memory_mb": peak_memory_mb(),
        "machine": machine_of_benchmark(),
        "versions": provenance.versions(),
    }
    path = run_dir / "bench.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    _print(report)
    Console(highlight=False, soft_wrap=True).print(f"json  {shown_path(path)}")
    return {f"{name} SPS": value for name, value in report["sps"].items()}


def machine_of_benchmark() -> dict[str, str | int]:
    """What of the machine decides on speed, and may be published: not its name, nor its exact system."""
    here = provenance.machine()
    return {
        "system": platform.system(),
        **{name: here[name] for name in ("architecture", "processor", "cpu_count")},
    }


def _print(report: dict[str, Any]) -> None:
    title = (
        f"{report['env']}, {report['num_agents']:,} agents, {report['policy']}, {report['device']}, "
        f"{report['num_threads']} threads"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("agent steps per second", justify="right")
    table.add_column("spread", justify="right")
    table.add_column("measured")
    for name, meaning in MEANING.items():
        table.add_row(name, f"{report['sps'][name]:,.0f}", f"± {report['spread'][name] / 2:.1%}", meaning)
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    shares = ", ".join(f"{name} {share:.1%}" for name, share in report["shares"].items())
    console.print(f"of an iteration: {shares}")
    console.print(f"peak memory {report['peak_memory_mb']:,.0f} MB")
