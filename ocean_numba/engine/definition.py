"""What makes an environment: its types, and kernels over one of its worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gymnasium import Space

from ocean_numba.engine.canvas import Canvas
from ocean_numba.engine.parameters import Parameters

Fields = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Definition:
    r"""What an author writes: scalar functions over one environment, and their types.

    Attributes:
        params: subclass of ``Parameters``.
        state: ``state(params)`` -> NumPy field list of one environment's state; each function gets one such
            record, with the engine's own fields (``tick``, ``episode_return``, the random stream) beside it.
        spaces: ``spaces(params)`` -> (observation space: Box, action space: Discrete, MultiDiscrete or Box).
        reset: kernel ``reset(state, params, observation)``: begin an episode; write the whole observation.
        step: kernel ``step(state, params, action, observation)`` -> (reward, terminated, truncated); write
            what changed in the observation. ``action`` is an array (k,): ``action[0]`` for Discrete.
        statistics: kernel ``statistics(state, params)`` -> tuple of floats, one per name in
            ``statistic_names``, called when an episode ends.
        draw: ``draw(state, params)`` -> Canvas.
        frames_per_second: ``frames_per_second(params)`` -> steps per second of real time, for videos.
        statistic_names: "score" and "perf" (0 … 1), then whatever else is worth knowing of an episode.
        agents: None for one agent; else ``agents(params)`` -> A, the number of agents who share a world. The
            kernels are then

            ``reset(state, params, observations, masks)``: begin the world anew; write every observation, of
            (A, \*obs). ``masks`` (A,) bool are true; false for a row in which nobody lives yet.

            ``step(state, params, actions, observations, rewards, terminations, masks)`` -> (terminated,
            truncated) of the whole world. ``actions`` are (A, k); those of dead agents mean nothing.
            ``rewards`` and ``terminations`` (A,) come as zeros. An agent whose own episode ends has its
            termination set, and either begins another at once or has its mask cleared: it is dead until the
            mask is set again, or the world ends.

            ``statistics(state, params, agent)``: called when an episode of that agent ends.
    """

    params: type[Parameters]
    state: Callable[[Any], Fields]
    spaces: Callable[[Any], tuple[Space[Any], Space[Any]]]
    reset: Callable[..., None]
    step: Callable[..., tuple[float, bool, bool]]
    statistics: Callable[..., tuple[float, ...]]
    draw: Callable[[Any, Any], Canvas]
    frames_per_second: Callable[[Any], float]
    statistic_names: tuple[str, ...] = ("score", "perf")
    agents: Callable[[Any], int] | None = None
