"""Where the YAML lives, in a wheel, an editable install and a plain checkout alike."""

from __future__ import annotations

from pathlib import Path

import puffertoolkit


def conf_dir() -> Path:
    """Return the absolute folder of `config.yaml`.

    A wheel carries it inside the package; in a checkout, installed or not, it stands beside the package.

    Raises:
        FileNotFoundError: neither folder is there: the installation is broken.
    """
    package = Path(puffertoolkit.__file__).resolve().parent
    candidates = (package / "conf", package.parent / "conf")
    for folder in candidates:
        if (folder / "config.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no config.yaml in {candidates[0]} or {candidates[1]}; reinstall puffertoolkit")
