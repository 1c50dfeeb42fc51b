"""Values against the schema's ranges and choices, against each other, and against this machine."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config.faults import Fault
from puffertoolkit.config.schema import Config
from puffertoolkit.config.suggest import did_you_mean, nearest

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list[str]": "a list of words, like [a,b]",
    "dict[str, Any]": "a group of settings",
}


def schema_fields(schema: type = Config, prefix: str = "") -> Iterator[tuple[str, Field[Any]]]:
    """Yield the dotted key and the dataclass field of every setting that the schema knows."""
    hints = get_type_hints(schema)
    for field in fields(schema):
        key = f"{prefix}{field.name}"
        if is_dataclass(hints[field.name]):
            yield from schema_fields(hints[field.name], f"{key}.")
        else:
            yield key, field


def has_key(cfg: DictConfig, key: str) -> bool:
    """Tell whether a dotted key is there and has a value, which may be null."""
    section, _, name = key.rpartition(".")
    node = OmegaConf.select(cfg, section) if section else cfg
    return isinstance(node, DictConfig) and name in node


def expectation(field: Field[Any]) -> str:
    """Return in words what a setting takes: "a number above 0", "one of muon, adam, adamw"."""
    if "choices" in field.metadata:
        return f"one of {', '.join(field.metadata['choices'])}"
    kind, _, optional = str(field.type).partition(" | ")
    words = NOUNS[kind]
    if "range" in field.metadata:
        words = f"{words} {field.metadata['range']}"
    return f"{words}, or null" if optional else words


def missing_faults(cfg: DictConfig) -> Iterator[Fault]:
    """Yield the settings that have no value."""
    for key, field in schema_fields():
        optional = "None" in str(field.type)
        if not has_key(cfg, key) or (OmegaConf.select(cfg, key) is None and not optional):
            yield Fault(f"{key} has no value; it must be {expectation(field)}", key)


def value_faults(cfg: DictConfig) -> Iterator[Fault]:
    """Yield the values that are out of range or choice, and a device that is not there."""
    for key, field in schema_fields():
        value = OmegaConf.select(cfg, key)
        choices, bounds = field.metadata.get("choices"), field.metadata.get("range")
        if choices is not None and value not in choices:
            hint = did_you_mean(nearest(str(value), choices))
            yield Fault(f"{key} is '{value}'; it must be {expectation(field)}{hint}", key)
        if bounds is not None and value is not None and value not in bounds:
            yield Fault(f"{key} is {value}; it must be {expectation(field)}", key)
    yield from _device_faults(cfg)


def batch_faults(cfg: DictConfig) -> Iterator[Fault]:
    """Yield what keeps a batch from being cut into minibatches, and those into parts."""
    horizon = cfg.train.horizon
    if horizon < 1:
        return
    for key in ("minibatch_size", "device_batch_size"):
        size = cfg.train[key]
        if size is None or size < 1 or size % horizon == 0:
            continue
        # A minibatch is made of whole segments of `horizon` steps, one per agent.
        near = [size // horizon * horizon, (size // horizon + 1) * horizon]
        yield Fault(
            f"train.{key} is {size}; it must be a multiple of train.horizon={horizon}; the nearest: "
            f"{' or '.join(str(value) for value in near if value)}",
            f"train.{key}",
        )


def folder_faults(folder: str, key: str) -> Iterator[Fault]:
    """Yield what keeps `folder` from being made and written to."""
    path = Path(folder).absolute()
    existing = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    if not existing.is_dir():
        yield Fault(f"{key} is '{folder}', but '{existing}' is not a folder; choose another", key)
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield Fault(f"{key} is '{folder}', and '{existing}' cannot be written to; choose another", key)


def _device_faults(cfg: DictConfig) -> Iterator[Fault]:
    device = cfg.device
    if not DEVICE.fullmatch(device):
        is_gpu = device.lower().startswith("gpu")
        hint = did_you_mean("cuda" if is_gpu else nearest(device, ("auto", "cpu", "cuda", "mps")))
        yield Fault(f"device is '{device}'; it must be auto, cpu, cuda, cuda:N or mps{hint}", "device")
    elif device.startswith("cuda"):
        count = _cuda_devices()
        index = int(device.partition(":")[2] or 0)
        if index >= count:
            there = "no CUDA device" if count == 0 else f"only cuda:0 to cuda:{count - 1}"
            yield Fault(f"device is '{device}', but Torch finds {there}; try device=auto or cpu", "device")
    elif device == "mps" and (platform.system(), platform.machine()) != ("Darwin", "arm64"):
        yield Fault("device is 'mps', which only Apple silicon has; try device=auto or cpu", "device")


def _cuda_devices() -> int:
    """Count CUDA devices, without importing Torch where its build already tells that there is none."""
    try:
        if version("torch").endswith("+cpu"):
            return 0
    except PackageNotFoundError:
        return 0
    return int(import_module("torch").cuda.device_count())
