"""What a rollout leaves behind: one preallocated buffer of segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from puffertoolkit.policies.interfaces import State


@dataclass
class Experience:
    """One rollout: T steps of N agents; column n is the segment of agent n.

    Attributes:
        observations: (T, N, *obs), dtype of the space; what was acted on.
        actions: (T, N, *act), what the policy sampled.
        logprobs: (T, N) float32, of those actions at that time.
        values: (T, N) float32, the critic's for `observations`.
        next_values: (T, N) float32, the critic's for what followed: 0 after a termination, the value of the
            final observation after a truncation.
        rewards: (T, N) float32, of the step taken.
        starts: (T, N) bool, `observations[t]` is the first of its episode.
        ends: (T, N) bool, the step ended its episode, by termination or truncation.
        masks: (T, N) bool, false where the row was no living agent.
        initial_state: the policy's state before the first step, tensors (N, ...).
    """

    observations: Tensor
    actions: Tensor
    logprobs: Tensor
    values: Tensor
    next_values: Tensor
    rewards: Tensor
    starts: Tensor
    ends: Tensor
    masks: Tensor
    initial_state: State

    @classmethod
    def allocate(
        cls, horizon: int, observation: Tensor, action: Tensor, initial_state: State, device: torch.device
    ) -> Experience:
        """Make a buffer of `horizon` steps, given one step's (N, ...) observations and actions."""
        num_agents = observation.shape[0]

        def steps(like: Tensor) -> Tensor:
            return torch.zeros((horizon, *like.shape), dtype=like.dtype, device=device)

        floats = torch.zeros(num_agents)
        flags = torch.zeros(num_agents, dtype=torch.bool)
        return cls(
            observations=steps(observation),
            actions=steps(action),
            logprobs=steps(floats),
            values=steps(floats),
            next_values=steps(floats),
            rewards=steps(floats),
            starts=steps(flags),
            ends=steps(flags),
            masks=steps(flags),
            initial_state=tuple(torch.zeros_like(part, device=device) for part in initial_state),
        )

    @property
    def horizon(self) -> int:
        """T."""
        return self.rewards.shape[0]

    @property
    def num_agents(self) -> int:
        """N."""
        return self.rewards.shape[1]

    def segments(self, index: Tensor) -> Experience:
        """The segments of the agents `index` (B,) int64, as an Experience of (T, B, ...)."""
        # Whole rows of one axis: selecting along the second of two takes four times as long on a CPU.
        first = torch.arange(self.horizon, device=index.device).unsqueeze(1) * self.num_agents
        rows = (first + index).flatten()

        def select(x: Tensor, dim: int) -> Tensor:
            if dim == 0:
                return x.index_select(0, index)
            return x.flatten(0, 1).index_select(0, rows).view(self.horizon, len(index), *x.shape[2:])

        return self._select(select)

    def some(self, rows: slice) -> Experience:
        """Neighbouring segments, as a view."""
        return self._select(lambda x, dim: x[:, rows] if dim else x[rows])

    def _select(self, select: Callable[[Tensor, int], Tensor]) -> Experience:
        steps = {f.name: select(getattr(self, f.name), 1) for f in fields(self) if f.name != "initial_state"}
        return Experience(**steps, initial_state=tuple(select(part, 0) for part in self.initial_state))
