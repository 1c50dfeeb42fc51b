"""mode=train: learn, show it, and leave a run directory to evaluate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.errors import UserError
from puffertoolkit.logger.choice import make_display
from puffertoolkit.logger.metrics import MetricsLog
from puffertoolkit.logger.progress import RunInfo
from puffertoolkit.modes.session import Session, load_weights, policy_summary
from puffertoolkit.run.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from puffertoolkit.run.directory import RunDirectory, resume_point
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
    earlier, notes = _resume_point(cfg.resume, train) if cfg.resume else (None, [])
    session = Session.build(cfg, cfg.vec.num_envs)
    memory = needed_memory(train, session.vector, session.policy)
    require_memory(memory, session.device)
    trainer = Trainer(train, session.vector, session.policy, session.seeds, session.device)
    if earlier is None:
        directory.write_provenance(cfg, sys.argv[1:], session.num_threads)
    else:
        notes += take_up(trainer, session, earlier)
        config = str(HydraConfig.get().output_subdir)
        directory.record_resumption(cfg, sys.argv[1:], session.num_threads, trainer.step, config)
    info = RunInfo(
        env=session.env_name,
        policy=policy_summary(session),
        device=str(session.device),
        run_dir=directory.path,
        total_steps=train.total_timesteps,
    )
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
        if not session.vector.kernels_are_cached:
            display.message(f"compiling the kernels of {session.env_name} (once per machine, about 10 s) ...")
        if train.compile:
            display.message("compiling the network (train.compile=true) ...")
            seconds = trainer.learner.warm_up(trainer.collector.experience)
            display.message(f"compiled in {seconds:.1f} s")
        trainer.train(report, save, lambda: interrupt.requested)
        if interrupt.requested:
            display.message(f"stopped by {interrupt.signal_name}; the checkpoint is saved")
    display.closing()
    session.vector.close()
    names = ("env/score", "env/perf", "env/episode_return", "step")
    return {name: last[name] for name in names if name in last}


def _resume_point(path: str, train: TrainConfig) -> tuple[Checkpoint, list[str]]:
    """The checkpoint to go on from, and what to tell of newer ones that are damaged."""
    folder, notes = resume_point(path)
    earlier = load_checkpoint(folder)
    step = earlier.manifest["step"]
    if step >= train.total_timesteps:
        raise UserError(
            f"The run {path} is complete: it trained {step:,} of {train.total_timesteps:,} steps. To train "
            f"further, add train.total_timesteps=<more>; to see how good it is, mode=eval checkpoint={path}."
        )
    return earlier, notes


def take_up(trainer: Trainer, session: Session, earlier: Checkpoint) -> list[str]:
    """Bring trainer and policy to where a checkpoint is; returns what to tell of it."""
    load_weights(session, earlier)
    if not {"random", "collector", "vector"} <= earlier.trainer_state.keys():
        raise UserError(
            f"The checkpoint {earlier.path} was written by a version of puffertoolkit whose runs cannot go "
            "on. It can be evaluated: mode=eval checkpoint=..."
        )
    notes = [f"going on from step {earlier.manifest['step']:,} ({earlier.path.name})"]
    if not trainer.load_state_dict(earlier.trainer_state):
        notes.append(
            f"{session.env_name} cannot save its environments' state: new episodes begin in all of them, so "
            "the numbers will not be those of an uninterrupted run. All else goes on exactly."
        )
    return notes
