"""mode=eval: how good a checkpoint is, over episodes it has never seen, with a confidence interval."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from puffertoolkit.logger.metrics import MetricsLog
from puffertoolkit.logger.paths import shown_path
from puffertoolkit.modes.interval import mean_interval
from puffertoolkit.modes.session import Session, load_weights
from puffertoolkit.modes.video import write_video
from puffertoolkit.run import provenance
from puffertoolkit.run.checkpoint import load_checkpoint
from puffertoolkit.run.directory import RunDirectory, find_run
from puffertoolkit.trainer.rollout import to_environment
from puffertoolkit.vector import Vector

FIRST_NAMES = ("score", "perf", "episode_return", "episode_length")


def run(cfg: DictConfig, run_dir: Path) -> dict[str, Any]:
    """Evaluate `cfg.checkpoint`; returns means by name, and writes eval.json beside them."""
    _, path = find_run(cfg.checkpoint)
    checkpoint = load_checkpoint(path)
    session = Session.build(cfg, min(cfg.eval.num_envs, cfg.eval.episodes))
    load_weights(session, checkpoint)
    directory = RunDirectory(run_dir)
    directory.write_provenance(cfg, provenance.arguments, session.num_threads, session.device_name)
    if not session.vector.kernels_are_cached:
        print(f"compiling the kernels of {session.env_name} (once per machine, about 10 s) ...", flush=True)

    evaluation = evaluate(session, cfg.eval)
    session.vector.close()
    report = {
        "checkpoint": str(path),
        "env": session.env_name,
        "seed": cfg.seed,
        "trained_steps": checkpoint.manifest["step"],
        **summarise(evaluation, cfg.eval.confidence),
    }
    (run_dir / "eval.json").write_text(json.dumps(report, indent=2) + "\n")
    means = {f"eval/{name}": entry["mean"] for name, entry in report["statistics"].items()}
    with MetricsLog(run_dir, cfg.logger.tensorboard) as metrics:
        metrics.write({"step": checkpoint.manifest["step"], **means})
    print_report(report)
    if evaluation.frames:
        video = (
            directory.videos
            / f"{session.env_name}_step_{checkpoint.manifest['step']}.{cfg.eval.video_format}"
        )
        write_video(video, evaluation.frames, session.vector.frames_per_second)
        print(f"video     {shown_path(video)}")
    print(f"json      {shown_path(run_dir / 'eval.json')}")
    return means


@dataclass
class Evaluation:
    """Every finished episode's statistics by name, (episodes,) each, and frames of the first environment."""

    statistics: dict[str, npt.NDArray[np.float64]]
    unfinished: int
    frames: list[npt.NDArray[np.uint8]]


@torch.inference_mode()
def evaluate(session: Session, cfg: Any) -> Evaluation:
    """Play `cfg.episodes` episodes, equally many in each environment.

    Taking whichever episodes end first would favour short ones; so each environment plays its share to the
    end, and what it plays beyond that does not count.
    """
    vector, policy, device = session.vector, session.policy, session.device
    torch.manual_seed(session.seeds.evaluation_sampling)
    vector.reset(session.seeds.evaluation)
    share, more = divmod(cfg.episodes, vector.num_agents)
    quota = np.full(vector.num_agents, share) + (np.arange(vector.num_agents) < more)
    policy.eval()
    state = tuple(part.to(device) for part in policy.initial_state(vector.num_agents))  # type: ignore[operator]
    starts = torch.ones(vector.num_agents, dtype=torch.bool, device=device)
    collected: dict[str, list[npt.NDArray[np.float64]]] = {}
    bounds = getattr(policy, "action_bounds", "clip")
    film = Film(vector, cfg.video_max_steps if cfg.video else 0)
    for _ in range(cfg.max_steps):
        film.shoot()
        observations = torch.from_numpy(vector.observations).to(device)
        dist, _, state = policy.step(observations, state, starts)  # type: ignore[operator]
        action = dist.mode if cfg.deterministic else dist.sample()
        vector.step(to_environment(action, vector.single_action_space, bounds))
        counts, sums = vector.drain_rows()
        counted = np.flatnonzero((counts > 0) & (quota > 0))
        quota[counted] -= 1
        for name, values in sums.items():
            collected.setdefault(name, []).append(values[counted] / counts[counted])
        if not quota.any():
            break
        ends = vector.terminations | vector.truncations
        film.rolling &= not ends[0]
        starts = torch.from_numpy(ends).to(device)
    statistics = {name: np.concatenate(parts) for name, parts in collected.items()}
    return Evaluation(statistics, int(quota.sum()), film.frames)


class Film:
    """Pictures of environment 0, from the start of its first episode to the end, or to `max_frames`."""

    def __init__(self, vector: Vector, max_frames: int) -> None:
        self.vector, self.max_frames = vector, max_frames
        self.rolling = True
        self.frames: list[npt.NDArray[np.uint8]] = []

    def shoot(self) -> None:
        """Take a picture, if still rolling."""
        if self.rolling and len(self.frames) < self.max_frames:
            self.frames.append(self.vector.render(0))


def summarise(evaluation: Evaluation, confidence: float) -> dict[str, Any]:
    """Mean and confidence interval of every statistic, as JSON holds them."""
    statistics = {}
    names = [*FIRST_NAMES, *(name for name in evaluation.statistics if name not in FIRST_NAMES)]
    for name in names:
        values = evaluation.statistics.get(name, np.zeros(0))
        if len(values):
            mean, half = mean_interval(values, confidence)
            statistics[name] = {"mean": mean, "plus_minus": half, "min": values.min(), "max": values.max()}
    episodes = len(evaluation.statistics.get("score", ()))
    return {
        "episodes": episodes,
        "unfinished": evaluation.unfinished,
        "confidence": confidence,
        "statistics": statistics,
    }


def print_report(report: dict[str, Any]) -> None:
    """Show the report as a table."""
    title = f"{report['env']} after {report['trained_steps']:,} steps, {report['episodes']} episodes"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for column in ("mean", f"± {report['confidence']:.0%}", "min", "max"):
        table.add_column(column, justify="right")
    for name, entry in report["statistics"].items():
        cells = (entry["mean"], entry["plus_minus"], entry["min"], entry["max"])
        table.add_row(name, *("-" if cell is None else f"{cell:,.4g}" for cell in cells))
    console = Console(highlight=False)
    console.print(table)
    if report["unfinished"]:
        console.print(
            f"{report['unfinished']} episodes did not end within eval.max_steps and are not in the table.",
            style="yellow",
        )
