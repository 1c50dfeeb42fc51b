"""Numba-JIT vectorised environments: a re-creation of PufferLib's Ocean suite in Python.

Each environment is one file that teaches how it works; its class is the file's name in CamelCase::

    from ocean_numba import Breakout
    env = Breakout(num_envs=1024, frameskip=4)
    env.reset(seed=1)
    env.step(actions)          # fills env.observations, env.rewards, … in place

Importing this package also makes them known to ``gymnasium.make("ocean/Breakout-v0")`` and
``gymnasium.make_vec``; ``gymnasium.make("ocean_numba:ocean/Breakout-v0")`` imports it by itself.
"""

from __future__ import annotations

from typing import Any

from ocean_numba.registration import class_of, names_in, register

register()


def __getattr__(name: str) -> Any:
    found = class_of(name)
    if found is None:
        raise AttributeError(f"ocean_numba has no environment {name!r}; it has {', '.join(__dir__())}")
    return found


def __dir__() -> list[str]:
    return list(names_in("").values())
