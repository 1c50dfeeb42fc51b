"""Tiny environments, each of which tests one ability of a learner and is solved in seconds.

``from ocean_numba.sanity import Bandit``; ``python -m puffertoolkit mode=sanity`` learns them all.
"""

from __future__ import annotations

from typing import Any

from ocean_numba.registration import class_of, names_in

PACKAGE = "sanity"


def __getattr__(name: str) -> Any:
    found = class_of(name, PACKAGE)
    if found is None:
        raise AttributeError(f"ocean_numba.sanity has no environment {name!r}; it has {', '.join(__dir__())}")
    return found


def __dir__() -> list[str]:
    return list(names_in(PACKAGE).values())
