"""mode=train: learn, show it, and leave a run directory to evaluate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.logger.choice import make_display
from puffertoolkit.logger.metrics import MetricsLog
from puffertoolkit.logger.progress import RunInfo
from puffertoolkit.modes.session import Session, policy_summary
from puffertoolkit.run.checkpoint import save_checkpoint
from puffertoolkit.run.directory import RunDirectory
from puffertoolkit.run.interrupt import Interrupt
from puffertoolkit.trainer.trainer import Row, Trainer


def run(cfg: DictConfig, run_dir: Path) -> dict[str, Any]:
    """Train as `cfg` says; returns the last metrics."""
    directory = RunDirectory(run_dir)
    train = cast(TrainConfig, OmegaConf.to_object(cfg.train))
    session = Session.build(cfg, cfg.vec.num_envs)
    directory.write_provenance(cfg, sys.argv[1:], session.num_threads)
    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    info = RunInfo(
        env=session.env_name,
        policy=policy_summary(session),
        device=str(session.device),
        run_dir=run_dir,
        total_steps=train.total_timesteps,
    )
    last: Row = {}
    with (
        Interrupt() as interrupt,
        MetricsLog(run_dir, cfg.logger.tensorboard) as metrics,
        make_display(cfg.logger, info, note=interrupt.note) as display,
    ):

        def report(row: Row) -> None:
            last.update(row)
            metrics.write(row)
            display.update(row)

        def save() -> None:
            save_checkpoint(
                directory.checkpoints,
                step=trainer.step,
                weights=session.policy.state_dict(),
                trainer_state=trainer.state_dict(),
                manifest=session.manifest(),
                keep=train.keep_checkpoints,
                score=last.get("env/score"),
            )

        if not session.vector.kernels_are_cached:
            display.message(f"compiling the kernels of {session.env_name} (once per machine, about 10 s) ...")
        trainer.train(report, save, lambda: interrupt.requested)
        if interrupt.requested:
            display.message(f"stopped by {interrupt.signal_name}; the checkpoint is saved")
    display.closing()
    session.vector.close()
    names = ("env/score", "env/perf", "env/episode_return", "step")
    return {name: last[name] for name in names if name in last}
