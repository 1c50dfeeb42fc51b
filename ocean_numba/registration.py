"""Which environments there are: every module of this package that is not the engine's, found by its file."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from pathlib import Path

import gymnasium

_NOT_ENVIRONMENTS = {"registration", "adapters", "parallel"}


@lru_cache
def environment_names() -> tuple[str, ...]:
    """Module names of the environments, in alphabetical order: ("breakout", "cartpole", …)."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    return tuple(m.name for m in modules if not m.ispkg and m.name not in _NOT_ENVIRONMENTS)


def class_name(module: str) -> str:
    """The class in an environment's module: "tower_climb" -> "TowerClimb"."""
    return "".join(word.capitalize() for word in module.split("_"))


def register() -> None:
    """Make every environment known to Gymnasium, as ``ocean/<Class>-v0``."""
    for module in environment_names():
        name = f"ocean/{class_name(module)}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point="ocean_numba.adapters:make_env",
                vector_entry_point="ocean_numba.adapters:make_vector_env",
                kwargs={"name": class_name(module)},
            )
