"""What a mode takes from an earlier run, and what the user may then not set otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config import saved
from puffertoolkit.config.compose import Composer
from puffertoolkit.config.faults import Fault
from puffertoolkit.errors import UserError

FindRun = Callable[[str, str], Path]
"""Given a path and a mode, returns the run directory that the path means to it; raises UserError if none."""


@dataclass(frozen=True)
class Source:
    """How a mode uses an earlier run.

    Attributes:
        key: The setting that names the run.
        sections: What is taken from the run's config.
        last: Of a run that was taken up again, from its last process rather than its first.
        fixed: Keys that the user may not set otherwise.
        why: The reason, for the message.
    """

    key: str
    sections: tuple[str, ...]
    last: bool
    fixed: tuple[str, ...] = ()
    why: str = ""

    def more_overrides(self, run: saved.SavedRun) -> list[str]:
        """Overrides beside those that restore the run's settings."""
        if self.key == "resume":
            return saved.resuming_overrides(run)
        return saved.thread_overrides(saved.processes(run.path)[0]) if self.key == "run" else []

    def changed_faults(self, run: saved.SavedRun, cfg: DictConfig) -> Iterator[Fault]:
        """Yield the settings that may not differ from the run's."""
        for key, here, there in saved.changed_keys(run, cfg, self.fixed):
            yield Fault(f"{key} is {here} here and {there} in the run; leave it out: {self.why}", key)


NO_SOURCE = Source("", (), True)
SOURCES = {
    "eval": Source("checkpoint", saved.EVALUATED, True),
    "train": Source("resume", saved.RESUMED, True, saved.FIXED, "a training goes on as it began"),
    "reproduce": Source(
        "run",
        saved.TRAINED,
        False,
        tuple(key for key in saved.TRAINED if key not in ("device", "num_threads")),
        "mode=reproduce trains with the run's own settings",
    ),
}


def earlier_run(
    composer: Composer, choices: Sequence[Override], values: Sequence[Override], find_run: FindRun
) -> tuple[Source, saved.SavedRun | None, list[Fault]]:
    """Find the run that a job evaluates, goes on with or repeats, if it does."""
    cfg, _ = composer.base(choices)
    keys = {source.key: mode for mode, source in SOURCES.items()}
    for override in values:
        if override.key_or_group in ("mode", "output_dir", *keys):
            list(composer.apply(cfg, override))
    mode = str(OmegaConf.select(cfg, "mode"))
    source = SOURCES.get(mode, NO_SOURCE)
    faults = [
        Fault(f"'{key}' belongs to mode={other}, and this is mode={mode}; leave it out", key)
        for key, other in keys.items()
        if key != source.key and OmegaConf.select(cfg, key)
    ]
    named = OmegaConf.select(cfg, source.key) if source.key else None
    if not named:
        if source.key and mode != "train":
            faults.append(
                Fault(f"mode={mode} needs a {source.key}: add {source.key}=<run directory>", source.key)
            )
        return source, None, faults
    try:
        path = find_run(named, mode)
        process = saved.processes(path)[-1 if source.last else 0]
        run = saved.load_run(path, source.sections, saved.config_folder(path, process))
    except UserError as error:
        return source, None, [*faults, Fault(str(error), source.key)]
    return source, run, [*faults, *_choice_faults(source, run, choices)]


def _choice_faults(source: Source, run: saved.SavedRun, choices: Sequence[Override]) -> Iterator[Fault]:
    what = "checkpoint" if source.key == "checkpoint" else "run"
    for override in choices:
        group, choice = override.key_or_group, override.value()
        wanted = run.choices.get(group, choice)
        if wanted != choice:
            yield Fault(f"the {what} is of {group}={wanted}, not {group}={choice}; leave {group}= out")
        elif group == "experiment" and source.fixed:
            yield Fault(f"leave experiment={choice} out: {source.why}")
