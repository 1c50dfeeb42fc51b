"""The environments as Gymnasium knows them.

``gymnasium.make("ocean/Breakout-v0", frameskip=2)`` and ``gymnasium.make_vec("ocean/Breakout-v0", 8)`` come
here. The names are known once ``ocean_numba`` is imported, which "ocean_numba:ocean/Breakout-v0" does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ocean_numba.engine import OceanVector
from ocean_numba.registration import find_class

METADATA = {"render_modes": ["rgb_array", "ansi"]}

Array = npt.NDArray[Any]
Info = dict[str, Any]


def make_env(name: str, render_mode: str | None = None, **params: Any) -> OceanEnv:
    """One environment.

    Args:
        name: its class: "Breakout".
        render_mode: None, "rgb_array" or "ansi" (text in colour).
        params: the environment's own parameters.

    Raises:
        ValueError: an unknown name or mode, or a parameter out of its range.
        TypeError: an unknown parameter.
    """
    return OceanEnv(_class(name)(num_envs=1, **params), render_mode)


def make_vector_env(
    name: str,
    num_envs: int = 1,
    render_mode: str | None = None,
    copy: bool = True,
    num_threads: int = 1,
    **params: Any,
) -> OceanVectorEnv:
    """Many environments in one.

    Args:
        name: their class: "Breakout".
        num_envs: how many.
        render_mode: None, "rgb_array" or "ansi" (text in colour).
        copy: False hands out the engine's own arrays, which the next step overwrites.
        num_threads: threads that share a step.
        params: the environment's own parameters.

    Raises:
        ValueError: an unknown name or mode, or a parameter out of its range.
        TypeError: an unknown parameter.
    """
    engine = _class(name)(num_envs=num_envs, num_threads=num_threads, **params)
    return OceanVectorEnv(engine, render_mode, copy)


def make_parallel_env(name: str, render_mode: str | None = None, **params: Any) -> Any:
    """One world of an environment in which several agents live, as a PettingZoo ParallelEnv.

    Args:
        name: its class: "Multiagent".
        render_mode: None, "rgb_array" or "ansi" (text in colour).
        params: the environment's own parameters.

    Raises:
        ValueError: an unknown name or mode, or a parameter out of its range.
        TypeError: an unknown parameter.
    """
    from ocean_numba.parallel import OceanParallelEnv

    return OceanParallelEnv(_class(name)(num_envs=1, **params), _checked_mode(render_mode))


# Gymnasium reads the modes where it finds the function, and adds "human" and "rgb_array_list" to them.
make_env.metadata = METADATA  # type: ignore[attr-defined]


class OceanEnv(gymnasium.Env[Array, Any]):  # type: ignore[misc]
    """One environment; at the end of an episode ``info`` holds its statistics.

    The engine begins the next episode in the step that ends one: `reset` without a seed then returns that
    one, and `render` shows it.

    Args:
        engine: with ``num_envs=1``.
        render_mode: None, "rgb_array" or "ansi".
    """

    def __init__(self, engine: OceanVector, render_mode: str | None = None) -> None:
        self.engine = _of_one_agent(engine)
        self.render_mode = _checked_mode(render_mode)
        self.metadata = {**METADATA, "render_fps": engine.frames_per_second}
        self.observation_space = engine.single_observation_space
        self.action_space = engine.single_action_space
        self._began = False  # an episode was begun by `reset`, and is not over
        self._next_is_ready = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        if seed is not None or not (self._began or self._next_is_ready):
            self.engine.reset(_seeds(self.np_random_seed if seed is None else seed, 1))
        elif not self._next_is_ready:
            self.engine.begin_episodes(np.ones(1, np.bool_))
        self._began, self._next_is_ready = True, False
        return self.engine.observations[0].copy(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Observation, reward, terminated, truncated, and the episode's statistics if it ended.

        Raises:
            ResetNeeded: no episode was begun since the last one ended.
            ValueError: the action is not in the action space.
        """
        if not self._began:
            raise ResetNeeded("call reset() before the first step, and after the step that ends an episode")
        engine = self.engine
        engine.step(np.asarray(action)[np.newaxis])
        terminated, truncated = bool(engine.terminations[0]), bool(engine.truncations[0])
        observation, info = engine.observations, {}
        if terminated or truncated:
            self._began, self._next_is_ready = False, True
            observation = engine.final_observations
            info = {name: float(sums[0]) for name, sums in engine.drain_rows()[1].items()}
        return observation[0].copy(), float(engine.rewards[0]), terminated, truncated, info

    def render(self) -> Any:
        """The environment now, as `render_mode` says: (height, width, 3) uint8, or text."""
        return _picture(self.engine, 0, self.render_mode)

    def close(self) -> None:
        """Release what the engine holds."""
        self.engine.close()


class OceanVectorEnv(VectorEnv[Array, Array, Array]):  # type: ignore[misc]
    """Environments that begin the next episode in the step that ends one (``AutoresetMode.SAME_STEP``).

    Where an episode ended, ``infos["final_obs"]`` has its last observation and ``infos["final_info"]`` its
    statistics, with masks as in Gymnasium's own vectors. Rewards are float32.

    Args:
        engine: the environments.
        render_mode: None, "rgb_array" or "ansi".
        copy: False hands out the engine's own arrays, which the next step overwrites.
    """

    def __init__(self, engine: OceanVector, render_mode: str | None = None, copy: bool = True) -> None:
        self.engine = _of_one_agent(engine)
        self.num_envs = engine.num_envs
        self.render_mode = _checked_mode(render_mode)
        self.copy = copy
        self.metadata = {
            **METADATA,
            "render_fps": engine.frames_per_second,
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        self.single_observation_space = engine.single_observation_space
        self.single_action_space = engine.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._began = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Array, Info]:
        """Begin new episodes.

        Args:
            seed: as in Gymnasium's own vectors: an integer gives environment i the seed `seed` + i; a list
                has one for each, in which None goes on with the random stream as it is.
            options: "reset_mask", (N,) bool: where it is false, the environment goes on.
        """
        super().reset(seed=int(seed) if isinstance(seed, (int, np.integer)) else None)
        mask = self._checked_mask(options)
        if not self._began:
            # Streams that the seed leaves open must still start somewhere.
            self.engine.reset(_seeds(self.np_random_seed, self.num_envs))
        if isinstance(seed, (int, np.integer)):
            self.engine.begin_episodes(mask, _seeds(seed, self.num_envs))
        elif seed is not None:
            self._begin_seeded(mask, seed)
        elif self._began:
            self.engine.begin_episodes(mask)
        self._began = True
        return self._out(self.engine.observations), {}

    def _begin_seeded(self, mask: npt.NDArray[np.bool_], seed: Sequence[int | None]) -> None:
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds were given for {self.num_envs} environments")
        seeded = np.array([s is not None for s in seed])
        self.engine.begin_episodes(mask & ~seeded)
        seeds = [_seeds(0 if s is None else s, 1)[0] for s in seed]
        self.engine.begin_episodes(mask & seeded, np.array(seeds, np.uint64))

    def _checked_mask(self, options: Info | None) -> npt.NDArray[np.bool_]:
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(
                f"options['reset_mask'] must be a boolean array ({self.num_envs},), not {mask!r}"
            )
        if not mask.any():
            raise ValueError("options['reset_mask'] must be true somewhere")
        return mask

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Info]:
        """Observations, rewards, terminations, truncations, and what is to know of the episodes that ended.

        Raises:
            ResetNeeded: `reset` was not called yet.
            ValueError: an action is not in the action space; it is named, and nothing was stepped.
        """
        if not self._began:
            raise ResetNeeded("call reset() before the first step")
        engine = self.engine
        engine.step(actions)
        ended = engine.terminations | engine.truncations
        return (
            self._out(engine.observations),
            self._out(engine.rewards),
            self._out(engine.terminations),
            self._out(engine.truncations),
            self._final_infos(ended) if ended.any() else {},
        )

    def _final_infos(self, ended: npt.NDArray[np.bool_]) -> Info:
        observations = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            observations[i] = self.engine.final_observations[i].copy()
        statistics: Info = {}
        for name, sums in self.engine.drain_rows()[1].items():
            statistics[name], statistics[f"_{name}"] = sums.copy(), ended.copy()
        return {
            "final_obs": observations,
            "_final_obs": ended,
            "final_info": statistics,
            "_final_info": ended.copy(),
        }

    def _out(self, buffer: Array) -> Array:
        return buffer.copy() if self.copy else buffer

    def render(self) -> Any:
        """A tuple with a picture of each environment, as `render_mode` says."""
        return tuple(_picture(self.engine, i, self.render_mode) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Release what the engine holds."""
        self.engine.close()


def _class(name: str) -> type[OceanVector]:
    found: type[OceanVector] = find_class(name)
    return found


def _of_one_agent(engine: OceanVector) -> OceanVector:
    if engine.definition.agents is not None:
        raise ValueError(
            f"several agents share a world of {type(engine).__name__}, which Gymnasium does not know; "
            "ocean_numba.adapters.make_parallel_env makes a PettingZoo environment of it"
        )
    return engine


def _checked_mode(render_mode: str | None) -> str | None:
    if render_mode is not None and render_mode not in METADATA["render_modes"]:
        modes = ", ".join(METADATA["render_modes"])
        raise ValueError(f"render_mode={render_mode!r} is not valid: it takes None, {modes}")
    return render_mode


def _picture(engine: OceanVector, index: int, render_mode: str | None) -> npt.NDArray[np.uint8] | str:
    if render_mode is None:
        raise ValueError("there is no picture without a render_mode: make the environment with one")
    return engine.render(index) if render_mode == "rgb_array" else engine.render_text(index)


def _seeds(seed: int, n: int) -> npt.NDArray[np.uint64]:
    """Seeds `seed`, `seed` + 1, … (n,) modulo 2**64: those that Gymnasium draws itself are larger."""
    return np.array([(seed + i) % 2**64 for i in range(n)], np.uint64)
