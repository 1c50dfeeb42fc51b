"""Multiagent: two agents in one world, of whom one must say 0 and the other 1.

Tests that rows, observations and rewards of several agents are not mixed up: agents exchanged on the way give
a score of 0 or 0.5. Both share one policy. Origin: PufferLib 3.0, sanity suite.

Observation (1,) float32: 0 for the first agent, 1 for the second. Action: 0 or 1. Reward: 1 for an agent that
says its observation, else 0. After one step: termination of both. Score and perf, of each agent: its reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from ocean_numba.engine import CYAN, RED, Canvas, Definition, Fields, OceanVector, Parameters, kernel

AGENTS = 2
CELL_PIXELS = 32


@dataclass(frozen=True)
class Params(Parameters):
    """Multiagent has no parameters."""


def state(params: Params) -> Fields:
    """What each agent said."""
    return [("said", "i4", (AGENTS,))]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """Who one is; what one says."""
    return Box(0, 1, (1,), np.float32), Discrete(2)


@kernel
def reset(state: Any, params: Any, observations: Any, masks: Any) -> None:
    """Tell each who it is."""
    for agent in range(AGENTS):
        observations[agent, 0] = agent


@kernel
def step(
    state: Any, params: Any, actions: Any, observations: Any, rewards: Any, terminations: Any, masks: Any
) -> tuple[bool, bool]:
    """Pay who was right."""
    for agent in range(AGENTS):
        state.said[agent] = actions[agent, 0]
        rewards[agent] = 1 if actions[agent, 0] == agent else 0
    return True, False


@kernel
def statistics(state: Any, params: Any, agent: Any) -> tuple[float, float]:
    """Score and perf."""
    return (1.0, 1.0) if state.said[agent] == agent else (0.0, 0.0)


def draw(state: Any, params: Params) -> Canvas:
    """Two rows of five cells: the middle one cyan where the agent was right, an outer one red where not."""
    canvas = Canvas(5 * CELL_PIXELS, AGENTS * CELL_PIXELS)
    for agent in range(AGENTS):
        said = int(state.said[agent])
        right = said == agent
        column = 2 if right else 4 * said
        canvas.rectangle(column * CELL_PIXELS, agent * CELL_PIXELS, 30, 30, CYAN if right else RED)
    return canvas


class Multiagent(OceanVector):
    """Vectorised Multiagent; the rules stand at the top of this module."""

    definition = Definition(
        Params,
        state,
        spaces,
        reset,
        step,
        statistics,
        draw,
        frames_per_second=lambda params: 2.0,
        agents=lambda params: AGENTS,
    )
