"""A world of several agents, made for tests: some die for good, some begin again, worlds end in two ways.

Run as a script it plays and saves what it saw: arena.py OUTPUT WORLDS THREADS.
"""

import sys
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box, Discrete

from ocean_numba.engine import Canvas, Definition, OceanVector, Parameters, integer, kernel, parameter

DIE, AGAIN, ABSENT = 1, 2, 5


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of the arena."""

    agents: int = parameter(3, "agents", low=1)
    max_steps: int = parameter(9, "steps until a world is cut off", low=1)
    goal: int = parameter(12, "points of all agents that end a world", low=1)


def state(params):
    return [("points", "i4", (params.agents,)), ("total", "i4")]


def spaces(params):
    return Box(-100, 100, (3,), np.float32), Discrete(4)


@kernel
def observe(state, agent, observation):
    observation[0] = agent
    observation[1] = state.points[agent]
    observation[2] = state.tick


@kernel
def reset(state, params, observations, masks):
    state.total = 0
    for a in range(params.agents):
        state.points[a] = 0
        observe(state, a, observations[a])
    # Now and then the last agent is late, and joins with the third step.
    if integer(state, ABSENT) == 0:
        masks[params.agents - 1] = False


@kernel
def step(state, params, actions, observations, rewards, terminations, masks):
    for a in range(params.agents):
        if not masks[a]:
            if state.tick == 2:
                masks[a] = True
                observe(state, a, observations[a])
            continue
        gain = integer(state, 3)
        state.points[a] += gain
        state.total += gain
        rewards[a] = gain
        if actions[a, 0] == DIE:
            terminations[a] = True
            masks[a] = False
        elif actions[a, 0] == AGAIN:
            terminations[a] = True
    return state.total >= params.goal, state.tick >= params.max_steps


@kernel
def statistics(state, params, agent):
    points = state.points[agent]
    state.points[agent] = 0
    return float(points), min(1.0, points / params.goal), float(agent)


def draw(state, params):
    return Canvas(60, 40)


class Arena(OceanVector):
    """The world of this file."""

    definition = Definition(
        Params, state, spaces, reset, step, statistics, draw,
        frames_per_second=lambda params: 10.0,
        statistic_names=("score", "perf", "who"),
        agents=lambda params: params.agents,
    )  # fmt: skip


BUFFERS = ("observations", "rewards", "terminations", "truncations", "final_observations", "masks")


def play(num_envs, steps, num_threads=1, seed=7):
    """What every buffer held after each step, and the drained statistics, as arrays."""
    env = Arena(num_envs, num_threads=num_threads)
    env.reset(seed)
    rng = np.random.default_rng(0)
    seen = {name: [getattr(env, name).copy()] for name in BUFFERS}
    for _ in range(steps):
        # The same actions in the first worlds, however many there are.
        env.step(rng.integers(0, 4, (999, 3))[:num_envs].reshape(-1))
        for name in BUFFERS:
            seen[name].append(getattr(env, name).copy())
    counts, sums = env.drain_rows()
    return {**{name: np.array(values) for name, values in seen.items()}, "counts": counts, **sums}


if __name__ == "__main__":
    np.savez(sys.argv[1], **play(int(sys.argv[2]), 60, int(sys.argv[3])))
