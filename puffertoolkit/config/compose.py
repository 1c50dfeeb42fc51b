"""Composition by Hydra's own loader, one override at a time, so that one mistake does not hide the next."""

from __future__ import annotations

import copy
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobRuntime, setup_globals
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from puffertoolkit.config import schema
from puffertoolkit.config.faults import Fault
from puffertoolkit.config.keys import Key, flatten, keys_of
from puffertoolkit.config.paths import conf_dir
from puffertoolkit.config.suggest import did_you_mean, nearest, nearest_key
from puffertoolkit.config.values import expectation, schema_fields

# What Hydra, OmegaConf and PyYAML raise for a file or an override that is wrong.
COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError, AssertionError)


class Composer:
    """Composes configs as Hydra would for a command line, and says everything that is wrong.

    Args:
        options: Hydra's options as parsed: `config_dir`, `config_path`, `config_name`.
        overrides: Those that name the search path, which decides on the files there are.
    """

    def __init__(self, options: Namespace, overrides: Sequence[Override] = ()) -> None:
        version.setbase("1.3")
        schema.register()
        setup_globals()
        JobRuntime.instance().set("name", "puffertoolkit")
        self.config_name = options.config_name or "config"
        search_path = create_config_search_path(options.config_path or str(conf_dir()))
        if options.config_dir is not None:
            folder = f"file://{Path(options.config_dir).absolute()}"
            search_path.prepend("command-line", folder, anchor=SearchPathQuery(provider="schema"))
        self.loader = ConfigLoaderImpl(search_path)
        self.search_path = [o for o in overrides if o.key_or_group == "hydra.searchpath"]
        self._bases: dict[tuple[str, ...], tuple[DictConfig, list[Fault]]] = {}

    @cached_property
    def repository(self) -> IConfigRepository:
        """Every file and schema on the search path."""
        lines = [str(override.input_line) for override in self.search_path]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that are not there: see `search_path_faults`
            _, repository = self.loader._parse_overrides_and_create_caching_repo(self.config_name, lines)
        return repository

    def search_path_faults(self) -> list[Fault]:
        """Folders on the search path that do not exist."""
        absent = [source for source in self.repository.get_sources() if not source.available()]
        return [Fault(f"the config folder '{source.path}' ({source.provider}) does not exist") for source in absent]

    def is_group(self, override: Override) -> bool:
        """Tell whether an override chooses a file of a group rather than setting a value."""
        return self.repository.group_exists(override.key_or_group) and not isinstance(override.value(), dict)

    def groups(self) -> dict[str, list[str]]:
        """Return the choices of each group, `hydra/...` left out."""
        names = self.repository.get_group_options("", ObjectType.GROUP)
        options = {name: self.repository.get_group_options(name) for name in names if name != "hydra"}
        return {name: choices for name, choices in options.items() if choices}

    def choice_faults(self, override: Override) -> Iterator[Fault]:
        """Yield choices that do not exist in the override's group."""
        group, value = override.key_or_group, override.value()
        options = self.repository.get_group_options(group)
        for choice in value if isinstance(value, list) else [value]:
            if choice is not None and choice not in options and not override.is_delete():
                hint = did_you_mean(nearest(str(choice), options))
                there = ", ".join(options)
                yield Fault(f"no {group} '{choice}'{hint} (there is: {there})".replace("? (", "? ("))

    def base(self, choices: Sequence[Override]) -> tuple[DictConfig, list[Fault]]:
        """Compose the files that the given group overrides choose, and return them with their faults."""
        lines = tuple(str(override.input_line) for override in [*self.search_path, *choices])
        if lines not in self._bases:
            self._bases[lines] = self._compose(lines)
        cfg, faults = self._bases[lines]
        return copy.deepcopy(cfg), faults

    def apply(self, cfg: DictConfig, override: Override) -> Iterator[Fault]:
        """Set one value in `cfg`, or yield what is wrong with the override."""
        key, line = override.key_or_group, str(override.input_line)
        try:
            ConfigLoaderImpl._apply_overrides_to_config([override], cfg)
        except COMPOSITION_ERRORS as error:
            if override.package is not None or isinstance(error.__cause__, (ConfigAttributeError, ConfigKeyError)):
                yield self._unknown_key(cfg, key)
            elif isinstance(error.__cause__ or error, OmegaConfBaseException):
                yield wrong_type(key, override.value())
            else:
                yield Fault(f"{line}: {_first_line(error)}")

    def places(self, choices: Sequence[Override]) -> dict[str, str]:
        """Return for each key the file and line that set it last, for files that are not the toolkit's own."""
        places: dict[str, str] = {}
        for default in self._defaults([str(o.input_line) for o in [*self.search_path, *choices]]):
            path = self._path(default)
            if path is not None and not path.is_relative_to(conf_dir()):
                places |= {_absolute(default, key): f"{path}, line {key.line}" for key in keys_of(path)}
        return places

    def comments(self, choices: Sequence[Override]) -> dict[str, str]:
        """Return for each key the comment of the file that sets it first."""
        comments: dict[str, str] = {}
        for default in self._defaults([str(o.input_line) for o in [*self.search_path, *choices]]):
            path = self._path(default)
            if path is not None:
                comments = {_absolute(default, key): key.comment for key in keys_of(path) if key.comment} | comments
        return comments

    def _compose(self, lines: tuple[str, ...]) -> tuple[DictConfig, list[Fault]]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.loader.load_configuration(self.config_name, list(lines), RunMode.RUN), []
        except COMPOSITION_ERRORS as error:
            cfg, faults = self._compose_leniently(list(lines))
            return cfg, faults or [Fault(_first_line(error))]

    def _compose_leniently(self, lines: list[str]) -> tuple[DictConfig, list[Fault]]:
        """Merge the files key by key, leaving out what is wrong."""
        faults: list[Fault] = []
        try:
            defaults = self._defaults(lines)
        except COMPOSITION_ERRORS as error:
            faults.append(self._file_fault(error))
            if not lines:
                raise
            # Without the choices that lead to the broken file, the rest can still be checked.
            cfg, more = self._compose(tuple(lines[:-1]))
            return cfg, [*faults, *more]
        cfg = OmegaConf.create()
        for default in defaults:
            loaded = self.loader._load_single_config(default, self.repository).config
            try:
                cfg.merge_with(copy.deepcopy(loaded))
            except OmegaConfBaseException:
                faults += self._merge_leaves(cfg, loaded, default)
        OmegaConf.set_struct(cfg, True)
        return cfg, faults

    def _merge_leaves(self, cfg: DictConfig, loaded: Any, default: ResultDefault) -> Iterator[Fault]:
        path = self._path(default)
        lines = {_absolute(default, key): key.line for key in keys_of(path)} if path else {}
        for key, value in flatten(OmegaConf.to_container(loaded, resolve=False)).items():
            place = f"{path}, line {lines[key]}" if key in lines else str(path or default.config_path)
            try:
                OmegaConf.update(cfg, key, value)
            except (ConfigAttributeError, ConfigKeyError):
                yield self._unknown_key(cfg, key, default).at(place)
            except OmegaConfBaseException:
                yield wrong_type(key, value).at(place)

    def _unknown_key(self, cfg: DictConfig, key: str, default: ResultDefault | None = None) -> Fault:
        known = list(flatten(OmegaConf.to_container(cfg, resolve=False)))
        if not key.startswith("hydra"):
            known = [name for name in known if not name.startswith("hydra.")] + list(self.groups())
        known += {name.rpartition(".")[0] for name in known} - {""}
        if default is not None and default.package and default.package not in known:
            return Fault(f"no key '{key}'; should the file begin with '# @package _global_'?")
        return Fault(f"no key '{key}'{did_you_mean(nearest_key(key, known))}")

    def _file_fault(self, error: Exception) -> Fault:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            mark = error.problem_mark
            return Fault(f"not valid YAML: {error.problem}", place=f"{mark.name}, line {mark.line + 1}")
        if isinstance(error, MissingConfigException) and error.missing_cfg_file:
            group, _, choice = error.missing_cfg_file.rpartition("/")
            hint = did_you_mean(nearest(choice, error.options or ()))
            place = str(error).partition("'")[2].partition("'")[0] if str(error).startswith("In '") else None
            return Fault(f"no {group} '{choice}'{hint}", place=place)
        return Fault(_first_line(error))

    def _defaults(self, lines: list[str]) -> list[ResultDefault]:
        overrides = OverridesParser.create().parse_overrides(lines)
        found = create_defaults_list(self.repository, self.config_name, overrides, True, skip_missing=False)
        return found.defaults

    def _path(self, default: ResultDefault) -> Path | None:
        """Return the file of a config, or None for a schema or a file inside an archive."""
        result = self.repository.load_config(str(default.config_path))
        scheme, _, folder = (result.path if result else "").partition("://")
        if scheme == "pkg":
            found = Path(__import__("importlib").import_module(folder.replace("/", ".")).__file__ or "").parent
            folder = str(found)
        path = Path(folder, f"{default.config_path}.yaml")
        return path if scheme in ("file", "pkg") and path.is_file() else None


def wrong_type(key: str, value: Any) -> Fault:
    """The fault of a value that its setting's type cannot hold."""
    field = dict(schema_fields()).get(key)
    expected = expectation(field) if field is not None else "a group of settings or another type of value"
    shown = "null" if value is None else repr(value)
    whole = isinstance(value, float) and value.is_integer() and field is not None and str(field.type).startswith("int")
    hint = f"; write {int(value)}" if whole else ""
    return Fault(f"{key} is {shown}; it must be {expected}{hint}", key)


def _absolute(default: ResultDefault, key: Key) -> str:
    return f"{default.package}.{key.name}" if default.package else key.name


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
