"""Play several configurations and keep every buffer: trace.py OUTPUT.npz [STEPS [NUM_ENVS [THREADS]]]."""

import sys

import numpy as np

from ocean_numba.registration import find_class

CASES = {
    "breakout": ("Breakout", {}),
    "breakout_continuous": ("Breakout", {"continuous": True, "frameskip": 3, "max_steps": 150}),
    "breakout_small": (
        "Breakout",
        {"brick_rows": 4, "brick_cols": 27, "brick_width": 21, "brick_height": 7, "frameskip": 16}
        | {"ball_width": 9, "ball_height": 13, "width": 601},
    ),
    "pong": ("Pong", {"frameskip": 8, "max_score": 3}),
    "pong_continuous": (
        "Pong",
        {"continuous": True, "frameskip": 5, "max_score": 2, "paddle_speed": 6.5, "ball_initial_speed_x": 7.7}
        | {"ball_initial_speed_y": 2.3, "ball_max_speed_y": 9.1, "width": 333, "max_steps": 200},
    ),
    "cartpole": ("Cartpole", {}),
    "cartpole_continuous": ("Cartpole", {"continuous": True, "max_steps": 40}),
    "squared": ("Squared", {}),
    "squared_even": ("Squared", {"size": 4}),
    "bandit": ("Bandit", {"num_actions": 3, "reward_scale": 2.5, "reward_noise": 0.7}),
    "continuous": ("Continuous", {}),
    "continuous_discrete": ("Continuous", {"discretize": True}),
    "memory": ("Memory", {"mem_length": 3, "mem_delay": 1}),
    "password": ("Password", {"password_length": 3}),
    "performance": ("Performance", {"bandwidth": 3}),
    "performance_empiric": ("PerformanceEmpiric", {"count_n": 20, "count_std": 9.5, "bandwidth": 2}),
    "squared_py": ("SquaredPy", {"distance_to_target": 2, "num_targets": 3}),
    "stochastic": ("Stochastic", {"horizon": 30}),
}
BUFFERS = ("observations", "rewards", "terminations", "truncations", "final_observations")


def follow(env, observations, rng):
    """Mostly a player that follows the ball, so that rare rules are met too; otherwise random moves."""
    space, n = env.single_action_space, env.num_envs
    noise = rng.random(n)
    discrete = hasattr(space, "n")
    random = rng.integers(0, space.n, n) if discrete else rng.uniform(-1.2, 1.2, n * space.shape[0])
    name, o = type(env).__name__, observations
    if name == "Breakout":
        offset = (o[:, 2] - o[:, 0]) * env.params.width - 31 + env.params.ball_width / 2
        skilled = np.where(offset < -10, 1, np.where(offset > 10, 2, 0)) if discrete else np.sign(offset)
    elif name == "Pong":
        offset = (o[:, 3] - o[:, 1]) * env.params.height + 16
        skilled = np.where(offset > 8, 1, np.where(offset < -8, 2, 0)) if discrete else np.sign(offset)
    elif name == "Cartpole":
        force = o[:, 2] + 0.3 * o[:, 3] + 0.05 * o[:, 1] + 0.02 * o[:, 0]
        skilled = np.where(force > 0, 1, 0) if discrete else np.sign(force)
    else:
        skilled = random
    actions = random if skilled is random else np.where(noise < 0.8, skilled, random)
    return actions.astype(np.int64) if discrete else actions.astype(np.float32).reshape(n, -1)


def trace(name, params, steps, num_envs, num_threads=1, rows=None):
    """Every buffer after every step (steps, rows, …), the statistics drained at the end, and the states."""
    env = find_class(name)(num_envs=num_envs, num_threads=num_threads, **params)
    env.reset(7)
    rng = np.random.default_rng(8)
    kept = {buffer: [getattr(env, buffer).copy()[:rows]] for buffer in BUFFERS}
    for _ in range(steps):
        # Draws for many rows are for the first rows the same as draws for few only if made row by row.
        env.step(follow(env, env.observations, rng) if rows is None else _row_actions(env, rng))
        for buffer in BUFFERS:
            kept[buffer].append(getattr(env, buffer).copy()[:rows])
    arrays = {buffer: np.array(values) for buffer, values in kept.items()}
    if rows is None:
        arrays["statistics"] = np.array(list(env.drain().values()))
    for field in env._states.dtype.names:
        arrays[f"state_{field}"] = env._states[field][:rows].copy()
    return arrays


def _row_actions(env, rng):
    action = rng.random()
    space = env.single_action_space
    if hasattr(space, "n"):
        return np.full(env.num_envs, int(action * space.n))
    return np.full((env.num_envs, *space.shape), 2 * action - 1, np.float32)


if __name__ == "__main__":
    output, *numbers = sys.argv[1:]
    steps, num_envs, num_threads = [int(number) for number in numbers] + [300, 4, 1][len(numbers) :]
    traces = {case: trace(*CASES[case], steps, num_envs, num_threads) for case in CASES}
    np.savez(output, **{f"{case}/{key}": value for case, t in traces.items() for key, value in t.items()})
