"""A vector whose observations, ends and masks follow a script, to see exactly what a rollout keeps."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from puffertoolkit.vector import Vector


class Scripted(Vector):
    """Agent n at step t observes 100 n + t (its steps count on across episodes); ends come from a script."""

    def __init__(self, num_agents, terminate=(), truncate=(), dead=(), action_space=None):
        self.allocate_buffers(num_agents, Box(-np.inf, np.inf, (1,)), action_space or Discrete(3))
        self.terminate, self.truncate, self.dead = set(terminate), set(truncate), set(dead)
        self.actions = []
        self.reset(0)

    def reset(self, seed):
        self.t = 0
        self._observe()

    def _observe(self):
        for n in range(self.num_agents):
            self.observations[n, 0] = 100 * n + self.t
            self.masks[n] = (self.t, n) not in self.dead

    def step(self, actions):
        self.actions.append(actions.copy())
        for n in range(self.num_agents):
            self.rewards[n] = 10 * n + self.t
            self.terminations[n] = (self.t, n) in self.terminate
            self.truncations[n] = (self.t, n) in self.truncate
            self.final_observations[n, 0] = -(100 * n + self.t + 1)
        self.t += 1
        self._observe()

    def drain_rows(self):
        return np.zeros(self.num_agents), {}

    def render(self, index=0):
        raise NotImplementedError

    def close(self):
        pass


class Accumulator(torch.nn.Module):
    """A policy with the simplest memory: its value is the sum of all observations of the episode so far."""

    def __init__(self, num_actions=3):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(num_actions))

    def initial_state(self, batch_size):
        return (torch.zeros(batch_size),)

    def step(self, obs, state, done):
        total = state[0].where(~done, 0) + obs.reshape(len(obs), -1)[:, 0]
        return torch.distributions.Categorical(logits=self.logits.expand(len(obs), -1)), total, (total,)


@pytest.fixture
def scripted():
    return Scripted


@pytest.fixture
def accumulator():
    return Accumulator
