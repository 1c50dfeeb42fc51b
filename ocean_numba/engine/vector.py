"""The engine: many copies of one environment, stepped in place by one compiled kernel."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, ClassVar

import numba
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from ocean_numba.engine import random, threads
from ocean_numba.engine.canvas import Canvas
from ocean_numba.engine.definition import Definition, Fields
from ocean_numba.engine.kernels import (
    Kernel,
    is_valid_continuous,
    is_valid_discrete,
    reset_kernel,
    shared_kernel,
    step_kernel,
)
from ocean_numba.engine.parameters import Parameters
from ocean_numba.engine.records import Record, Records
from ocean_numba.engine.worlds import world_reset_kernel, world_step_kernel

# Kept by the engine in every state: `tick` is the number of the step being made (1 for the first of an
# episode).
ENGINE_FIELDS: Fields = [*random.FIELDS, ("episode_return", "f8"), ("tick", "i4")]


class OceanVector:
    """N copies of an environment in preallocated buffers, which every call fills in place.

    ========================  ================  ==========================================================
    buffer                    shape, dtype      holds
    ========================  ================  ==========================================================
    ``observations``          (N, *obs)         the observation to act on now: after an end, the first of
                                                the next episode (same-step reset)
    ``rewards``               (N,) float32      of the step just taken
    ``terminations``          (N,) bool         the episode ended by its own rules
    ``truncations``           (N,) bool         the episode was cut by a time limit; never both
    ``final_observations``    (N, *obs)         last observation of an episode; valid where one ended now
    ``masks``                 (N,) bool         false where a row holds no living agent
    ========================  ================  ==========================================================

    Where several agents share a world, N is the number of agents of all worlds; the rows of one world are
    neighbours.

    Args:
        num_envs: copies of the environment, at least 1.
        num_threads: threads that share a step; the results do not depend on it.
        params: the environment's own parameters, see its ``Params``.

    Raises:
        ValueError: a parameter is out of its range; the message names it.
        TypeError: an unknown parameter.
    """

    definition: ClassVar[Definition]
    Params: ClassVar[type[Parameters]]

    def __init_subclass__(cls) -> None:
        cls.Params = cls.definition.params
        own = inspect.signature(OceanVector.__init__).parameters
        theirs = inspect.signature(cls.Params).parameters.values()
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [own["num_envs"], own["num_threads"], *(p.replace(kind=p.KEYWORD_ONLY) for p in theirs)]
        )

    def __init__(self, num_envs: int = 1, *, num_threads: int = 1, **params: Any) -> None:
        for name, value in (("num_envs", num_envs), ("num_threads", num_threads)):
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name}={value!r} is not valid: it takes an integer of at least 1")
        self.params = self._checked(params)
        self.num_envs = int(num_envs)
        self.agents_each = 1 if self.definition.agents is None else self.definition.agents(self.params)
        self.num_agents = self.num_envs * self.agents_each
        self.num_threads = min(int(num_threads), threads.available())
        spaces = self.definition.spaces(self.params)
        self.single_observation_space, self.single_action_space = spaces
        self._allocate()

    @classmethod
    def _checked(cls, params: dict[str, Any]) -> Parameters:
        known = inspect.signature(cls.Params).parameters
        unknown = [name for name in params if name not in known]
        if unknown:
            raise TypeError(
                f"{cls.__name__} has no parameter {unknown[0]!r}; it has {', '.join(known) or 'none'}"
            )
        return cls.Params(**params)

    def _allocate(self) -> None:
        n, space = self.num_agents, self.single_observation_space
        shape = (n, *(space.shape or ()))
        self.observations = np.zeros(shape, space.dtype)
        self.final_observations = np.zeros(shape, space.dtype)
        self.rewards = np.zeros(n, np.float32)
        self.terminations = np.zeros(n, np.bool_)
        self.truncations = np.zeros(n, np.bool_)
        self.masks = np.ones(n, np.bool_)
        fields = ENGINE_FIELDS + self.definition.state(self.params)
        self._states = np.zeros(self.num_envs, np.dtype(fields, align=True))
        self._params = self.params.as_record()
        # Episodes, sum of returns, sum of lengths, then the author's statistics, per environment: summed in a
        # fixed order when drained, so that the number of threads cannot change a digit.
        self._sums = np.zeros((n, 3 + len(self.definition.statistic_names)))
        # Of the episodes under way, where each agent has its own.
        self._returns, self._ticks = np.zeros(n), np.zeros(n, np.int32)
        # Compiled kernels read structured arrays themselves; plain Python needs them wrapped.
        wrap = Records if numba.config.DISABLE_JIT else lambda array: array
        self._kernel_states, self._kernel_params = wrap(self._states), wrap(self._params)

    @cached_property
    def _reset(self) -> Kernel:
        template = reset_kernel if self.definition.agents is None else world_reset_kernel
        return shared_kernel(template, type(self).__name__, self.num_threads > 1, reset=self.definition.reset)

    @cached_property
    def _step(self) -> Kernel:
        d = self.definition
        functions = {"reset": d.reset, "step": d.step, "statistics": d.statistics}
        check = is_valid_continuous if isinstance(self.single_action_space, Box) else is_valid_discrete
        template = step_kernel if d.agents is None else world_step_kernel
        return shared_kernel(template, type(self).__name__, self.num_threads > 1, **functions, is_valid=check)

    @cached_property
    def _reset_buffers(self) -> tuple[Any, ...]:
        """What the reset kernel gets, but for which environments to reset."""
        head = (self._kernel_states, self._kernel_params)
        if self.definition.agents is None:
            return (*head, self.observations)
        return (*head, *map(self._by_world, (self.observations, self.masks, self._returns, self._ticks)))

    @cached_property
    def _step_buffers(self) -> tuple[Any, ...]:
        """What the step kernel gets behind the actions."""
        outputs = (self.rewards, self.terminations, self.truncations, self.final_observations)
        if self.definition.agents is None:
            return (self._action_limits, self.observations, *outputs, self._sums)
        arrays = (self.observations, *outputs, self.masks, self._returns, self._ticks, self._sums)
        return (self._action_limits, *map(self._by_world, arrays))

    def _by_world(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(N, ...) as a view (num_envs, agents_each, ...)."""
        return array.reshape(self.num_envs, self.agents_each, *array.shape[1:])

    @cached_property
    def _action_limits(self) -> npt.NDArray[np.int64]:
        """Per component: the number of choices (discrete), or 0 (continuous; authors clip)."""
        space = self.single_action_space
        if isinstance(space, Discrete):
            return np.array([space.n], np.int64)
        if isinstance(space, MultiDiscrete):
            return np.asarray(space.nvec, np.int64).reshape(-1)
        return np.zeros(int(np.prod(space.shape or (1,))), np.int64)

    @property
    def kernels_are_cached(self) -> bool:
        """False if the first reset and step will compile (some seconds) rather than load."""
        return self._reset.is_cached and self._step.is_cached

    def reset(self, seed: int | Sequence[int] | npt.NDArray[np.uint64] | None = None) -> None:
        """Begin new episodes everywhere and clear rewards, flags and statistics.

        Args:
            seed: one seed for all (environment i then depends on it and i alone), or one per environment.
                None goes on with the random streams as they are; the first reset then draws a seed.
        """
        if seed is None and not self._states["rng_gamma"].any():
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        seeds = random.spawn_seeds(seed, self.num_envs) if isinstance(seed, (int, np.integer)) else seed
        self.rewards[:] = 0
        self.terminations[:] = False
        self.truncations[:] = False
        self._sums[:] = 0
        self.begin_episodes(np.ones(self.num_envs, np.bool_), seeds)

    def begin_episodes(
        self, chosen: npt.NDArray[np.bool_], seeds: Sequence[int] | npt.NDArray[np.uint64] | None = None
    ) -> None:
        """Begin a new episode in every environment i where chosen[i] (N,) bool; the others go on.

        Args:
            chosen: (num_envs,) bool.
            seeds: (num_envs,) numbers below 2**64, where the random streams of the chosen ones start anew;
                None goes on with the streams.
        """
        if seeds is not None:
            starts = np.asarray(seeds, np.uint64).reshape(self.num_envs)
            self._states[chosen] = np.zeros((), self._states.dtype)
            random.start_streams(self._states, starts, chosen)
        with self._running():
            self._reset.call(*self._reset_buffers, chosen)

    def step(self, actions: npt.ArrayLike) -> None:
        """One step of every environment.

        Args:
            actions: integers (N,) for Discrete, (N, k) for MultiDiscrete; floats (N, *shape) for Box.

        Raises:
            ValueError: an action is not in the action space; it is named, and nothing was stepped.
        """
        rows = self._action_rows(actions)
        with self._running():
            given = rows if self.definition.agents is None else self._by_world(rows)
            bad = self._step.call(self._kernel_states, self._kernel_params, given, *self._step_buffers)
        if bad >= 0:
            action = rows[bad].tolist() if rows.shape[1] > 1 else rows[bad, 0].item()
            who = "environment" if self.definition.agents is None else "agent"
            raise ValueError(f"action {action} of {who} {bad} is not in {self.single_action_space}")

    def _action_rows(self, actions: npt.ArrayLike) -> npt.NDArray[Any]:
        given = np.asarray(actions)
        space, count = self.single_action_space, len(self._action_limits)
        continuous = isinstance(space, Box)
        if given.size != self.num_agents * count or given.shape[:1] != (self.num_agents,):
            wanted = (self.num_agents, *(space.shape or ()))
            raise ValueError(f"actions have shape {given.shape}; {self.num_agents} of {space} take {wanted}")
        if given.dtype.kind not in ("iuf" if continuous else "iu"):
            raise ValueError(
                f"actions are {given.dtype}; {space} takes {'floats' if continuous else 'integers'}"
            )
        wanted_dtype = np.float32 if continuous else np.int64
        rows = np.ascontiguousarray(given, wanted_dtype).reshape(self.num_agents, count)
        # Numba would compile again for a read-only array.
        return rows if rows.flags.writeable else rows.copy()

    def _running(self) -> AbstractContextManager[Any]:
        if numba.config.DISABLE_JIT:
            return np.errstate(all="ignore")  # integers wrap around and divisions by zero go on, as compiled
        if self.num_threads > 1:
            threads.use(self.num_threads)
        return _NOTHING

    def drain(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, and their number as "episodes"."""
        counts, sums = self.drain_rows()
        episodes = float(counts.sum())
        if episodes == 0:
            return {"episodes": 0.0}
        return {"episodes": episodes, **{name: float(row.sum()) / episodes for name, row in sums.items()}}

    def drain_rows(self) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.float64]]]:
        """As `drain`, row by row: the number of episodes (N,), and for each statistic their sums (N,)."""
        columns = self._sums.T.copy()
        self._sums[:] = 0
        names = ("episode_return", "episode_length", *self.definition.statistic_names)
        return columns[0], dict(zip(names, columns[1:], strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step and the next `drain` depend on, as arrays of their own."""
        state = {name: getattr(self, name).copy() for name in _SAVED}
        return {"layout": self._layout, "states": self._states.view(np.uint8).copy(), **state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the vector was that gave `state`; the buffers stay the same arrays.

        Raises:
            ValueError: it comes from another environment, other parameters or another number of them.
        """
        if state["layout"] != self._layout:
            raise ValueError(f"the state is that of {state['layout']}; this is {self._layout}")
        self._states.view(np.uint8)[:] = state["states"]
        for name in _SAVED:
            getattr(self, name)[:] = state[name]

    @property
    def _layout(self) -> str:
        fields = ", ".join(f"{name} {field[0]}" for name, field in (self._states.dtype.fields or {}).items())
        return f"{self.num_envs} x {type(self).__name__}, {self.params}, of {fields}"

    @property
    def frames_per_second(self) -> float:
        """Steps per second of real time, for videos."""
        return float(self.definition.frames_per_second(self.params))

    def canvas(self, index: int = 0) -> Canvas:
        """A drawing of environment `index`."""
        return self.definition.draw(Record(self._states[index]), self.params)

    def render(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """Environment `index` as an RGB image, (height, width, 3) uint8."""
        return self.canvas(index).image()

    def render_text(self, index: int = 0, columns: int = 64, color: bool = True) -> str:
        """Environment `index` as lines of text: half blocks in 24-bit colour, or plain characters."""
        return self.canvas(index).text_image(columns, color)

    def close(self) -> None:
        """Nothing to release; here so that every vector can be closed."""


_NOTHING = nullcontext()
_SAVED = (
    "observations",
    "rewards",
    "terminations",
    "truncations",
    "final_observations",
    "masks",
    "_sums",
    "_returns",
    "_ticks",
)
