"""Environments in which several agents share a world, as PettingZoo knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import Space
from pettingzoo import ParallelEnv

from ocean_numba.engine import OceanVector

Array = npt.NDArray[Any]
PerAgent = dict[str, Any]


class OceanParallelEnv(ParallelEnv[str, Array, Any]):  # type: ignore[misc]
    """One world; agents are "agent_0", "agent_1", … in the order of their rows.

    PettingZoo's episodes end for good: an agent whose own episode ends leaves, even where the engine would
    begin another for it, and `reset` begins a new world. ``infos`` hold an agent's statistics when it leaves.

    Args:
        engine: with ``num_envs=1``.
        render_mode: None, "rgb_array" or "ansi".
    """

    def __init__(self, engine: OceanVector, render_mode: str | None = None) -> None:
        self.engine = engine
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": ["rgb_array", "ansi"],
            "name": type(engine).__name__.lower(),
            "is_parallelizable": True,
            "render_fps": engine.frames_per_second,
        }
        self.possible_agents = [f"agent_{row}" for row in range(engine.num_agents)]
        self.agents: list[str] = []
        self._rows = {agent: row for row, agent in enumerate(self.possible_agents)}
        self._began = False

    def observation_space(self, agent: str) -> Space[Any]:
        """The same for every agent."""
        return self.engine.single_observation_space

    def action_space(self, agent: str) -> Space[Any]:
        """The same for every agent, but with a sampler of its own."""
        return self.engine.single_action_space

    def reset(self, seed: int | None = None, options: PerAgent | None = None) -> tuple[PerAgent, PerAgent]:
        """Begin a world; there are no options. Without a seed the random stream goes on."""
        if seed is not None or not self._began:
            self.engine.reset(None if seed is None else np.array([seed], np.uint64))
        else:
            self.engine.begin_episodes(np.ones(1, np.bool_))
        self._began = True
        self.agents = [agent for agent, row in self._rows.items() if self.engine.masks[row]]
        return {agent: self._observation(agent) for agent in self.agents}, {
            agent: {} for agent in self.agents
        }

    def step(self, actions: PerAgent) -> tuple[PerAgent, PerAgent, PerAgent, PerAgent, PerAgent]:
        """Observations, rewards, terminations, truncations and infos of the agents that took part.

        Raises:
            ValueError: an agent has no action, or one that is not in its action space.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ValueError(f"there is no action for {', '.join(missing)}")
        engine = self.engine
        idle = engine.single_action_space.sample()
        rows = [np.asarray(actions[a] if a in self.agents else idle) for a in self.possible_agents]
        engine.step(np.stack(rows))
        terminations = {agent: bool(engine.terminations[self._rows[agent]]) for agent in self.agents}
        truncations = {agent: bool(engine.truncations[self._rows[agent]]) for agent in self.agents}
        over = {agent: terminations[agent] or truncations[agent] for agent in self.agents}
        # Where all end at once the world is a new one already, and its last observations are kept aside.
        source = engine.final_observations if all(over.values()) else engine.observations
        observations = {agent: source[self._rows[agent]].copy() for agent in self.agents}
        rewards = {agent: float(engine.rewards[self._rows[agent]]) for agent in self.agents}
        sums = engine.drain_rows()[1]
        infos = {
            agent: {name: float(values[self._rows[agent]]) for name, values in sums.items()} if gone else {}
            for agent, gone in over.items()
        }
        self.agents = [agent for agent in self.agents if not over[agent]]
        return observations, rewards, terminations, truncations, infos

    def render(self) -> Any:
        """The world as `render_mode` says: (height, width, 3) uint8, or text."""
        if self.render_mode is None:
            raise ValueError("there is no picture without a render_mode: make the environment with one")
        return self.engine.render() if self.render_mode == "rgb_array" else self.engine.render_text()

    def close(self) -> None:
        """Release what the engine holds."""
        self.engine.close()

    def _observation(self, agent: str) -> Array:
        observation: Array = self.engine.observations[self._rows[agent]].copy()
        return observation
