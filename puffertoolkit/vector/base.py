"""The vector contract: what every backend offers and every trainer relies on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import Space

Rows = tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.float64]]]


BUFFERS = ("observations", "rewards", "terminations", "truncations", "final_observations", "masks")


class Buffers:
    """N agents in preallocated arrays, which their owner fills in place.

    Attributes:
        num_agents: N; the rows of one environment are contiguous.
        single_observation_space: of one agent.
        single_action_space: of one agent.
        observations: (N, *obs), the observation to act on now; after an end, the first of the next episode.
        rewards: (N,) float32, of the step just taken.
        terminations: (N,) bool, the episode ended by its own rules.
        truncations: (N,) bool, the episode was cut from outside, as by a time limit. Never both.
        final_observations: (N, *obs), the last observation of an episode; valid only where one ended now.
        masks: (N,) bool; false in a padding row (dead agent), which counts nowhere.
    """

    num_agents: int
    single_observation_space: Space[Any]
    single_action_space: Space[Any]
    observations: npt.NDArray[Any]
    rewards: npt.NDArray[np.float32]
    terminations: npt.NDArray[np.bool_]
    truncations: npt.NDArray[np.bool_]
    final_observations: npt.NDArray[Any]
    masks: npt.NDArray[np.bool_]

    def share_buffers(self, source: Any) -> None:
        """Take over the buffers of an object that has them under the same names."""
        self.num_agents = source.num_agents
        self.single_observation_space = source.single_observation_space
        self.single_action_space = source.single_action_space
        for name in BUFFERS:
            setattr(self, name, getattr(source, name))

    def allocate_buffers(self, num_agents: int, observation: Space[Any], action: Space[Any]) -> None:
        """Make buffers for `num_agents` rows of these spaces."""
        shape = (num_agents, *(observation.shape or ()))
        self.num_agents = num_agents
        self.single_observation_space, self.single_action_space = observation, action
        self.observations = np.zeros(shape, observation.dtype)
        self.final_observations = np.zeros(shape, observation.dtype)
        self.rewards = np.zeros(num_agents, np.float32)
        self.terminations = np.zeros(num_agents, np.bool_)
        self.truncations = np.zeros(num_agents, np.bool_)
        self.masks = np.ones(num_agents, np.bool_)


class Vector(Buffers, ABC):
    """The buffers, and the calls that fill them."""

    @abstractmethod
    def reset(self, seed: int) -> None:
        """Begin new episodes. The trajectory of environment i depends on `seed` and i alone."""

    @abstractmethod
    def step(self, actions: npt.NDArray[Any]) -> None:
        """Step every agent; `actions` is (N, *action shape)."""

    @abstractmethod
    def drain_rows(self) -> Rows:
        """Statistics of the episodes that ended since the last call, row by row.

        Returns:
            The number of those episodes (N,), and for each statistic their sums (N,). Names are "score",
            "perf" (0 … 1), "episode_return", "episode_length" and whatever the environment adds.
        """

    def drain(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, with their number as "episodes"."""
        counts, sums = self.drain_rows()
        episodes = float(counts.sum())
        if episodes == 0:
            return {"episodes": 0.0}
        return {"episodes": episodes, **{name: float(row.sum()) / episodes for name, row in sums.items()}}

    def state_dict(self) -> dict[str, Any] | None:
        """Everything that the next step depends on, as arrays and text; None if it cannot be known.

        With it a run that was killed goes on exactly where it was.
        """
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave, in place.

        Raises:
            ValueError: it comes from environments of another kind or number.
        """
        raise ValueError(f"{type(self).__name__} cannot take up a state")

    @property
    def frames_per_second(self) -> float:
        """Steps per second of real time, for videos."""
        return 30.0

    def send(self, actions: npt.NDArray[Any]) -> None:
        """Begin a step of the agents that the last `recv` named."""
        self.step(actions)

    def recv(self) -> slice:
        """Wait for a batch of agents to be ready; says which rows they are."""
        return slice(0, self.num_agents)

    @property
    def kernels_are_cached(self) -> bool:
        """False if the first step will compile for some seconds."""
        return True

    @abstractmethod
    def render(self, index: int = 0) -> npt.NDArray[np.uint8]:
        """Environment `index` as an RGB image, (height, width, 3)."""

    @abstractmethod
    def close(self) -> None:
        """Release what the environments hold."""
