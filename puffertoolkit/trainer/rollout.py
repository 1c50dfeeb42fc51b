"""Collecting experience: the policy acts, the environments step, everything lands in one buffer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import Space
from gymnasium.spaces import Box
from torch import Tensor

from puffertoolkit.policies.interfaces import ActorCritic, State
from puffertoolkit.trainer.experience import Experience
from puffertoolkit.trainer.precision import precision, require_precision
from puffertoolkit.vector import Vector


class Collector:
    """Steps a vector with a policy, `horizon` steps at a time; recurrent state and episodes carry over."""

    def __init__(
        self,
        vector: Vector,
        policy: ActorCritic,
        horizon: int,
        device: torch.device,
        precision: str = "float32",
    ) -> None:
        require_precision(precision, device)
        self.vector, self.policy, self.device, self.precision = vector, policy, device, precision
        self.bounds = getattr(policy, "action_bounds", "clip")
        space = vector.single_action_space
        self.env_s = 0.0
        self.state = tuple(part.to(device) for part in policy.initial_state(vector.num_agents))
        self.starts = torch.ones(vector.num_agents, dtype=torch.bool, device=device)
        action_dtype = torch.float32 if isinstance(space, Box) else torch.int64
        action = torch.zeros((vector.num_agents, *(space.shape or ())), dtype=action_dtype)
        observation = torch.from_numpy(vector.observations)
        self.experience = Experience.allocate(horizon, observation, action, self.state, device)
        self._inbox = _Inbox(vector, device)
        self._truncations = torch.empty_like(self.starts)

    @torch.inference_mode()
    def collect(self) -> Experience:
        """Fill the buffer with the next `horizon` steps; the same buffer each time."""
        with precision(self.precision, self.device):
            return self._collect()

    def _collect(self) -> Experience:
        buffer, vector = self.experience, self.vector
        truncated = _Truncated()
        for kept, part in zip(buffer.initial_state, self.state, strict=True):
            kept.copy_(part)
        for t in range(buffer.horizon):
            observations, ends = buffer.observations[t], buffer.ends[t]
            self._inbox.copy("observations", observations)
            self._inbox.copy("masks", buffer.masks[t])
            if not vector.masks.all():
                # A dead agent's row may hold anything, and NaN times a gradient of 0 is NaN.
                observations.masked_fill_(~_beside(buffer.masks[t], observations), 0)
            buffer.starts[t].copy_(self.starts)
            dist, value, self.state = self.policy.step(observations, self.state, self.starts)
            action = dist.sample()
            buffer.actions[t].copy_(action)
            buffer.logprobs[t].copy_(dist.log_prob(action))
            buffer.values[t].copy_(value)

            actions = to_environment(action, vector.single_action_space, self.bounds)
            before = time.perf_counter()
            vector.step(actions)
            self.env_s += time.perf_counter() - before

            self._inbox.copy("rewards", buffer.rewards[t])
            self._inbox.copy("terminations", ends)
            # What follows a termination is worth nothing; the rest is filled in below.
            torch.logical_not(ends, out=buffer.next_values[t])
            self._inbox.copy("truncations", self._truncations)
            self.starts = ends.logical_or_(self._truncations)
            truncated.note(t, vector, self.state)
        self._bootstrap(truncated)
        return buffer

    def state_dict(self) -> dict[str, Any]:
        """What the next rollout begins with, besides the environments."""
        return {"state": [part.cpu() for part in self.state], "starts": self.starts.cpu().clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.state = tuple(part.to(self.device) for part in state["state"])
        self.starts = state["starts"].to(self.device)

    def _bootstrap(self, truncated: _Truncated) -> None:
        """Turn `next_values` from "does anything follow" into the value of what follows."""
        buffer = self.experience
        buffer.next_values[:-1] *= buffer.values[1:]
        last = torch.from_numpy(self.vector.observations).to(self.device)
        value = self.policy.step(last, self.state, self.starts)[1].float()
        # Not a product: what stands in the row of an agent that has just died may be NaN.
        buffer.next_values[-1] = value.where(buffer.next_values[-1] > 0, 0)
        if truncated.steps:
            steps, rows, observations, state = truncated.gather(self.device)
            goes_on = torch.zeros(len(rows), dtype=torch.bool, device=self.device)
            buffer.next_values[steps, rows] = self.policy.step(observations, state, goes_on)[1].float()


def to_environment(action: Tensor, space: Space[Any], bounds: str = "clip") -> npt.NDArray[Any]:
    """Sampled actions as the environment takes them.

    Args:
        action: (N, *action), as sampled.
        space: of one action; where it is a Box, the result lies within, and NaN becomes 0.
        bounds: "clip", or "tanh" for low + (high - low) (tanh(a) + 1) / 2 where both bounds are finite.
    """
    array: npt.NDArray[Any] = action.cpu().numpy()
    if not isinstance(space, Box):
        return array
    if bounds == "tanh":
        bounded = np.isfinite(space.low) & np.isfinite(space.high)
        low, high = np.where(bounded, space.low, 0), np.where(bounded, space.high, 0)
        array = np.where(bounded, low + (high - low) * (np.tanh(array) + 1) / 2, array)
    # An action that is no number ends the run once the rollout is complete, and not the environment.
    within: npt.NDArray[Any] = np.clip(np.nan_to_num(array), space.low, space.high)
    return within


class _Inbox:
    """What a vector says after a step, on its way to the policy's device.

    To a GPU it goes through pinned memory, and nothing waits for its arrival: the actions of the step, for
    which the environments wait, are the only thing that does.
    """

    NAMES = ("observations", "masks", "rewards", "terminations", "truncations")

    def __init__(self, vector: Vector, device: torch.device) -> None:
        self._buffers = {name: torch.from_numpy(getattr(vector, name)) for name in self.NAMES}
        self._pinned: dict[str, Tensor] = {}
        if device.type == "cuda":
            self._pinned = {k: torch.empty_like(v, pin_memory=True) for k, v in self._buffers.items()}

    def copy(self, name: str, target: Tensor) -> None:
        """Bring the vector's buffer `name` to `target`."""
        source = self._buffers[name]
        if self._pinned:
            source = self._pinned[name].copy_(source)
        target.copy_(source, non_blocking=True)


def _beside(rows: Tensor, like: Tensor) -> Tensor:
    """Rows (N,) with as many axes as `like` (N, ...), to broadcast along them."""
    return rows.reshape(-1, *[1] * (like.dim() - 1))


class _Truncated:
    """Where episodes were cut off during a rollout, to bootstrap them all in one batch."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self._rows: list[npt.NDArray[np.int64]] = []
        self._observations: list[npt.NDArray[Any]] = []
        self._states: list[State] = []

    def note(self, t: int, vector: Vector, state: State) -> None:
        """Keep the final observations, and the policy's state with which they would have been seen."""
        if not vector.truncations.any():
            return
        rows = np.flatnonzero(vector.truncations)
        self.steps += [t] * len(rows)
        self._rows.append(rows)
        self._observations.append(vector.final_observations[rows])
        index = torch.from_numpy(rows)
        self._states.append(tuple(part[index.to(part.device)] for part in state))

    def gather(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, State]:
        """Steps (K,), rows (K,), observations (K, *obs) and state of all K truncations."""
        rows = torch.from_numpy(np.concatenate(self._rows)).to(device)
        observations = torch.from_numpy(np.concatenate(self._observations)).to(device)
        state = tuple(torch.cat(parts) for parts in zip(*self._states, strict=True))
        return torch.tensor(self.steps, device=device), rows, observations, state
