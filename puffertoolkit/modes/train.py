"""mode=train: learn, show it, and leave a run directory to evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.logger.choice import make_display
from puffertoolkit.logger.display import Display
from puffertoolkit.logger.metrics import MetricsLog
from puffertoolkit.modes.resume import find_checkpoint, go_on
from puffertoolkit.modes.session import Session
from puffertoolkit.run import provenance
from puffertoolkit.run.checkpoint import save_checkpoint
from puffertoolkit.run.directory import RunDirectory
from puffertoolkit.run.interrupt import Interrupt
from puffertoolkit.trainer.memory import needed_memory, require_memory
from puffertoolkit.trainer.trainer import Row, Trainer


def run(cfg: DictConfig, run_dir: Path) -> dict[str, Any]:
    """Train as `cfg` says; returns the last metrics."""
    directory = RunDirectory(run_dir)
    with directory.only_writer():
        return _train(cfg, directory)


def _train(cfg: DictConfig, directory: RunDirectory) -> dict[str, Any]:
    train = cast(TrainConfig, OmegaConf.to_object(cfg.train))
    earlier, notes = find_checkpoint(cfg.resume, train) if cfg.resume else (None, [])
    session = Session.build(cfg, cfg.vec.num_envs)
    memory = needed_memory(train, session.vector, session.policy)
    require_memory(memory, session.device)
    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    if earlier is None:
        directory.write_provenance(cfg, provenance.arguments, session.num_threads, session.device_name)
    else:
        notes += go_on(cfg, directory, trainer, session, earlier)
    info = session.run_info(directory.path, train.total_timesteps)
    last: Row = {}
    with (
        Interrupt() as interrupt,
        MetricsLog(directory.path, cfg.logger.tensorboard, trainer.step if earlier else None) as metrics,
        make_display(cfg.logger, info, note=interrupt.note) as display,
    ):
        for row in metrics.kept:
            last.update(row)

        def report(row: Row) -> None:
            last.update(row)
            metrics.write(row)
            display.update(row)

        def save() -> None:
            metrics.sync()
            save_checkpoint(
                directory.checkpoints,
                step=trainer.step,
                weights=session.policy.state_dict(),
                trainer_state=trainer.state_dict(),
                manifest=session.manifest(),
                keep=train.keep_checkpoints,
                score=last.get("env/score"),
            )

        for note in (*notes, f"memory: {memory}"):
            display.message(note)
        _compile(session, trainer, display)
        trainer.train(report, save, lambda: interrupt.requested)
        if interrupt.requested:
            display.message(f"stopped by {interrupt.signal_name}; the checkpoint is saved")
    display.closing()
    session.vector.close()
    names = ("env/score", "env/perf", "env/episode_return", "step")
    return {name: last[name] for name in names if name in last}


def _compile(session: Session, trainer: Trainer, display: Display) -> None:
    """Compile what is to be compiled, and say so: it takes its time."""
    if not session.vector.kernels_are_cached:
        display.message(f"compiling the kernels of {session.env_name} (once per machine, about 10 s) ...")
    if trainer.cfg.compile:
        display.message("compiling the network (train.compile=true) ...")
        seconds = trainer.learner.warm_up(trainer.collector.experience)
        display.message(f"compiled in {seconds:.1f} s")
