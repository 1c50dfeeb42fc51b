"""Checkpoints: the policy's weights, the rest of the training's state, and a manifest with their hashes.

A checkpoint is a directory, written under a temporary name and renamed when all of it is on the disk. A
crash at any moment therefore leaves the earlier checkpoints as they were, and the new one whole or not there.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import pickle
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from puffertoolkit.errors import UserError
from puffertoolkit.files import sync_directory, write_synced
from puffertoolkit.run.manifest import (
    FORMAT,
    MANIFEST,
    TRAINER,
    WEIGHTS,
    best_of,
    checkpoint_name,
    list_checkpoints,
    read_manifest,
    require_whole,
    suggestion,
)

_TEMPORARY = ".tmp_"
_TRASH = ".trash_"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory, its tensors on the CPU.

    Attributes:
        path: Where it was read from.
        weights: The policy's `state_dict`.
        trainer_state: Whatever else the trainer saved, to go on exactly where it stopped.
        manifest: The manifest, with the caller's own entries and `step`, `score`, `serial`, `files`.
    """

    path: Path
    weights: dict[str, Tensor]
    trainer_state: dict[str, Any]
    manifest: dict[str, Any]


def save_checkpoint(
    directory: str | os.PathLike[str],
    step: int,
    weights: Mapping[str, Tensor],
    trainer_state: Mapping[str, Any],
    manifest: Mapping[str, Any],
    keep: int,
    score: float | None = None,
) -> Path:
    """Writes a checkpoint, then deletes those that are neither among the newest `keep` nor the best.

    Args:
        directory: The run's `checkpoints/`; made if it is not there.
        step: Agent steps trained so far.
        weights: The policy's `state_dict`, on any device.
        trainer_state: Tensors, numbers, text and None, in dictionaries, lists and tuples; nothing else, as
            it must load without running any code.
        manifest: What the manifest shall say besides: the env's name, its spaces as text, the policy.
        keep: How many of the newest to keep, 1 or more.
        score: What `best` goes by, the higher the better; None or not finite: it does not compete.

    Returns:
        The checkpoint's own directory.

    Raises:
        TypeError: `trainer_state` holds something which could not be loaded again.
        ValueError: `keep` is below 1.
        UserError: The disk is full or gone; the checkpoints written before are as they were.
    """
    if keep < 1:
        raise ValueError(f"keep must be 1 or more, and it is {keep}")
    _require_plain(trainer_state, "trainer_state")
    contents = {WEIGHTS: _weights_bytes(weights), TRAINER: _trainer_bytes(trainer_state)}
    entries = {
        **manifest,
        "format": FORMAT,
        "step": step,
        "score": None if score is None or not math.isfinite(score) else float(score),
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "files": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for name, data in contents.items()
        },
    }
    try:
        target = _write(Path(directory), contents, entries)
        _retire(Path(directory), keep)
    except OSError as error:
        raise UserError(
            f"The checkpoint of step {step:,} could not be written to {directory}: {error}. The run stops "
            "here; the checkpoints written so far are whole, and resume= goes on from the last of them."
        ) from error
    return target


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Reads one checkpoint and verifies it against its manifest. No code in it can run.

    Args:
        path: The checkpoint's own directory, as `find_run` gives it.

    Raises:
        UserError: It is damaged or something else; the message names the file, and another checkpoint that
            is good.
    """
    path = Path(path)
    require_whole(path)
    try:
        weights = safetensors.torch.load_file(path / WEIGHTS)
    except (safetensors.SafetensorError, ValueError, OSError) as error:
        raise UserError(
            f"{path / WEIGHTS} does not hold weights in the safetensors format ({error}). {suggestion(path)}"
        ) from error
    try:
        if not zipfile.is_zipfile(path / TRAINER):
            raise ValueError("not what torch.save writes")
        state = torch.load(path / TRAINER, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, OSError) as error:
        raise UserError(
            f"{path / TRAINER} holds something other than plain tensors and numbers, and was not loaded, as "
            f"it could run code of its own. {suggestion(path)}"
        ) from error
    if not isinstance(state, dict):
        raise UserError(f"{path / TRAINER} is not a trainer's state. {suggestion(path)}")
    return Checkpoint(path, weights, state, read_manifest(path).manifest)


def _write(directory: Path, contents: dict[str, bytes], entries: dict[str, Any]) -> Path:
    """Writes the files and a manifest of `entries`; the name comes when all of it is on the disk."""
    directory.mkdir(parents=True, exist_ok=True)
    _sweep(directory)
    present, _ = list_checkpoints(directory)
    serial = max((info.serial for info in present), default=0) + 1
    target = _unused_name(directory, entries["step"])
    temporary = directory / f"{_TEMPORARY}{target.name}"
    temporary.mkdir()
    manifest = json.dumps({**entries, "serial": serial}, indent=2).encode()
    for name, data in {**contents, MANIFEST: manifest}.items():
        write_synced(temporary / name, data)
    sync_directory(temporary)
    os.replace(temporary, target)
    sync_directory(directory)
    return target


def _weights_bytes(weights: Mapping[str, Tensor]) -> bytes:
    # Cloned, as the format refuses tensors that share their memory (tied weights, views).
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights.items()}
    data: bytes = safetensors.torch.save(plain)
    return data


def _trainer_bytes(trainer_state: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(dict(trainer_state), buffer)
    return buffer.getvalue()


def _require_plain(value: Any, where: str) -> None:
    """Refuses, at the time of saving, what `weights_only=True` would refuse when it is too late."""
    if value is None or type(value) in (bool, int, float, str, bytes) or isinstance(value, Tensor):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require_plain(key, f"a key of {where}")
            _require_plain(item, f"{where}[{key!r}]")
    elif type(value) in (list, tuple):
        for index, item in enumerate(value):
            _require_plain(item, f"{where}[{index}]")
    else:
        raise TypeError(
            f"{where} is a {type(value).__name__}; a checkpoint holds only tensors, numbers and text"
        )


def _unused_name(directory: Path, step: int) -> Path:
    target = directory / checkpoint_name(step)
    number = 2
    while target.exists():
        target = directory / f"{checkpoint_name(step)}_{number}"
        number += 1
    return target


def _retire(directory: Path, keep: int) -> None:
    """Deletes the checkpoints that are neither among the newest `keep` nor the best."""
    infos, _ = list_checkpoints(directory)
    kept = {info.path for info in infos[-keep:]}
    if best := best_of(infos):
        kept.add(best.path)
    for info in infos:
        if info.path not in kept:
            # Renamed first: a deletion cut short must not look like a damaged checkpoint.
            trash = directory / f"{_TRASH}{info.path.name}"
            os.replace(info.path, trash)
            shutil.rmtree(trash, ignore_errors=True)


def _sweep(directory: Path) -> None:
    """Deletes what an earlier crash left half written or half deleted."""
    for path in directory.iterdir():
        if path.name.startswith((_TEMPORARY, _TRASH)):
            shutil.rmtree(path, ignore_errors=True)
