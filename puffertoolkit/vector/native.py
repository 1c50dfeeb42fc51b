"""The native backend: the environment is itself a vector, and its buffers are the backend's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from puffertoolkit.errors import UserError
from puffertoolkit.vector.base import BUFFERS, Rows, Vector


class Native(Vector):
    """One environment object that steps `num_envs` copies by itself, as those of ``ocean_numba`` do."""

    def __init__(self, make_env: Callable[..., Any], num_envs: int, num_threads: int = 1) -> None:
        self.env = make_env(num_envs=num_envs, num_threads=num_threads)
        missing = [name for name in BUFFERS if not hasattr(self.env, name)]
        if missing:
            raise UserError(
                f"vec.backend=native needs an environment with the vector buffers; {type(self.env).__name__} "
                f"lacks {', '.join(missing)}. Choose vec=serial for a Gymnasium environment."
            )
        self.share_buffers(self.env)

    def reset(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        self.env.reset(seed)

    def step(self, actions: npt.NDArray[Any]) -> None:
        """Step every agent in place."""
        self.env.step(actions)

    def drain_rows(self) -> Rows:
        """The environment's own statistics."""
        rows: Rows = self.env.drain_rows()
        return rows

    def state_dict(self) -> dict[str, Any] | None:
        """The environment's own, if it has one."""
        state: dict[str, Any] | None = getattr(self.env, "state_dict", _nothing)()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hand the state to the environment."""
        self.env.load_state_dict(state)

    @property
    def frames_per_second(self) -> float:
        """The environment's own, if it says so."""
        return float(getattr(self.env, "frames_per_second", super().frames_per_second))

    @property
    def kernels_are_cached(self) -> bool:
        """False if the environment's kernels are still to be compiled."""
        return bool(getattr(self.env, "kernels_are_cached", True))

    def render(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """Environment `index` as an RGB image."""
        image: npt.NDArray[np.uint8] = self.env.render(index)
        return image

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _nothing() -> None:
    return None
