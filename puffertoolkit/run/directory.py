"""A run's directory: what stands where, the record of where the run came from, and finding a run again."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import shlex
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

import puffertoolkit
from puffertoolkit.errors import UserError
from puffertoolkit.files import replace_file, sync_directory
from puffertoolkit.run.manifest import (
    best_checkpoint,
    checkpoint_name,
    damage_of,
    is_checkpoint_name,
    latest_checkpoint,
    list_checkpoints,
    read_manifest_or_suggest,
    require_whole,
)
from puffertoolkit.run.provenance import GitState, git_state, machine, versions
from puffertoolkit.seeding import SeedTree
from puffertoolkit.threads import available_cpus


class RunDirectory:
    """The files of one run, by name.

    Args:
        path: The run's directory. It need not exist yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def config(self) -> Path:
        """The composed config, as Hydra wrote it."""
        return self.path / ".hydra" / "config.yaml"

    @property
    def overrides(self) -> Path:
        """The overrides of the command line, as Hydra wrote them."""
        return self.path / ".hydra" / "overrides.yaml"

    @property
    def provenance(self) -> Path:
        """The command line, the versions, the machine, the seeds."""
        return self.path / "run.json"

    @property
    def git_diff(self) -> Path:
        """What differed from the commit; there only if something did."""
        return self.path / "git.diff"

    @property
    def metrics(self) -> Path:
        """One JSON object per line."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """The directory TensorBoard reads."""
        return self.path / "tb"

    @property
    def checkpoints(self) -> Path:
        """One directory per checkpoint."""
        return self.path / "checkpoints"

    @property
    def videos(self) -> Path:
        """The recorded episodes."""
        return self.path / "videos"

    def write_provenance(
        self, cfg: Any, argv: Sequence[str], num_threads: int | None = None, device: str | None = None
    ) -> None:
        """Writes `run.json`, and `git.diff` if the source differs from its commit.

        Args:
            cfg: The composed config; `seed` and `num_threads` are read from it.
            argv: The arguments after `python -m puffertoolkit`.
            num_threads: The threads really in use, where the caller knows better than the config.
            device: Where the policy lives, in words.
        """
        git = git_state(Path(puffertoolkit.__file__).parent)
        seeds = SeedTree(cfg.seed)
        record = {
            **_process(cfg, argv, git, num_threads, device),
            "working_directory": os.getcwd(),
            "seed": seeds.seed,
            "seeds": seeds.as_dict(),
        }
        self.path.mkdir(parents=True, exist_ok=True)
        self._write_record(record)
        if git.diff:
            replace_file(self.git_diff, git.diff)

    def record_resumption(
        self,
        cfg: Any,
        argv: Sequence[str],
        num_threads: int,
        device: str,
        *,
        step: int,
        config: str,
        exact: bool,
    ) -> dict[str, Any]:
        """Adds to `run.json` that the run was taken up again, by what and where; returns what it added.

        Args:
            cfg: The composed config.
            argv: The arguments after `python -m puffertoolkit`.
            num_threads: The threads in use.
            device: Where the policy lives, in words.
            step: Agent steps already trained.
            config: Where in the run's directory Hydra wrote this config.
            exact: Whether the environments went on where they were.

        Raises:
            UserError: `run.json` cannot be read.
        """
        record = self.read_provenance()
        git = git_state(Path(puffertoolkit.__file__).parent)
        added = {"step": step, "config": config, "exact": exact}
        added |= _process(cfg, argv, git, num_threads, device)
        record["resumptions"] = [*record.get("resumptions", []), added]
        self._write_record(record)
        return added

    def read_provenance(self) -> dict[str, Any]:
        """What `run.json` says.

        Raises:
            UserError: It is missing or damaged.
        """
        try:
            return dict(json.loads(self.provenance.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise UserError(
                f"{self.provenance} cannot be read ({error}), so it is not known how the run was made. "
                "Take the file from a copy of the run."
            ) from error

    def _write_record(self, record: dict[str, Any]) -> None:
        replace_file(self.provenance, (json.dumps(record, indent=2) + "\n").encode())

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Holds the run for this process; the system lets go of it however the process ends.

        Raises:
            UserError: Another process is writing to the run.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise UserError(
                    f"Another process is training in {self.path} ({file.read().strip() or 'unknown'}). Wait "
                    "for its end, or stop it first."
                ) from error
            except OSError:
                pass  # Some network file systems know no locks; there nobody can be kept out.
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield


def _process(
    cfg: Any, argv: Sequence[str], git: GitState, num_threads: int | None, device: str | None
) -> dict[str, Any]:
    """What is on record of a process: what was asked for, by which code, on what machine."""
    return {
        "command": shlex.join(["python", "-m", "puffertoolkit", *argv]),
        "argv": list(argv),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "git": {"sha": git.sha, "dirty": git.dirty, "untracked": list(git.untracked)},
        "versions": versions(),
        **machine(),
        "num_threads": num_threads or cfg.num_threads or available_cpus(),
        "device": device,
        "config_sha256": config_hash(cfg),
    }


def config_hash(cfg: Any) -> str:
    """SHA-256 of the config with its interpolations resolved, whatever the order of its keys."""
    return hashlib.sha256(OmegaConf.to_yaml(cfg, resolve=True, sort_keys=True).encode()).hexdigest()


def run_directory(path: str | os.PathLike[str]) -> RunDirectory:
    """The run that a path means, whatever the state of its checkpoints.

    Args:
        path: A run's directory, its `checkpoints/`, a checkpoint, or a file of a checkpoint.

    Raises:
        UserError: The path is none of those.
    """
    start = Path(path)
    if not start.exists():
        raise UserError(_not_there(start))
    for candidate in (start, *start.absolute().parents[:3]):
        if _is_run(candidate):
            return RunDirectory(candidate)
    raise UserError(_not_a_run(start))


def resume_point(path: str | os.PathLike[str]) -> tuple[Path, list[str]]:
    """The checkpoint to go on from: the one that the path names, else the newest that is whole.

    Returns:
        The checkpoint's directory, and what to tell of newer ones that are damaged.

    Raises:
        UserError: The path names a damaged checkpoint, or the run has none that is whole.
    """
    start = Path(path)
    if named := _enclosing_checkpoint(start):
        require_whole(named)
        return named, []
    run = run_directory(start)
    good, bad = list_checkpoints(run.checkpoints)
    notes = [f"{folder} is damaged and was passed over" for folder in bad]
    for info in reversed(good):
        if damage_of(info) is None:
            return info.path, notes
        notes.append(f"{info.path} is damaged ({damage_of(info)}) and was passed over")
    found = "it ended before its first one was written" if not notes else "; ".join(notes)
    raise UserError(
        f"The run {run.path} has no checkpoint to go on from: {found}. Begin it again with the command in "
        f"{run.provenance}, or with mode=reproduce run={run.path}."
    )


def set_aside(run: RunDirectory, checkpoint: Path) -> list[Path]:
    """Renames the run's checkpoints that are newer than this one, from which the run goes on.

    They keep their contents, as `abandoned_step_...`, and are no longer taken for checkpoints of the run.

    Returns:
        Their new directories.
    """
    good, bad = list_checkpoints(run.checkpoints)
    chosen = read_manifest_or_suggest(checkpoint)
    newer = [info.path for info in good if info.serial > chosen.serial]
    newer += [path for path in bad if path.name > checkpoint_name(chosen.step)]
    renamed = []
    for path in newer:
        number, target = 1, path.with_name(f"abandoned_{path.name}")
        while target.exists():
            number += 1
            target = path.with_name(f"abandoned_{path.name}-{number}")
        path.rename(target)
        renamed.append(target)
    sync_directory(run.checkpoints)
    return renamed


def find_run(path: str | os.PathLike[str], prefer: str = "latest") -> tuple[RunDirectory, Path]:
    """The run and the checkpoint that a path means.

    Args:
        path: A run's directory, its `checkpoints/`, a checkpoint, or a file of a checkpoint.
        prefer: Which checkpoint to take where the path names none: `latest` or `best` (the latest, where none
            has a score).

    Returns:
        The run's directory, and the directory of one checkpoint.

    Raises:
        UserError: The path is none of those, the run has no checkpoint, or the newest one is damaged.
    """
    start = Path(path)
    if not start.exists():
        raise UserError(_not_there(start))
    checkpoint = _enclosing_checkpoint(start)
    if checkpoint is not None:
        read_manifest_or_suggest(checkpoint)
        return _enclosing_run(checkpoint), checkpoint
    directory = start if start.name == "checkpoints" else start / "checkpoints"
    if not directory.is_dir() and not _is_run(start):
        raise UserError(_not_a_run(start))
    info = (best_checkpoint(directory) if prefer == "best" else None) or latest_checkpoint(directory)
    if info is None:
        raise UserError(
            f"The run {start} holds no checkpoint: it ended before its first one was written. Name a run "
            "that trained longer, or train it again."
        )
    return _enclosing_run(info.path), info.path


def _enclosing_checkpoint(path: Path) -> Path | None:
    for candidate in (path, path.parent) if path.is_file() else (path,):
        if candidate.is_dir() and (
            is_checkpoint_name(candidate.name) or (candidate / "manifest.json").is_file()
        ):
            return candidate
    return None


def _enclosing_run(checkpoint: Path) -> RunDirectory:
    for parent in checkpoint.absolute().parents:
        if _is_run(parent):
            return RunDirectory(parent)
    raise UserError(
        f"The checkpoint {checkpoint} stands outside the directory of its run, and the config that built "
        "its policy is there (.hydra/config.yaml). Give the checkpoint in its run's directory, or copy that "
        "whole directory."
    )


def _is_run(path: Path) -> bool:
    run = RunDirectory(path)
    return run.config.is_file() or run.provenance.is_file()


def _not_there(path: Path) -> str:
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    wanted = path.absolute().relative_to(parent).parts[0]
    names = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f" Did you mean {parent / near[0]}?" if near else ""
    return f"There is no run or checkpoint at {path}: {parent} holds no '{wanted}'.{hint}"


def _not_a_run(path: Path) -> str:
    message = f"{path} is neither a run's directory nor a checkpoint."
    if path.is_dir():
        # Few levels: outputs/<mode>/<env>/<run> is the deepest that is worth a look.
        found = [run for depth in ("*", "*/*", "*/*/*") for run in path.glob(f"{depth}/run.json")]
        if found:
            newest = max(found, key=lambda file: file.stat().st_mtime).parent
            count = f"{len(found)} runs" if len(found) > 1 else "one run"
            return f"{message} It holds {count}; name one, for example the newest: {newest}"
    return f"{message} Expected outputs/<mode>/<env>/<run>, or checkpoints/step_... in it."
