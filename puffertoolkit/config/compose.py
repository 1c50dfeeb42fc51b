"""Composition by Hydra's own loader, one override at a time, so that one mistake does not hide the next."""

from __future__ import annotations

import copy
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobRuntime, setup_globals
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config import schema
from puffertoolkit.config.diagnose import (
    COMPOSITION_ERRORS,
    UNKNOWN_KEY_ERRORS,
    Diagnosis,
    absolute_key,
    config_file,
    defaults_list,
    first_line,
    unknown_key,
    wrong_type,
)
from puffertoolkit.config.faults import Fault
from puffertoolkit.config.keys import flatten, keys_of
from puffertoolkit.config.paths import conf_dir
from puffertoolkit.config.suggest import did_you_mean, nearest
from puffertoolkit.config.values import has_key, schema_fields


class Composer:
    """Composes configs as Hydra would for a command line, and says everything that is wrong.

    Args:
        options: Hydra's options as parsed; `config_dir`, `config_path` and `config_name` matter here.
        overrides: The overrides; `hydra.searchpath` among them decides on the files there are.
    """

    def __init__(self, options: Namespace, overrides: Sequence[Override]) -> None:
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
            warnings.simplefilter("ignore")  # of absent folders: see `search_path_faults`
            _, repository = self.loader._parse_overrides_and_create_caching_repo(self.config_name, lines)
        return repository

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The choices of each group, without Hydra's own groups."""
        names = self.repository.get_group_options("", ObjectType.GROUP)
        options = {name: self.repository.get_group_options(name) for name in names if name != "hydra"}
        return {name: choices for name, choices in options.items() if choices}

    def search_path_faults(self) -> list[Fault]:
        """Return the folders on the search path that do not exist."""
        absent = [source for source in self.repository.get_sources() if not source.available()]
        return [Fault(f"the config folder '{s.path}' ({s.provider}) does not exist") for s in absent]

    def is_group(self, override: Override) -> bool:
        """Tell whether an override chooses a file of a group, rather than setting a value."""
        return self.repository.group_exists(override.key_or_group) and not isinstance(override.value(), dict)

    def choice_faults(self, override: Override) -> Iterator[Fault]:
        """Yield what is wrong with the choices that an override makes in its group."""
        group, value = override.key_or_group, override.value()
        if override.is_delete():
            return
        options = self.repository.get_group_options(group)
        there = f"(there is: {', '.join(options)})"
        if value is None:
            yield Fault(f"{group}=null chooses nothing {there}; ~{group} leaves the group out", group)
            return
        for choice in value if isinstance(value, list) else [value]:
            if choice not in options:
                hint = did_you_mean(nearest(str(choice), options))
                yield Fault(f"no {group} '{choice}'{hint} {there}", group)

    def base(self, choices: Sequence[Override]) -> tuple[DictConfig, list[Fault]]:
        """Compose the files that the given group overrides choose; return a copy, and the files' faults."""
        lines = tuple(str(override.input_line) for override in [*self.search_path, *choices])
        if lines not in self._bases:
            self._bases[lines] = self._compose(lines)
        cfg, faults = self._bases[lines]
        return copy.deepcopy(cfg), faults

    def apply(self, cfg: DictConfig, override: Override) -> Iterator[Fault]:
        """Set one value in `cfg`, or yield what is wrong with the override."""
        key, value = override.key_or_group, override.value()
        if _is_beneath_a_value(cfg, key):
            yield unknown_key(cfg, key, self.groups)
            return
        try:
            ConfigLoaderImpl._apply_overrides_to_config([override], cfg)
        except COMPOSITION_ERRORS as error:
            cause = error.__cause__ or error
            if override.package is not None or isinstance(cause, UNKNOWN_KEY_ERRORS):
                keys = [key, *(flatten(value, key) if isinstance(value, dict) else ())]
                absent = [name for name in keys if not has_key(cfg, name)]
                yield from (unknown_key(cfg, name, self.groups) for name in absent)
            elif key in dict(schema_fields()):
                yield wrong_type(key, value)
            else:
                yield Fault(f"{override.input_line}: {first_line(cause)}", key)

    def places(self, choices: Sequence[Override]) -> dict[str, str]:
        """Return, for each key in a file of the user's, the file and line that set it last."""
        places: dict[str, str] = {}
        for default, path in self._files(choices):
            if not path.is_relative_to(conf_dir()) and not str(default.config_path).startswith("hydra/"):
                places |= {absolute_key(default, key): f"{path}, line {key.line}" for key in keys_of(path)}
        return places

    def comments(self, choices: Sequence[Override]) -> dict[str, str]:
        """Return, for each key, the comment beside it in the file that sets it first."""
        comments: dict[str, str] = {}
        for default, path in self._files(choices):
            for key in keys_of(path):
                if key.comment:
                    comments.setdefault(absolute_key(default, key), key.comment)
        return comments

    def _files(self, choices: Sequence[Override]) -> Iterator[tuple[ResultDefault, Path]]:
        lines = [str(override.input_line) for override in [*self.search_path, *choices]]
        try:
            defaults = defaults_list(self.repository, self.config_name, lines).defaults
        except COMPOSITION_ERRORS:
            return  # which the composition has reported
        for default in defaults:
            path = config_file(self.repository, str(default.config_path))
            if path is not None:
                yield default, path

    def _compose(self, lines: tuple[str, ...]) -> tuple[DictConfig, list[Fault]]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.loader.load_configuration(self.config_name, list(lines), RunMode.RUN), []
        except COMPOSITION_ERRORS as error:
            diagnosis = Diagnosis(self.loader, self.repository, self.config_name, self.groups)
            cfg = diagnosis.compose(lines)
            return cfg, diagnosis.faults or [Fault(first_line(error))]


def _is_beneath_a_value(cfg: DictConfig, key: str) -> bool:
    """Tell whether part of a dotted key already names a value (`seed.x`); Hydra would overwrite it."""
    parts = key.split(".")
    parents = [".".join(parts[:end]) for end in range(1, len(parts))]
    values = [OmegaConf.select(cfg, name) for name in parents if has_key(cfg, name)]
    return not all(OmegaConf.is_config(value) for value in values)
