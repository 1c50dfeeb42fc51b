"""The config of an earlier run, for a mode that evaluates it, goes on with it, or trains it again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config.keys import flatten
from puffertoolkit.errors import UserError

EVALUATED = ("env", "policy")
# Not `trust`: a run directory may be a stranger's, and would choose the code that it runs.
TRAINED = ("env", "policy", "vec", "train", "seed", "device", "num_threads")
RESUMED = (*TRAINED, "logger", "tag")
FIXED = ("env", "policy", "vec", "seed", "train.horizon", "train.optimizer")
"""What must stay as it is where a training goes on: the states in a checkpoint have its shapes."""
FREE = ("env", "policy")
"""Sections whose keys are a class's parameters: here a key that the run did not have has to go."""
HARMLESS = ("train.checkpoint_interval_s", "train.keep_checkpoints")
"""What changes no number."""


@dataclass(frozen=True)
class SavedRun:
    """What a run directory says of the run.

    Attributes:
        path: The run directory.
        choices: Its choices of groups, of those asked for: {"env": "breakout", "policy": "mlp"}.
        sections: Its settings asked for, by their first key; interpolations unresolved.
    """

    path: Path
    choices: dict[str, str]
    sections: dict[str, Any]


def load_run(run: Path, names: Sequence[str] = EVALUATED, folder: Path | None = None) -> SavedRun:
    """Read what a run directory says of the run.

    Args:
        run: The run directory.
        names: First keys of what is asked for.
        folder: Where the config is; by default that of the run's first process.

    Raises:
        UserError: its `.hydra` files cannot be read.
    """
    folder = folder or run / ".hydra"
    try:
        config = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
        hydra = OmegaConf.to_container(OmegaConf.load(folder / "hydra.yaml"))
        assert isinstance(config, dict)
        assert isinstance(hydra, dict)
        choices = hydra["hydra"]["runtime"]["choices"]
        sections = {name: config[name] for name in names}
        groups = [name for name, value in sections.items() if isinstance(value, dict)]
        return SavedRun(run, {group: str(choices[group]) for group in groups}, sections)
    except (OSError, yaml.YAMLError, AssertionError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"the run '{run}' cannot be read, its .hydra files are damaged: {error!r}") from error


def processes(run: Path) -> list[dict[str, Any]]:
    """What `run.json` says of the processes that trained the run, at least one: "config", "num_threads", ...

    Those that were refused are not in it, though Hydra has written their configs. Empty where the file cannot
    be read: whoever needs it will say so.
    """
    try:
        record = json.loads((run / "run.json").read_text())
        return [dict(process) for process in (record, *record.get("resumptions", []))]
    except (OSError, ValueError, TypeError, AttributeError):
        return [{}]


def config_folder(run: Path, process: Mapping[str, Any]) -> Path:
    """The folder of the config that one of those processes was started with."""
    return run / str(process.get("config", ".hydra"))


def store_missing_choices(run: SavedRun, groups: dict[str, list[str]]) -> None:
    """Let Hydra find choices whose files are not on the search path now: the run says what was in them."""
    for section, choice in run.choices.items():
        if choice not in groups.get(section, []):
            group, _, name = f"{section}/{choice}".rpartition("/")
            node = {section: run.sections[section]}
            ConfigStore.instance().store(
                group=group, name=name, node=node, package="_global_", provider="checkpoint"
            )


def restoring_overrides(run: SavedRun, composed: DictConfig) -> list[str]:
    """Return overrides that turn `composed`, made with the run's choices, into its settings."""
    lines: list[str] = []
    for section, wanted in run.sections.items():
        node = composed[section]
        now: Any = OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
        if isinstance(wanted, dict):
            lines += _differences(section, now, wanted, section in FREE)
        elif now != wanted:
            lines.append(f"++{section}={override_value(wanted)}")
    return lines


def resuming_overrides(run: SavedRun) -> list[str]:
    """Return overrides that make a job work in the run's directory, as the run's last process did."""
    directory = override_value(str(run.path.absolute()))
    return [f"hydra.run.dir={directory}", *thread_overrides(processes(run.path)[-1])]


def thread_overrides(process: Mapping[str, Any]) -> list[str]:
    """Return the override for the threads a process used: its config may say 0, which is all there are."""
    num_threads = process.get("num_threads")
    return [f"++num_threads={num_threads}"] if isinstance(num_threads, int) else []


def changed_keys(run: SavedRun, cfg: DictConfig, fixed: Sequence[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys at or below `fixed` whose values are not the run's, with both: (key, here, there)."""
    now: Any = OmegaConf.to_container(cfg, resolve=False)
    here = flatten({name: now[name] for name in run.sections})
    there = flatten(run.sections)
    for key in {**there, **here}:
        missing = object()
        is_fixed = any(key == name or key.startswith(f"{name}.") for name in fixed)
        if is_fixed and here.get(key, missing) != there.get(key, missing):
            yield key, here.get(key), there.get(key)


def _differences(path: str, now: dict[str, Any], wanted: dict[str, Any], free: bool) -> Iterator[str]:
    for key in now:
        if key not in wanted and free:
            yield f"~{path}.{key}"
    for key, value in wanted.items():
        old = now.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            yield from _differences(f"{path}.{key}", old, value, free)
        elif key not in now or old != value or type(old) is not type(value):
            if isinstance(old, dict) or (isinstance(value, dict) and key in now):
                yield f"~{path}.{key}"
            yield f"++{path}.{key}={override_value(value)}"


def override_value(value: Any) -> str:
    """Return a plain value in the syntax of Hydra's overrides."""
    if isinstance(value, str):
        return QuotedString(value, Quote.single).with_quotes()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(override_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{override_value(item)}" for key, item in value.items()) + "}"
    return "null" if value is None else repr(value)
