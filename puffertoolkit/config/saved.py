"""The config of an earlier run, for a mode that works on its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, OmegaConf

from puffertoolkit.errors import UserError

SECTIONS = ("env", "policy")


@dataclass(frozen=True)
class SavedRun:
    """What a run directory says of the run.

    Attributes:
        path: The run directory.
        choices: Its choice of env and policy: {"env": "breakout", "policy": "mlp"}.
        sections: Its `env` and `policy` settings, interpolations unresolved.
    """

    path: Path
    choices: dict[str, str]
    sections: dict[str, dict[str, Any]]


def load_run(run: Path) -> SavedRun:
    """Read what a run directory says of the run.

    Raises:
        UserError: its `.hydra` files cannot be read.
    """
    try:
        config = OmegaConf.to_container(OmegaConf.load(run / ".hydra" / "config.yaml"))
        hydra = OmegaConf.to_container(OmegaConf.load(run / ".hydra" / "hydra.yaml"))
        assert isinstance(config, dict)
        assert isinstance(hydra, dict)
        choices = hydra["hydra"]["runtime"]["choices"]
        return SavedRun(
            run,
            {section: str(choices[section]) for section in SECTIONS},
            {section: dict(config[section]) for section in SECTIONS},
        )
    except (OSError, yaml.YAMLError, AssertionError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"the run '{run}' cannot be read, its .hydra files are damaged: {error!r}") from error


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
    """Return overrides that turn `composed`, made with the run's choices, into its env and policy."""
    lines: list[str] = []
    for section in SECTIONS:
        now: Any = OmegaConf.to_container(composed[section])
        lines += _differences(section, now, run.sections[section])
    return lines


def _differences(path: str, now: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    for key in now:
        if key not in wanted:
            yield f"~{path}.{key}"
    for key, value in wanted.items():
        old = now.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            yield from _differences(f"{path}.{key}", old, value)
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
