"""The serial backend: environments of one copy each, stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from ocean_numba.engine.random import spawn_seeds
from puffertoolkit.errors import UserError
from puffertoolkit.vector.base import BUFFERS, Buffers, Rows, Vector


class Serial(Vector):
    """`num_envs` environments in a row; each is a Gymnasium environment or a small vector of its own."""

    def __init__(self, make_env: Callable[..., Any], num_envs: int) -> None:
        self.envs = [_as_rows(make_env()) for _ in range(num_envs)]
        first = self.envs[0]
        self.rows_each = first.num_agents
        self.allocate_buffers(
            num_envs * self.rows_each, first.single_observation_space, first.single_action_space
        )

    def reset(self, seed: int) -> None:
        """Begin new episodes; environment i gets seed i of those that `seed` spawns."""
        for i, (env, own_seed) in enumerate(zip(self.envs, spawn_seeds(seed, len(self.envs)), strict=True)):
            env.reset([int(own_seed)])
            self._take(i, env)

    def step(self, actions: npt.NDArray[Any]) -> None:
        """Step the environments in order."""
        for i, env in enumerate(self.envs):
            env.step(actions[i * self.rows_each : (i + 1) * self.rows_each])
            self._take(i, env)

    def _take(self, i: int, env: Any) -> None:
        rows = slice(i * self.rows_each, (i + 1) * self.rows_each)
        for name in BUFFERS:
            getattr(self, name)[rows] = getattr(env, name)

    def drain_rows(self) -> Rows:
        """The statistics of all environments, one after the other."""
        counts, sums = zip(*(env.drain_rows() for env in self.envs), strict=True)
        return np.concatenate(counts), {name: np.concatenate([s[name] for s in sums]) for name in sums[0]}

    def state_dict(self) -> dict[str, Any] | None:
        """The states of all environments, if every one can be saved."""
        if not all(hasattr(env, "state_dict") for env in self.envs):
            return None
        return {str(i): env.state_dict() for i, env in enumerate(self.envs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Give every environment its own."""
        if len(state) != len(self.envs):
            raise ValueError(f"the state is that of {len(state)} environments; here are {len(self.envs)}")
        for i, env in enumerate(self.envs):
            env.load_state_dict(state[str(i)])
            self._take(i, env)

    @property
    def frames_per_second(self) -> float:
        """The environments' own, if they say so."""
        return float(getattr(self.envs[0], "frames_per_second", super().frames_per_second))

    @property
    def kernels_are_cached(self) -> bool:
        """False if the environments' kernels are still to be compiled."""
        return bool(getattr(self.envs[0], "kernels_are_cached", True))

    def render(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """Environment `index` as an RGB image."""
        image: npt.NDArray[np.uint8] = self.envs[index].render()
        return image

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()


def _as_rows(env: Any) -> Any:
    if all(hasattr(env, name) for name in BUFFERS):
        return env
    if isinstance(env, gymnasium.Env):
        return GymnasiumRow(env)
    raise UserError(
        f"{type(env).__name__} is neither a gymnasium.Env nor a vector of agents with the buffers "
        f"{', '.join(BUFFERS)}; wrap it in one of the two."
    )


class GymnasiumRow(Buffers):
    """One Gymnasium environment as a vector of one agent, with same-step reset.

    Score is the episode's return: Gymnasium knows no other.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        observation, action = env.observation_space, env.action_space
        for space, kinds, what in (
            (observation, (Box, Discrete, MultiDiscrete, MultiBinary), "observation"),
            (action, (Box, Discrete, MultiDiscrete), "action"),
        ):
            if not isinstance(space, kinds):
                names = ", ".join(kind.__name__ for kind in kinds)
                raise UserError(
                    f"{env} has the {what} space {space}, which is not supported; supported are {names}. "
                    "A Gymnasium wrapper such as FlattenObservation can turn it into one of them."
                )
        self.env = env
        self.allocate_buffers(1, observation, action)
        # Policies count actions from 0; the environment gets them as its space does.
        self._start = action.start if isinstance(action, (Discrete, MultiDiscrete)) else 0
        self._return, self._length = 0.0, 0
        self._sums = np.zeros(3)  # episodes, returns, lengths since the last drain

    def reset(self, seeds: list[int]) -> None:
        """Begin a new episode with the one seed of `seeds`."""
        self._begin(self.env.reset(seed=seeds[0])[0])
        self.rewards[0], self.terminations[0], self.truncations[0] = 0, False, False
        self._sums[:] = 0

    def _begin(self, observation: Any) -> None:
        self.observations[0] = observation
        self._return, self._length = 0.0, 0

    def step(self, actions: npt.NDArray[Any]) -> None:
        """Step with the one row of `actions`; an end begins the next episode at once."""
        action = actions[0] + self._start
        observation, reward, terminated, truncated, _ = self.env.step(action)
        self.rewards[0] = reward
        self.terminations[0] = terminated
        self.truncations[0] = truncated and not terminated
        self._return += float(reward)
        self._length += 1
        if not (terminated or truncated):
            self.observations[0] = observation
            return
        self.final_observations[0] = observation
        self._sums += (1, self._return, self._length)
        self._begin(self.env.reset()[0])

    def drain_rows(self) -> Rows:
        """Number of episodes that ended since the last call, and sums of their statistics."""
        counts, sums = self._sums[:1], self._sums[1:].copy()
        counts = counts.copy()
        self._sums[:] = 0
        return counts, {"episode_return": sums[:1], "episode_length": sums[1:], "score": sums[:1].copy()}

    @property
    def frames_per_second(self) -> float:
        """As the environment's metadata says."""
        return float(self.env.metadata.get("render_fps", 30))

    def render(self) -> Any:
        """What the environment renders; its render_mode must be rgb_array."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
