"""resume=: bring a training to where an earlier process left it, and say what is not as it was."""

from __future__ import annotations

from collections.abc import Iterator

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from puffertoolkit.config import saved
from puffertoolkit.config.schema import TrainConfig
from puffertoolkit.errors import UserError
from puffertoolkit.modes.session import Session, load_weights
from puffertoolkit.run import provenance
from puffertoolkit.run.checkpoint import Checkpoint, load_checkpoint
from puffertoolkit.run.directory import RunDirectory, resume_point, set_aside
from puffertoolkit.trainer.trainer import Trainer


def find_checkpoint(path: str, train: TrainConfig) -> tuple[Checkpoint, list[str]]:
    """The checkpoint to go on from, and what to tell of newer ones that are damaged.

    Raises:
        UserError: there is none that is whole, or the training is complete.
    """
    folder, notes = resume_point(path)
    earlier = load_checkpoint(folder)
    step = earlier.manifest["step"]
    if step >= train.total_timesteps:
        raise UserError(
            f"The run {path} is complete: it trained {step:,} of {train.total_timesteps:,} steps. To train "
            f"further, add train.total_timesteps=<more>; to see how good it is, mode=eval checkpoint={path}."
        )
    return earlier, notes


def go_on(
    cfg: DictConfig, directory: RunDirectory, trainer: Trainer, session: Session, earlier: Checkpoint
) -> list[str]:
    """Bring trainer, policy and run directory to where a checkpoint is; returns what to tell of it.

    Raises:
        UserError: the checkpoint does not fit; the directory is then as it was.
    """
    before = saved.processes(directory.path)[-1]
    changed = list(_changed_settings(cfg, directory, before))
    exact = _take_up(trainer, session, earlier)
    now = directory.record_resumption(
        cfg,
        provenance.arguments,
        session.num_threads,
        session.device_name,
        step=trainer.step,
        config=str(HydraConfig.get().output_subdir),
        exact=exact,
    )
    notes = [f"going on from step {trainer.step:,} ({earlier.path.name})"]
    if newer := set_aside(directory, earlier.path):
        notes.append(f"newer checkpoints were set aside: {', '.join(path.name for path in newer)}")
    if not exact:
        notes.append(
            f"{session.env_name} cannot save its environments' state: new episodes begin in all of them, so "
            "the numbers will not be those of an uninterrupted run. All else goes on exactly."
        )
    if changed:
        notes.append(f"from here on with other settings: {', '.join(changed)}")
    if unlike := [
        f"{name} was {there} and is {here}" for name, there, here in provenance.differences(before, now)
    ]:
        notes.append(f"the numbers may not be those of an uninterrupted run: {', '.join(unlike)}")
    return notes


def _take_up(trainer: Trainer, session: Session, earlier: Checkpoint) -> bool:
    """Load weights and state; tells whether the environments, too, are where they were."""
    load_weights(session, earlier)
    if not {"random", "collector", "vector"} <= earlier.trainer_state.keys():
        raise UserError(
            f"The checkpoint {earlier.path} was written by a version of puffertoolkit whose runs cannot go "
            "on. It can be evaluated: mode=eval checkpoint=..."
        )
    return trainer.load_state_dict(earlier.trainer_state)


def _changed_settings(cfg: DictConfig, directory: RunDirectory, before: dict[str, object]) -> Iterator[str]:
    run = saved.load_run(directory.path, saved.TRAINED, saved.config_folder(directory.path, before))
    for key, here, there in saved.changed_keys(run, cfg, saved.TRAINED):
        # The threads in use stand in run.json, and are compared there.
        if key not in (*saved.HARMLESS, "num_threads"):
            yield f"{key}={here} (was {there})"
