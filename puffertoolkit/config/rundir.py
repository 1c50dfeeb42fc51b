"""No two jobs write the same files: what Hydra is to write into is claimed, atomically, before it does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write

from puffertoolkit.config.saved import override_value


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


def claim_subfolder(run: Path, name: str) -> str:
    """Make the folder `name`/resumed_1, `name`/resumed_2, ... of a run: the first that nobody else has.

    Raises:
        OSError: it cannot be made there.
    """
    for number in count(1):
        subfolder = f"{name}/resumed_{number}"
        try:
            (run / subfolder).mkdir(parents=True)
        except FileExistsError:
            continue
        return subfolder
    raise AssertionError("count() ends")


class ClaimRunDirectory(Callback):
    """Hydra calls this when jobs really start, so that `--help` or `--cfg` leave no directory behind."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claim the directory of a single run; where a run goes on in its own, a folder for its config."""
        wanted, subfolder = str(config.hydra.run.dir), config.hydra.output_subdir or ".hydra"
        with _or_exit(wanted), read_write(config.hydra):
            if config.resume:
                config.hydra.output_subdir = claim_subfolder(Path(wanted), subfolder)
            else:
                config.hydra.run.dir = str(claim(Path(wanted), subfolder))

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Claim the directory of a sweep; its jobs have folders of their own in it."""
        wanted = str(config.hydra.sweep.dir)
        with _or_exit(wanted):
            path = claim(Path(wanted), "multirun.yaml")
        with read_write(config.hydra), open_dict(config.hydra):
            config.hydra.sweep.dir = str(path)
            # Each job is composed anew from these overrides, and has to arrive at the same directory.
            quoted = override_value(str(path))
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quoted}")


@contextmanager
def _or_exit(wanted: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Hydra turns any Exception of a callback into a warning and would run the job all the same.
        sys.stderr.write(f"The folder '{wanted}' cannot be made: {error}. Choose another output_dir.\n")
        raise SystemExit(2) from error
