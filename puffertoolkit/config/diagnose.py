"""Why a set of config files does not compose: each of their mistakes, with file and line.

Hydra stops at the first mistake. Here the same files are merged in the same order, key by key, and what does
not fit is left out and reported.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.defaults_list import DefaultsList, create_defaults_list
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from puffertoolkit.config.faults import Fault
from puffertoolkit.config.keys import Key, flatten, keys_of
from puffertoolkit.config.suggest import did_you_mean, nearest, nearest_key
from puffertoolkit.config.values import expectation, schema_fields

# What Hydra, OmegaConf and PyYAML raise for a file or an override that is wrong.
COMPOSITION_ERRORS = (
    HydraException,
    OmegaConfBaseException,
    yaml.YAMLError,
    ValueError,
    OSError,
    AssertionError,
)
UNKNOWN_KEY_ERRORS = (ConfigAttributeError, ConfigKeyError)
SECTIONS = frozenset({key.partition(".")[0] for key, _ in schema_fields()} | {"hydra"})


class NothingComposedError(Exception):
    """Not even the primary config, without any choice, composes; the argument is the fault."""


class Diagnosis:
    """Merges files leniently and keeps the faults that it meets.

    Args:
        loader: Hydra's loader.
        repository: The files and schemas on the search path.
        config_name: The primary config.
        groups: Names of the groups, which a misspelt key may have meant.
    """

    def __init__(
        self,
        loader: ConfigLoaderImpl,
        repository: IConfigRepository,
        config_name: str,
        groups: Collection[str],
    ) -> None:
        self.loader = loader
        self.repository = repository
        self.config_name = config_name
        self.groups = groups
        self.faults: list[Fault] = []

    def compose(self, choices: Sequence[str]) -> DictConfig:
        """Return the config of the given group choices, as far as it can be composed.

        Raises:
            NothingComposedError: a file that is always there cannot be read.
        """
        try:
            found = defaults_list(self.repository, self.config_name, choices)
        except COMPOSITION_ERRORS as error:
            fault = self._file_fault(error, choices)
            if not choices:
                raise NothingComposedError(fault) from error
            self.faults.append(fault)
            # Without the choice that leads to the broken file, the rest can still be checked.
            return self.compose(choices[:-1])
        cfg = OmegaConf.create()
        for default in found.defaults:
            loaded = self.loader._load_single_config(default, self.repository).config
            try:
                cfg.merge_with(copy.deepcopy(loaded))
            except OmegaConfBaseException:
                self.faults += self._merge_leaves(cfg, loaded, default)
        with open_dict(cfg):
            cfg.hydra.runtime.choices = dict(found.overrides.known_choices)
        OmegaConf.set_struct(cfg, True)
        return cfg

    def _merge_leaves(self, cfg: DictConfig, loaded: Any, default: ResultDefault) -> Iterator[Fault]:
        path = config_file(self.repository, str(default.config_path))
        lines = {absolute_key(default, key): key.line for key in keys_of(path)} if path else {}
        for key, value in flatten(OmegaConf.to_container(loaded, resolve=False)).items():
            place = f"{path}, line {lines[key]}" if key in lines else str(path or default.config_path)
            try:
                OmegaConf.update(cfg, key, value)
            except UNKNOWN_KEY_ERRORS:
                if default.package and default.package.partition(".")[0] not in SECTIONS:
                    text = f"no key '{key}'; the file should begin with '# @package _global_'"
                    yield Fault(text, place=place)
                else:
                    yield unknown_key(cfg, key, self.groups).at(place)
            except OmegaConfBaseException:
                yield wrong_type(key, value).at(place)

    def _file_fault(self, error: Exception, choices: Sequence[str]) -> Fault:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            mark = error.problem_mark
            return Fault(f"not valid YAML: {error.problem}", place=f"{mark.name}, line {mark.line + 1}")
        if isinstance(error, MissingConfigException) and error.missing_cfg_file:
            group, _, choice = error.missing_cfg_file.rpartition("/")
            if not group:
                return Fault(f"no config '{choice}.yaml' in the config folders")
            hint = did_you_mean(nearest(choice, error.options or ()))
            return Fault(f"no {group} '{choice}'{hint}", place=self._place_of_choice(group, choice, choices))
        return Fault(first_line(error))

    def _place_of_choice(self, group: str, choice: str, choices: Sequence[str]) -> str | None:
        """Find the line that chooses something absent, in the files which the command line chose."""
        pattern = re.compile(rf"\b{re.escape(group)}(@[\w.]+)?\s*:.*\b{re.escape(choice)}\b")
        for line in choices:
            path = config_file(self.repository, line.lstrip("+").replace("=", "/"))
            for number, text in enumerate(path.read_text(encoding="utf-8").splitlines() if path else (), 1):
                if pattern.search(text):
                    return f"{path}, line {number}"
        return None


def defaults_list(repository: IConfigRepository, config_name: str, choices: Sequence[str]) -> DefaultsList:
    """Return Hydra's list of the files that make up a config, in the order in which they are merged."""
    overrides = OverridesParser.create().parse_overrides(list(choices))
    return create_defaults_list(repository, config_name, overrides, prepend_hydra=True, skip_missing=False)


def config_file(repository: IConfigRepository, config_path: str) -> Path | None:
    """Return the file of a config like "train/ppo"; None for a schema, or where there is no such file."""
    try:
        result = repository.load_config(config_path)
    except yaml.YAMLError:
        return None
    scheme, _, folder = (result.path if result else "").partition("://")
    if scheme == "pkg":
        folder = str(Path(import_module(folder.replace("/", ".")).__file__ or "").parent)
    path = Path(folder, f"{config_path}.yaml")
    return path if scheme in ("file", "pkg") and path.is_file() else None


def absolute_key(default: ResultDefault, key: Key) -> str:
    """Return the place of a file's key in the whole config."""
    return f"{default.package}.{key.name}" if default.package else key.name


def unknown_key(cfg: DictConfig, key: str, groups: Collection[str]) -> Fault:
    """The fault of a key that the config does not have."""
    known = list(flatten(OmegaConf.to_container(cfg, resolve=False)))
    if not key.startswith("hydra"):
        known = [name for name in known if not name.startswith("hydra.")]
    if "." not in key:
        known += {name.partition(".")[0] for name in known} | set(groups)
    return Fault(f"no key '{key}'{did_you_mean(nearest_key(key, known))}", key)


def wrong_type(key: str, value: Any) -> Fault:
    """The fault of a value that its setting's type cannot hold."""
    field = dict(schema_fields()).get(key)
    expected = expectation(field) if field is not None else "of another type"
    shown = "null" if value is None else repr(value)
    whole = isinstance(value, float) and value.is_integer() and field is not None and field.type == "int"
    hint = f"; write {int(value)}" if whole else ""
    return Fault(f"{key} is {shown}; it must be {expected}{hint}", key)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without its full stop."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
