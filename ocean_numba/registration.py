"""Which environments there are: every module that is not the engine's, found by its file."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium

_NOT_ENVIRONMENTS = {"registration", "adapters", "parallel"}
PACKAGES = ("", "sanity")
"""The folders with environments: the suite itself, and those that test a learner."""
_SEVERAL_AGENTS = {"Multiagent"}
"""Worlds that Gymnasium has no word for; `ocean_numba.adapters.make_parallel_env` makes them."""


@lru_cache
def names_in(package: str) -> dict[str, str]:
    """Environments in a folder, class by module in alphabetical order: {"tower_climb": "TowerClimb", …}."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent / package)])
    names = [m.name for m in modules if not m.ispkg and m.name not in _NOT_ENVIRONMENTS]
    return {name: "".join(word.capitalize() for word in name.split("_")) for name in names}


def class_of(name: str, package: str = "") -> Any:
    """The class `name` in a folder, or None; only its own module is imported."""
    for module, class_name in names_in(package).items():
        if class_name == name:
            return getattr(import_module(".".join(filter(None, ("ocean_numba", package, module)))), name)
    return None


def find_class(name: str) -> Any:
    """The class `name` in any folder.

    Raises:
        ValueError: there is none; the message has all names.
    """
    for package in PACKAGES:
        if (found := class_of(name, package)) is not None:
            return found
    there = [class_name for package in PACKAGES for class_name in names_in(package).values()]
    raise ValueError(f"there is no environment {name!r}; there are {', '.join(there)}")


def register() -> None:
    """Make every environment of one agent known to Gymnasium, as ``ocean/<Class>-v0``."""
    for package in PACKAGES:
        for class_name in names_in(package).values():
            name = f"ocean/{class_name}-v0"
            if class_name not in _SEVERAL_AGENTS and name not in gymnasium.registry:
                gymnasium.register(
                    id=name,
                    entry_point="ocean_numba.adapters:make_env",
                    vector_entry_point="ocean_numba.adapters:make_vector_env",
                    kwargs={"name": class_name},
                )
