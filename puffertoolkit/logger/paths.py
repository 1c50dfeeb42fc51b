"""Paths and commands as a person would type them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path


def shown_path(path: Path) -> Path:
    """The path as one would type it here: relative to the working directory if it is below it."""
    try:
        return path.absolute().relative_to(Path(os.getcwd()))
    except ValueError:
        return path.absolute()


def evaluate_command(run_dir: Path) -> str:
    """The command that evaluates a run, quoted for Hydra and for the shell."""
    value = str(run_dir)
    if not re.fullmatch(r"[\w./\-]+", value, re.ASCII):
        # Hydra takes a backslash as it stands, unless a quote follows, be it the closing one.
        trailing = value[len(value.rstrip("\\")) :]
        value = "'" + re.sub(r"(\\*)'", r"\1\1\\'", value) + trailing + "'"
    return f"python -m puffertoolkit mode=eval {shlex.quote(f'checkpoint={value}')}"
