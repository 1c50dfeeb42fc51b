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

from importlib import import_module
from typing import Any

from ocean_numba.registration import class_name, environment_names, register

register()


def __getattr__(name: str) -> Any:
    for module in environment_names():
        if class_name(module) == name:
            return getattr(import_module(f"ocean_numba.{module}"), name)
    raise AttributeError(f"ocean_numba has no environment {name!r}; it has {', '.join(__dir__())}")


def __dir__() -> list[str]:
    return [class_name(module) for module in environment_names()]
