"""No two runs share a directory: each is claimed, atomically, before Hydra writes the first file into it."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write


def claim(wanted: Path, marker: str) -> Path:
    """Make `wanted`, or `wanted-2`, `wanted-3`, ..., and return the first that nobody else has or gets.

    A directory belongs to whoever created the marker in it; creating it fails for all others, on every
    machine that shares the file system. A directory that exists and is empty may be claimed.

    Args:
        wanted: The directory to have.
        marker: Name of the entry that marks it as taken: a folder, or with a suffix (`x.yaml`) a file.

    Raises:
        OSError: the directory cannot be made there.
    """
    for number in count(1):
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            continue
        taken = path / marker
        try:
            if Path(marker).suffix:
                taken.touch(exist_ok=False)
            else:
                taken.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError("count() ends")


class ClaimRunDirectory(Callback):
    """Hydra calls this when jobs really start, so that `--help` or `--cfg` leave no directory behind."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claim the directory of a single run, unless an earlier run goes on in its own."""
        if config.resume:
            return
        path = _claim_or_exit(str(config.hydra.run.dir), config.hydra.output_subdir or ".hydra")
        with read_write(config.hydra):
            config.hydra.run.dir = str(path)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claim the directory of a sweep; its jobs have folders of their own in it."""
        path = _claim_or_exit(str(config.hydra.sweep.dir), "multirun.yaml")
        with read_write(config.hydra), open_dict(config.hydra):
            config.hydra.sweep.dir = str(path)
            # Each job is composed anew from these overrides, and has to arrive at the same directory.
            quoted = QuotedString(str(path).replace("$", "\\$"), Quote.single).with_quotes()
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quoted}")


def _claim_or_exit(wanted: str, marker: str) -> Path:
    try:
        return claim(Path(wanted), marker)
    except OSError as error:
        # Hydra turns any Exception of a callback into a warning and would run the job all the same.
        sys.stderr.write(f"The folder '{wanted}' cannot be made: {error}. Choose another output_dir.\n")
        raise SystemExit(2) from error
