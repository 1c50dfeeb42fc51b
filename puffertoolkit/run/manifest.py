"""What checkpoints a directory holds, read from their manifests alone (nothing here needs Torch)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puffertoolkit.errors import UserError

FORMAT = 1
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
TRAINER = "trainer.pt"

# A second checkpoint of the same step gets a number behind it: nothing is ever overwritten.
_NAME = re.compile(r"step_(\d+)(?:_(\d+))?")


@dataclass(frozen=True)
class CheckpointInfo:
    """One checkpoint as its manifest describes it.

    Attributes:
        path: Its directory.
        step: Agent steps trained when it was written.
        serial: Its place in the order in which this directory's checkpoints were written, from 1.
        score: What `best` goes by, the higher the better; None where there was none yet.
        manifest: The whole manifest.
    """

    path: Path
    step: int
    serial: int
    score: float | None
    manifest: dict[str, Any]


def checkpoint_name(step: int) -> str:
    """The name of a step's directory, so long that names sort as steps do."""
    return f"step_{step:012d}"


def is_checkpoint_name(name: str) -> bool:
    """Whether a directory of this name is a checkpoint's."""
    return _NAME.fullmatch(name) is not None


def read_manifest(path: Path) -> CheckpointInfo:
    """Reads the manifest of one checkpoint directory.

    Raises:
        UserError: It is missing, damaged, or of a format this version does not know.
    """
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_bytes())
        if not isinstance(manifest, dict):
            raise ValueError("not a JSON object")
        version = manifest["format"]
        if isinstance(version, int) and version > FORMAT:
            raise UserError(
                f"The checkpoint {path} was written by a newer version of puffertoolkit: its format is "
                f"{version}, and this version reads up to {FORMAT}. Upgrade puffertoolkit to load it."
            )
        score = manifest["score"]
        return CheckpointInfo(
            path=path,
            step=int(manifest["step"]),
            serial=int(manifest["serial"]),
            score=None if score is None or not math.isfinite(score) else float(score),
            manifest=manifest,
        )
    except FileNotFoundError as error:
        raise UserError(_damaged(path, f"{file} is missing")) from error
    except KeyError as error:
        raise UserError(_damaged(path, f"{file} has no entry {error}")) from error
    except (OSError, ValueError, TypeError) as error:
        raise UserError(_damaged(path, f"{file} cannot be read ({error})")) from error


def list_checkpoints(directory: Path) -> tuple[list[CheckpointInfo], list[Path]]:
    """The checkpoints in a directory.

    Returns:
        Those with a readable manifest, in the order of their writing, and the directories of the others.
    """
    good: list[CheckpointInfo] = []
    bad: list[Path] = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        if not (path.is_dir() and is_checkpoint_name(path.name)):
            continue
        try:
            good.append(read_manifest(path))
        except UserError:
            bad.append(path)
    return sorted(good, key=lambda info: info.serial), bad


def latest_checkpoint(directory: Path) -> CheckpointInfo | None:
    """The checkpoint written last, or None where there is none.

    Raises:
        UserError: A newer one stands there and is damaged; the message names the newest good one.
    """
    good, bad = list_checkpoints(directory)
    newest_name = good[-1].path.name if good else ""
    for path in reversed(bad):
        if path.name > newest_name:
            read_manifest_or_suggest(path)
    return good[-1] if good else None


def best_checkpoint(directory: Path) -> CheckpointInfo | None:
    """The checkpoint of the highest score, of equal ones the last; None where none has a score."""
    return best_of(list_checkpoints(directory)[0])


def best_of(infos: Iterable[CheckpointInfo]) -> CheckpointInfo | None:
    """As `best_checkpoint`, among those given."""
    scored = [info for info in infos if info.score is not None]
    return max(scored, key=lambda info: (info.score, info.serial), default=None)


def read_manifest_or_suggest(path: Path) -> CheckpointInfo:
    """Reads a manifest as `read_manifest` does; its error says also which other checkpoint is good."""
    try:
        return read_manifest(path)
    except UserError as error:
        raise UserError(f"{error} {suggestion(path)}") from error


def require_whole(path: Path) -> None:
    """Raises a UserError if the checkpoint is damaged; it says which other one is good."""
    if damage := damage_of(read_manifest_or_suggest(path)):
        raise UserError(f"The checkpoint {path} is damaged: {damage}. {suggestion(path)}")


def suggestion(damaged: Path) -> str:
    """A sentence that says which checkpoint beside a damaged one can be used in its place."""
    good = [info for info in list_checkpoints(damaged.parent)[0] if info.path.name != damaged.name]
    older = [info for info in good if info.path.name < damaged.name]
    for info in [*reversed(older), *(info for info in good if info not in older)]:
        if damage_of(info) is None:
            return f"{info.path} is whole: use it with checkpoint={info.path}"
    return "No other checkpoint beside it is whole."


def damage_of(info: CheckpointInfo) -> str | None:
    """What is wrong with a checkpoint's files by their size and hash, or None if they are whole."""
    files = info.manifest.get("files")
    for name in (WEIGHTS, TRAINER):
        file = info.path / name
        expected = files.get(name) if isinstance(files, dict) else None
        if not isinstance(expected, dict):
            return f"its {MANIFEST} does not list {name}"
        if not file.is_file():
            return f"{file} is missing"
        if file.stat().st_size != expected.get("bytes"):
            return f"{file} has {file.stat().st_size:,} bytes where {expected.get('bytes')} were written"
        if sha256_of(file) != expected.get("sha256"):
            return f"{file} has changed since it was written (its SHA-256 differs)"
    return None


def sha256_of(file: Path) -> str:
    """The file's SHA-256, in hexadecimal digits."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _damaged(path: Path, what: str) -> str:
    return f"The checkpoint {path} is damaged or not one of puffertoolkit's: {what}."
