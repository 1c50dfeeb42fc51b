"""Everything that can be known to be wrong before anything starts: no process and no file is made here."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from puffertoolkit.config import saved, sweep
from puffertoolkit.config.compose import Composer
from puffertoolkit.config.diagnose import NothingComposedError
from puffertoolkit.config.earlier import FindRun, earlier_run
from puffertoolkit.config.faults import Fault, unique
from puffertoolkit.config.keys import flatten
from puffertoolkit.config.paths import conf_dir
from puffertoolkit.config.signatures import SUPPLIED, parameter_names, section_faults
from puffertoolkit.config.suggest import did_you_mean, nearest_key
from puffertoolkit.config.targets import locate
from puffertoolkit.config.values import (
    batch_faults,
    folder_faults,
    missing_faults,
    schema_fields,
    value_faults,
)
from puffertoolkit.errors import UserError

FREE_SECTIONS = ("env", "policy")


@dataclass
class Checked:
    """The outcome for a command line, or for one job of it.

    Attributes:
        cfg: The composed config (of the first job); what is at fault in it is left as it was.
        composition: Faults that keep the config from being composed.
        semantic: Faults of values and of what they stand for.
        restoring: Overrides that bring back the env and policy of the run whose checkpoint is evaluated;
            they go before the user's.
    """

    cfg: DictConfig
    composition: list[Fault] = field(default_factory=list)
    semantic: list[Fault] = field(default_factory=list)
    restoring: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[Fault]:
        """All of them, each once."""
        return unique([*self.composition, *self.semantic])


def preflight(options: Namespace, find_run: FindRun) -> Checked:
    """Check a command line, with all jobs that it makes.

    Args:
        options: As Hydra's own argument parser returns them.
        find_run: Given a path and a mode, returns the run directory that the path means to the mode; raises
            UserError if there is none.
    """
    overrides, faults = _parse(options.overrides)
    composer = Composer(options, overrides)
    faults += composer.search_path_faults()
    try:
        multirun = options.multirun or any(o.input_line == "hydra.mode=MULTIRUN" for o in overrides)
        if multirun:
            overrides = [*_configured_sweep(composer, overrides), *overrides]
        else:
            faults += [_needs_multirun(o) for o in overrides if o.is_sweep_override()]
            overrides = [o for o in overrides if not o.is_sweep_override()]
        for override in overrides:
            override.config_loader = composer.loader  # which a glob of choices asks
        jobs = [_check_job(composer, _parse(lines)[0], find_run) for lines in sweep.jobs(overrides)]
    except NothingComposedError as error:
        return Checked(OmegaConf.create(), [*faults, error.args[0]])
    swept = [o.key_or_group for o in overrides if o.is_sweep_override()]
    faults += _merged([job.composition for job in jobs], jobs, swept)
    semantic = _merged([job.semantic for job in jobs], jobs, swept)
    if multirun and any(OmegaConf.select(job.cfg, "resume") for job in jobs):
        semantic.append(Fault("resume= goes on with one run in its own directory: leave -m out", "resume"))
    elif len({tuple(job.restoring) for job in jobs if job.restoring}) > 1:
        text = "the checkpoints of one sweep must share env and policy; evaluate these in separate commands"
        semantic.append(Fault(text))
    return Checked(jobs[0].cfg, faults, semantic, jobs[0].restoring)


def _parse(lines: Sequence[str]) -> tuple[list[Override], list[Fault]]:
    parsed = [_parse_line(line) for line in lines]
    return [p for p in parsed if isinstance(p, Override)], [p for p in parsed if isinstance(p, Fault)]


def _parse_line(line: str) -> Override | Fault:
    try:
        return OverridesParser.create().parse_override(line)
    except (HydraException, ValueError) as error:
        detail = str(error).splitlines()[0] if "=" in line else "it has no '='"
        return Fault(
            f"'{line}' cannot be read ({detail}); write key=value or group=choice, "
            "and put quotes around a value with special characters: key='\"a, b\"'"
        )


def _needs_multirun(override: Override) -> Fault:
    key, _, value = str(override.input_line).partition("=")
    return Fault(
        f"'{key}={value}' has several values: add -m to run a job for each, or write {key}=[...] for a list"
    )


def _configured_sweep(composer: Composer, overrides: Sequence[Override]) -> list[Override]:
    """Return what the config itself sweeps over (hydra.sweeper.params)."""
    choices = [o for o in overrides if composer.is_group(o) and not o.is_sweep_override()]
    cfg, _ = composer.base([o for o in choices if not list(composer.choice_faults(o))])
    params = OmegaConf.select(cfg, "hydra.sweeper.params") or {}
    return _parse([f"{key}={value}" for key, value in params.items()])[0]


def _merged(faults: list[list[Fault]], jobs: list[Checked], swept: list[str]) -> list[Fault]:
    """Return the faults of all jobs, each once, and with each the choices of a swept group that bring it."""
    merged = []
    for fault in unique(fault for of_job in faults for fault in of_job):
        faulty = [job for job, of_job in zip(jobs, faults, strict=True) if fault in of_job]
        notes = []
        for group in swept:
            choices = [str(job.cfg.hydra.runtime.choices.get(group)) for job in faulty]
            if group in jobs[0].cfg.hydra.runtime.choices and set(choices) < {
                str(job.cfg.hydra.runtime.choices[group]) for job in jobs
            }:
                notes.append(f"{group}={','.join(dict.fromkeys(choices))}")
        merged.append(replace(fault, text=f"{fault.text} (with {' '.join(notes)})") if notes else fault)
    return merged


def _check_job(composer: Composer, overrides: Sequence[Override], find_run: FindRun) -> Checked:
    faults: list[Fault] = []
    choices, values = [], []
    for override in overrides:
        if override in composer.search_path:
            continue
        if not composer.is_group(override):
            values.append(override)
        elif wrong := list(composer.choice_faults(override)):
            faults += wrong
        else:
            choices.append(override)
    source, run, run_faults = earlier_run(composer, choices, values, find_run)
    restoring: list[str] = []
    if run is not None:
        saved.store_missing_choices(run, composer.groups)
        made_with = [f"{group}={choice}" for group, choice in run.choices.items()]
        choices = [*_parse(made_with)[0], *(o for o in choices if o.key_or_group not in run.choices)]
        restoring = [*made_with, *saved.restoring_overrides(run, composer.base(choices)[0])]
        restoring += source.more_overrides(run)
        values = [*_parse(restoring[len(made_with) :])[0], *values]
    cfg, base_faults = composer.base(choices)
    faults += base_faults
    for override in values:
        faults += [_with_way_to_add(cfg, override, fault) for fault in composer.apply(cfg, override)]
    faults += _added_keys(cfg)
    semantic = [*run_faults, *_semantic_faults(cfg)]
    if run is not None and not faults:
        semantic += source.changed_faults(run, cfg)
    if any(fault.key and not fault.place for fault in semantic):
        typed = {override.key_or_group for override in values}
        places = composer.places(choices)
        semantic = [f if f.key in typed else f.at(places.get(f.key or "")) for f in semantic]
    return Checked(cfg, faults, semantic, restoring)


def _with_way_to_add(cfg: DictConfig, override: Override, fault: Fault) -> Fault:
    """Say how to set a parameter which the class has and the YAML does not mention."""
    section, _, name = override.key_or_group.partition(".")
    if section not in FREE_SECTIONS or not fault.text.startswith("no key"):
        return fault
    if name in SUPPLIED[section]:
        return replace(
            fault, text=f"'{section}.{name}' cannot be set: it comes from {SUPPLIED[section][name]}"
        )
    if "did you mean" in fault.text:
        return fault
    try:
        names = parameter_names(locate(cfg[section]["_target_"], list(cfg.trust)))
    except (UserError, OmegaConfBaseException):
        return fault
    if name in names:
        return replace(fault, text=f"{fault.text} in the YAML; add it with +{override.input_line}")
    return replace(fault, text=f"{fault.text}{did_you_mean(nearest_key(name, names))}")


def _added_keys(cfg: DictConfig) -> Iterator[Fault]:
    """Yield keys which `+key=value` put where the schema knows none."""
    known = [key for key, _ in schema_fields()]
    sections = {*FREE_SECTIONS, "hydra"}
    for key in flatten(OmegaConf.to_container(cfg, resolve=False)):
        if key not in known and key.partition(".")[0] not in sections:
            hint = did_you_mean(nearest_key(key, known))
            yield Fault(f"no key '{key}'{hint} ('+' adds to env and policy only)")


def _semantic_faults(cfg: DictConfig) -> Iterator[Fault]:
    unusable = list(_unresolved(cfg)) or list(missing_faults(cfg))
    if unusable:
        yield from unusable
        return
    yield from value_faults(cfg)
    if cfg.mode in ("train", "reproduce"):
        yield from batch_faults(cfg)
    for section in FREE_SECTIONS:
        node: Any = OmegaConf.to_container(cfg[section], resolve=True)
        if not _is_shipped(section, node, cfg.hydra.runtime.choices.get(section)):
            yield from section_faults(section, node, list(cfg.trust))
    yield from _directory_faults(cfg)


def _unresolved(cfg: DictConfig) -> Iterator[Fault]:
    """Yield values that refer to something which is not there."""
    for key, value in flatten(OmegaConf.to_container(cfg, resolve=False)).items():
        # What refers to Hydra's own node can only be resolved in a job.
        if key.startswith("hydra.") or not isinstance(value, str) or "${" not in value or "${hydra" in value:
            continue
        try:
            OmegaConf.select(cfg, key)
        except OmegaConfBaseException as error:
            yield Fault(f"{key} is '{value}', which cannot be resolved: {str(error).splitlines()[0]}", key)


def _directory_faults(cfg: DictConfig) -> Iterator[Fault]:
    yield from folder_faults(cfg.output_dir, "output_dir")
    for key in ("hydra.run.dir", "hydra.sweep.dir"):
        try:
            folder = str(OmegaConf.select(cfg, key))
        except OmegaConfBaseException as error:
            yield Fault(f"{key} cannot be resolved: {str(error).splitlines()[0]}", key)
            continue
        if not folder.startswith(cfg.output_dir):
            yield from folder_faults(folder, key)


def _is_shipped(section: str, node: dict[str, Any], choice: Any) -> bool:
    """Tell whether a section is as one of the toolkit's own files has it, which needs no import to check.

    Of an environment every value counts, since only its class knows the ranges. A policy's values may differ
    as long as each has the type of the one in the file.
    """
    shipped = _shipped(section, str(choice))
    if shipped is None or section == "env":
        return node == shipped
    ours, theirs = flatten(shipped), flatten(node)
    return ours.keys() == theirs.keys() and all(
        value == ours[key] if key.endswith("_target_") else type(value) is type(ours[key])
        for key, value in theirs.items()
    )


@cache
def _shipped(section: str, choice: str) -> dict[str, Any] | None:
    path = conf_dir() / section / f"{choice}.yaml"
    if not path.is_file():
        return None
    content: Any = OmegaConf.to_container(OmegaConf.load(path))
    return dict(content["env"]) if section == "env" else dict(content)
