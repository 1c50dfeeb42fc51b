"""Pong: return the ball past a scripted opponent, who follows it on the left; the agent plays on the right.

After Atari's game of 1972, as in PufferLib 3.0's Ocean suite. Units are pixels and frames of 1/60 s; (0, 0)
is the bottom left corner, y grows **upwards**. A step plays `frameskip` frames with one action, fewer if a
point is made.

Observation (8,) float32:

=====  ================================================  =====  =============================================
index  meaning                                           index  meaning
=====  ================================================  =====  =============================================
0      the opponent's paddle, 0 lowest … 1 highest       4      horizontal speed: 1 to the agent, 0 away
1      the agent's paddle, likewise                      5      vertical speed: 0 full down … 1 full up
2      left edge of the ball / width                     6      the opponent's points / max_score
3      bottom edge of the ball / height                  7      the agent's points / max_score
=====  ================================================  =====  =============================================

Action: 0 stands still, 1 moves the paddle up, 2 down, by `paddle_speed` a frame. With `continuous`: Box (1,),
that speed times the value clipped to [-1, 1].

Rules: every serve flies to the agent, level or slightly down by a fair coin, the only chance in the game. The
top, the bottom and both paddles reflect the ball. A paddle that moves while it hits adds to the ball's
vertical speed, so that the opponent, who is no faster than the agent, can be outrun. Paddles may hang half
outside. First to `max_score` points.

Reward: +1 for a point, -1 for the opponent's, +0.1 for a hit. Termination: a side has `max_score` points.
Truncation: after `max_steps`. Score: the agent's points minus the opponent's. Perf: the agent's share of all
points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from ocean_numba.engine import (
    CYAN,
    Canvas,
    Definition,
    Fields,
    OceanVector,
    Parameters,
    integer,
    kernel,
    parameter,
    pufferfish,
)

FRAMES_PER_SECOND = 60
DIRECTION = np.array([0.0, 1.0, -1.0])
HIT_REWARD = 0.1
LEVEL_SPEED = 0.01  # a ball slower than this after a hit would fly level for ever
SERVE_X = 1 / 5  # of the width

OPPONENT, AGENT, BALL_X, BALL_Y, BALL_VX, BALL_VY, OPPONENT_POINTS, AGENT_POINTS = range(8)
MARGIN = 0.1

OPPONENT_COLOR, AGENT_COLOR = (255, 0, 0), (0, 255, 255)


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Pong; lengths in pixels, speeds in pixels per frame."""

    width: int = parameter(500, "width of the field", low=1)
    height: int = parameter(640, "height of the field", low=1)
    paddle_width: int = parameter(20, "width of the drawn paddles, which act as lines", low=1)
    paddle_height: int = parameter(70, "height of the paddles", low=1)
    ball_width: int = parameter(32, "width of the ball", low=1)
    ball_height: int = parameter(32, "height of the ball", low=1)
    paddle_speed: float = parameter(8.0, "highest speed of the paddles", above=0)
    ball_initial_speed_x: float = parameter(10.0, "horizontal speed of the ball", above=0)
    ball_initial_speed_y: float = parameter(1.0, "vertical speed of a serve that is not level", low=0)
    ball_speed_y_increment: float = parameter(3.0, "vertical speed that a moving paddle adds", above=0)
    ball_max_speed_y: float = parameter(13.0, "highest vertical speed of the ball", above=0)
    max_score: int = parameter(21, "points that win", low=1)
    frameskip: int = parameter(1, "frames played per step", low=1, high=16)
    continuous: bool = parameter(False, "a speed in [-1, 1] instead of still, up or down")
    max_steps: int = parameter(0, "steps after which an episode is truncated; 0 for none", low=0)

    def conflicts(self) -> list[str]:
        """Paddles and ball fit into the field."""
        free = self.width - self.ball_width
        faults = {
            f"paddle_height={self.paddle_height} must be less than height={self.height}":
                self.paddle_height >= self.height,
            f"ball_height={self.ball_height} must be less than height={self.height}":
                self.ball_height >= self.height,
            f"ball_width={self.ball_width} must be less than 4/5 of width={self.width}":
                5 * self.ball_width >= 4 * self.width,
            f"ball_initial_speed_x={self.ball_initial_speed_x} must be at most width - ball_width = {free}":
                self.ball_initial_speed_x > free,
            f"ball_initial_speed_y={self.ball_initial_speed_y} must be at most "
            f"ball_max_speed_y={self.ball_max_speed_y}":
                self.ball_initial_speed_y > self.ball_max_speed_y,
        }  # fmt: skip
        return [message for message, holds in faults.items() if holds]


def state(params: Params) -> Fields:
    """Lower edges of the paddles, the ball, the points."""
    floats = ("opponent_y", "agent_y", "ball_x", "ball_y", "ball_vx", "ball_vy")
    return [*((name, "f8") for name in floats), ("opponent_points", "i4"), ("agent_points", "i4")]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """All entries near 0 … 1; the ball leaves the field by what it flies in one frame."""
    x_margin = max(MARGIN, params.ball_initial_speed_x / params.width)
    y_margin = max(MARGIN, params.ball_max_speed_y / params.height)
    margins = np.full(8, MARGIN, np.float32)
    margins[BALL_X], margins[BALL_Y] = x_margin, y_margin
    action = Box(-1, 1, (1,), np.float32) if params.continuous else Discrete(len(DIRECTION))
    return Box(-margins, 1 + margins, dtype=np.float32), action


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """No points, and the first serve."""
    state.opponent_points = 0
    state.agent_points = 0
    serve(state, params)
    observe(state, params, observation)
    observe_points(state, params, observation)


@kernel
def serve(state: Any, params: Any) -> None:
    """Both paddles in the middle, the ball on its way from the left to the agent."""
    state.opponent_y = state.agent_y = params.height / 2 - params.paddle_height / 2
    state.ball_x = params.width * SERVE_X
    state.ball_y = params.height / 2 - params.ball_height / 2
    state.ball_vx = params.ball_initial_speed_x
    state.ball_vy = -params.ball_initial_speed_y if integer(state, 2) == 1 else 0.0


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Play frames until one of them makes a point."""
    direction = min(max(float(action[0]), -1.0), 1.0) if params.continuous else DIRECTION[int(action[0])]
    reward = 0.0
    frames = params.frameskip
    points = state.opponent_points + state.agent_points
    is_point = False
    while frames > 0 and not is_point:
        played = frames
        while played > 1 and not is_clear(state, params, played):
            played //= 2
        move_paddles(state, params, played, direction)
        move_ball(state, params, played)
        reward += meet_left_edge(state, params) + meet_right_edge(state, params, direction)
        is_point = state.opponent_points + state.agent_points > points
        frames -= played
    terminated = is_point and max(state.opponent_points, state.agent_points) == params.max_score
    if is_point:
        observe_points(state, params, observation)
        if not terminated:
            serve(state, params)
    observe(state, params, observation)
    truncated = params.max_steps > 0 and state.tick >= params.max_steps
    return reward, terminated, truncated


@kernel
def is_clear(state: Any, params: Any, frames: int) -> bool:
    """Can so many frames be played at once: does the ball stay inside, and no faster than the paddles?"""
    x, y = state.ball_x + frames * state.ball_vx, state.ball_y + frames * state.ball_vy
    return bool(
        abs(state.ball_vy) <= params.paddle_speed
        and x >= 0
        and x + params.ball_width <= params.width
        and min(state.ball_y, y) >= 0
        and max(state.ball_y, y) + params.ball_height <= params.height
    )


@kernel
def move_paddles(state: Any, params: Any, frames: int, direction: float) -> None:
    """The agent's as it likes; the opponent's brings its middle towards the lower edge of the ball.

    The opponent looks before the ball moves. Several frames at once come to the same formula, because a ball
    that is no faster than the paddle does not get away once it is reached.
    """
    lowest, highest = lowest_y(params), highest_y(params)
    reach = frames * params.paddle_speed
    target = state.ball_y + (frames - 1) * state.ball_vy - params.paddle_height / 2
    opponent_y = min(max(target, state.opponent_y - reach), state.opponent_y + reach)
    state.opponent_y = min(max(opponent_y, lowest), highest)
    state.agent_y = min(max(state.agent_y + reach * direction, lowest), highest)


@kernel
def move_ball(state: Any, params: Any, frames: int) -> None:
    """Top and bottom turn the ball, which may fly beyond them for a frame."""
    x, y = state.ball_x, state.ball_y
    # Not by a product: the ball comes back to where it was, where its rounding would decide on a hit.
    for _ in range(frames):
        x += state.ball_vx
        y += state.ball_vy
    state.ball_x, state.ball_y = x, y
    if state.ball_y < 0 or state.ball_y + params.ball_height > params.height:
        state.ball_vy = -state.ball_vy


@kernel
def meet_left_edge(state: Any, params: Any) -> float:
    """The opponent returns the ball, or the agent has a point; returns the reward."""
    if state.ball_x >= 0:
        return 0.0
    if is_beside(state, params, state.opponent_y):
        state.ball_vx = -state.ball_vx
        return 0.0
    state.agent_points += 1
    return 1.0


@kernel
def meet_right_edge(state: Any, params: Any, direction: float) -> float:
    """The agent returns the ball, or the opponent has a point; returns the reward."""
    if state.ball_x + params.ball_width <= params.width:
        return 0.0
    if not is_beside(state, params, state.agent_y):
        state.opponent_points += 1
        return -1.0
    fastest = params.ball_max_speed_y
    vy = min(max(state.ball_vy + params.ball_speed_y_increment * direction, -fastest), fastest)
    state.ball_vx = -state.ball_vx
    state.ball_vy = min(params.ball_speed_y_increment, fastest) if abs(vy) < LEVEL_SPEED else vy
    state.ball_x = min(max(state.ball_x, 0.0), float(params.width - params.ball_width))
    state.ball_y = min(max(state.ball_y, 0.0), float(params.height - params.ball_height))
    return HIT_REWARD


@kernel
def is_beside(state: Any, params: Any, paddle_y: float) -> bool:
    """Do the ball and a paddle have heights in common?"""
    return bool(
        state.ball_y + params.ball_height > paddle_y and state.ball_y < paddle_y + params.paddle_height
    )


@kernel
def lowest_y(params: Any) -> Any:
    """Lower edge of a paddle that hangs half below the field."""
    return -params.paddle_height / 2


@kernel
def highest_y(params: Any) -> Any:
    """Lower edge of a paddle that hangs half above the field."""
    return params.height - params.paddle_height / 2


@kernel
def observe(state: Any, params: Any, observation: Any) -> None:
    """Write what moves in every step; the points are written where they change."""
    per_pixel = 1 / params.height
    observation[OPPONENT] = (state.opponent_y - lowest_y(params)) * per_pixel
    observation[AGENT] = (state.agent_y - lowest_y(params)) * per_pixel
    observation[BALL_X] = state.ball_x / params.width
    observation[BALL_Y] = state.ball_y * per_pixel
    observation[BALL_VX] = 1.0 if state.ball_vx > 0 else 0.0
    observation[BALL_VY] = 0.5 + 0.5 * state.ball_vy / params.ball_max_speed_y


@kernel
def observe_points(state: Any, params: Any, observation: Any) -> None:
    """Write the points."""
    observation[OPPONENT_POINTS] = state.opponent_points / params.max_score
    observation[AGENT_POINTS] = state.agent_points / params.max_score


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf; no points, no perf."""
    points = state.agent_points + state.opponent_points
    return float(state.agent_points - state.opponent_points), state.agent_points / max(points, 1)


def draw(state: Any, params: Params) -> Canvas:
    """Field with a margin of three paddle widths; the opponent in red, the agent in cyan."""
    margin = 3 * params.paddle_width
    canvas = Canvas(params.width + 2 * margin, params.height)
    top = params.height - params.paddle_height
    size = params.paddle_width, params.paddle_height
    canvas.rectangle(margin - params.paddle_width, top - state.opponent_y, *size, OPPONENT_COLOR, radius=4)
    canvas.rectangle(margin + params.width, top - state.agent_y, *size, AGENT_COLOR, radius=4)
    ball_x = margin + state.ball_x + params.ball_width / 2
    ball_y = params.height - state.ball_y - params.ball_height / 2
    pufferfish(canvas, ball_x, ball_y, min(params.ball_width, params.ball_height) / 2, state.ball_vx)
    middle = margin + params.width / 2
    canvas.label(middle - 50, 10, f"{state.opponent_points}", size=30, color=CYAN, anchor="ma")
    canvas.label(middle + 50, 10, f"{state.agent_points}", size=30, color=CYAN, anchor="ma")
    return canvas


class Pong(OceanVector):
    """Vectorised Pong; the rules stand at the top of this module."""

    definition = Definition(
        Params,
        state,
        spaces,
        reset,
        step,
        statistics,
        draw,
        frames_per_second=lambda params: FRAMES_PER_SECOND / params.frameskip,
    )
