"""What a job can do; each mode is a module here with `run(cfg, run_dir)`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig


def run(cfg: DictConfig) -> Any:
    """Do what `cfg.mode` names, in the run directory that Hydra made for this job.

    Only the module of that mode is imported: Torch stays out of a process that does not need it.

    Returns:
        What the mode returns: an exit status, or a dict of results with the most telling ones first.
    """
    mode = import_module(f"puffertoolkit.modes.{cfg.mode}")
    return mode.run(cfg, Path(HydraConfig.get().runtime.output_dir))
