"""Vectors of agents: one contract, several backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from puffertoolkit.errors import UserError
from puffertoolkit.vector.base import Vector
from puffertoolkit.vector.native import Native
from puffertoolkit.vector.serial import GymnasiumRow, Serial

BACKENDS = ("native", "serial")


def make_vector(backend: str, make_env: Callable[..., Any], num_envs: int, num_threads: int = 1) -> Vector:
    """Make `num_envs` copies of an environment step together.

    Args:
        backend: "native" (the environment is a vector) or "serial" (one after the other).
        make_env: builds the environment; native calls it with num_envs and num_threads.
        num_envs: copies of the environment.
        num_threads: threads of native kernels; results do not depend on it.
    """
    if backend == "native":
        return Native(make_env, num_envs, num_threads)
    if backend == "serial":
        return Serial(make_env, num_envs)
    raise UserError(f"no vec.backend {backend!r}; choose one of {', '.join(BACKENDS)}")


__all__ = ["BACKENDS", "GymnasiumRow", "Native", "Serial", "Vector", "make_vector"]
