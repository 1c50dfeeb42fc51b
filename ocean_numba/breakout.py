"""Breakout: keep a ball in play with a paddle and break every brick of a wall, twice.

After Atari's game of 1976, as in PufferLib 3.0's Ocean suite. Units are pixels and frames of 1/60 s; (0, 0)
is the top left corner, y grows downwards. A step plays `frameskip` frames with one action.

Observation (10 + brick_rows · brick_cols,) float32:

=====  ===============================  =====  ==============================================
index  meaning                          index  meaning
=====  ===============================  =====  ==============================================
0      left edge of the paddle / width  6      0.2 if launched, else 0
1      top edge of the paddle / height  7      score / highest score
2      left edge of the ball / width    8      spare balls / 5
3      top edge of the ball / height    9      width of the paddle / 62
4      horizontal speed in px/s / 512   10 …   the wall, row by row from the top: 1 where a
5      vertical speed in px/s / 512            brick is gone, 0 where it stands
=====  ===============================  =====  ==============================================

Action: 0 stands still, 1 moves the paddle left, 2 right, at 620 px/s. With `continuous`: Box (1,), 620 px/s
times the value clipped to [-1, 1].

Rules: the ball is launched from below the wall, downwards at 55.4 degrees from the vertical, to the left or
right by a fair coin, the only chance in the game. Walls, ceiling and bricks reflect it. On the paddle the
place of the hit decides: its left end sends the ball 45 degrees to the left of the vertical, its right end to
the right. Every fourth hit raises the speed of the next ones by 64 px/s, up to 448; a brick of the upper
three rows raises it to 448. The ceiling halves the paddle. Below the paddle the ball is lost, and one
of five spare ones starts a new round, with full paddle and slow ball. Once the wall is gone, the next hit of
the paddle brings it back, once.

Reward: the value of the bricks broken: 7 in rows 0 and 1, 4 in rows 2 and 3, 1 in rows 4 and 5. Termination:
the last ball is lost, or both walls are gone. Truncation: after `max_steps`. Score: points. Perf: points /
highest score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete

from ocean_numba.engine import (
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

WALL_TOP = 50
PADDLE_WIDTH, HALF_PADDLE_WIDTH, PADDLE_MARGIN = 62, 31, 10
BALL_START_MARGIN = 30
SPARE_BALLS = 5

# Speeds are in px/s where a rule gives them, in px/frame where something moves.
FRAMES_PER_SECOND = 60
SLOWEST, FASTEST, SPEED_UP, HITS_PER_SPEED_UP = 256, 448, 64, 4
LAUNCH_VX = SLOWEST / FRAMES_PER_SECOND * math.sin(math.pi / 3.25)
LAUNCH_VY = SLOWEST / FRAMES_PER_SECOND * math.cos(math.pi / 3.25)
ESCAPE_PUSH = FASTEST * 1.1 / FRAMES_PER_SECOND
PADDLE_STEP = 620 / FRAMES_PER_SECOND
DIRECTION = np.array([0.0, -1.0, 1.0])
BOUNCE_ANGLE, STEEPEST_ANGLE = math.pi / 4, math.radians(80)

# Points per brick by row, and of a column of bricks by number of rows.
ROW_VALUE = np.array([7, 7, 4, 4, 1, 1])
COLUMN_VALUE = np.array([0, 7, 14, 18, 22, 23, 24])
FAST_ROWS = 3

PADDLE_X, PADDLE_Y, BALL_X, BALL_Y, BALL_VX, BALL_VY, IN_PLAY, SCORE, BALLS, WIDTH, BRICKS = range(11)
VELOCITY_SCALE = FRAMES_PER_SECOND / 512
IN_PLAY_SIGN = 0.2

# What the ball meets: a brick (its number, 0 or more) or one of these.
NOTHING, SIDE_WALL, CEILING, PADDLE = -1, -2, -3, -4

ROW_COLORS = ((230, 41, 55), (255, 161, 0), (253, 249, 0), (0, 228, 48), (102, 191, 255), (0, 121, 241))
PADDLE_COLOR = (0, 255, 255)


@dataclass(frozen=True)
class Params(Parameters):
    """Parameters of Breakout; lengths in pixels."""

    frameskip: int = parameter(4, "frames played per step", low=1, high=16)
    width: int = parameter(576, "width of the field", low=PADDLE_WIDTH + 1)
    height: int = parameter(330, "height of the field", low=1)
    paddle_width: int = parameter(62, "width of the paddle", low=PADDLE_WIDTH, high=PADDLE_WIDTH)
    paddle_height: int = parameter(8, "height of the paddle", low=1)
    ball_width: int = parameter(32, "width of the ball", low=1)
    ball_height: int = parameter(32, "height of the ball", low=1)
    brick_width: int = parameter(32, "width of a brick", low=1)
    brick_height: int = parameter(12, "height of a brick", low=1)
    brick_rows: int = parameter(6, "rows of bricks", low=1, high=len(ROW_VALUE))
    brick_cols: int = parameter(18, "columns of bricks", low=1)
    continuous: bool = parameter(False, "a speed in [-1, 1] instead of still, left or right")
    max_steps: int = parameter(0, "steps after which an episode is truncated; 0 for none", low=0)

    def conflicts(self) -> list[str]:
        """The wall fits into the field, and the ball between wall and paddle."""
        wall_width = self.brick_cols * self.brick_width
        wall_bottom = WALL_TOP + self.brick_rows * self.brick_height
        ball_top = self.height // 2 - BALL_START_MARGIN
        paddle_top = self.height - self.paddle_height - PADDLE_MARGIN
        faults = {
            f"brick_cols={self.brick_cols} of brick_width={self.brick_width} exceed width={self.width}":
                wall_width > self.width,
            f"ball_width={self.ball_width} must be less than width={self.width}":
                self.ball_width >= self.width,
            f"brick_rows={self.brick_rows} of brick_height={self.brick_height} end at y = {wall_bottom}; "
            f"with height={self.height} they must end above the ball's start at y = {ball_top}":
                wall_bottom >= ball_top,
            f"ball_height={self.ball_height} ends at y = {ball_top + self.ball_height} at the start; with "
            f"height={self.height} and paddle_height={self.paddle_height} the paddle is at y = {paddle_top}":
                ball_top + self.ball_height > paddle_top,
        }  # fmt: skip
        return [message for message, holds in faults.items() if holds]


def state(params: Params) -> Fields:
    """Ball and paddle in px and px/frame, counts, what the ball meets in this frame, the bricks (1: gone)."""
    floats = ("ball_x", "ball_y", "ball_vx", "ball_vy", "paddle_x", "met_time", "met_overlap", "met_line")
    integers = ("paddle_width", "ball_speed", "hits", "score", "balls", "met")
    return [
        *((name, "f8") for name in floats),
        *((name, "i4") for name in integers),
        ("launched", "?"),
        ("met_upright", "?"),
        ("gone", "u1", (params.brick_rows * params.brick_cols,)),
    ]


def spaces(params: Params) -> tuple[Space[Any], Space[Any]]:
    """See the top of this module; the bounds leave a margin."""
    action = Box(-1, 1, (1,), np.float32) if params.continuous else Discrete(len(DIRECTION))
    return Box(-2, 2, (BRICKS + params.brick_rows * params.brick_cols,), np.float32), action


@kernel
def reset(state: Any, params: Any, observation: Any) -> None:
    """A whole wall, no points, all balls."""
    state.score = 0
    state.balls = SPARE_BALLS
    observation[SCORE] = 0.0
    observation[PADDLE_Y] = paddle_y(params) / params.height
    build_wall(state, params, observation)
    start_round(state, params, observation)
    observe(state, params, observation)


@kernel
def step(state: Any, params: Any, action: Any, observation: Any) -> tuple[float, bool, bool]:
    """Play frames until one of them ends the episode."""
    if params.continuous:
        paddle_step = PADDLE_STEP * min(max(float(action[0]), -1.0), 1.0)
    else:
        paddle_step = PADDLE_STEP * DIRECTION[int(action[0])]
    score = state.score
    frames = params.frameskip
    terminated = False
    while frames > 0 and not terminated:
        frames -= play(state, params, paddle_step, frames, observation)
        terminated = state.balls < 0 or state.score == 2 * wall_value(params)
    observe(state, params, observation)
    truncated = params.max_steps > 0 and state.tick >= params.max_steps
    return float(state.score - score), terminated, truncated


@kernel
def play(state: Any, params: Any, paddle_step: float, frames: int, observation: Any) -> int:
    """Play the first of so many frames, or those in which the ball flies freely at once; returns how many."""
    return_escaped(state, params)
    launching = not state.launched
    if launching:
        launch(state, observation)
    clear = is_clear(state, params, 1)
    if launching or not clear:
        frames = 1
    while frames > 1 and not is_clear(state, params, frames):
        frames //= 2
    if not launching or params.continuous:  # as in the original, a discrete action goes unheard at a launch
        rightmost = float(params.width - state.paddle_width)
        state.paddle_x = min(max(state.paddle_x + frames * paddle_step, 0.0), rightmost)
    if clear:
        state.ball_x += frames * state.ball_vx
        state.ball_y += frames * state.ball_vy
    else:
        move_to_contact(state, params, observation)
        if state.ball_y >= paddle_y(params) + params.paddle_height:
            state.balls -= 1
            start_round(state, params, observation)
    return frames


@kernel
def launch(state: Any, observation: Any) -> None:
    """Downwards, to the left or the right."""
    state.launched = True
    state.ball_vx = LAUNCH_VX if integer(state, 2) == 1 else -LAUNCH_VX
    state.ball_vy = LAUNCH_VY
    observation[IN_PLAY] = IN_PLAY_SIGN


@kernel
def return_escaped(state: Any, params: Any) -> None:
    """Push a ball back that left through a corner, where only one of two walls met at once reflected it."""
    if state.ball_x < 0:
        state.ball_x += ESCAPE_PUSH
    if state.ball_x + params.ball_width > params.width:
        state.ball_x -= ESCAPE_PUSH
    if state.ball_y < 0:
        state.ball_y += ESCAPE_PUSH


@kernel
def is_clear(state: Any, params: Any, frames: int) -> bool:
    """Will the ball be in the open after so many frames, more than a pixel from all that it could meet?

    The open is a rectangle: a ball that is there after one frame and after several met nothing in between. In
    the first frame it may come from an edge, but not through the wall.
    """
    x = state.ball_x + frames * state.ball_vx
    y = state.ball_y + frames * state.ball_vy
    return bool(
        x > 1
        and x + params.ball_width < params.width - 1
        and y > wall_bottom(params) + 1
        and state.ball_y >= wall_bottom(params)
        and y + params.ball_height < paddle_y(params) - 1
    )


@kernel
def move_to_contact(state: Any, params: Any, observation: Any) -> None:
    """Move the ball by a frame, or to what it meets first, which reflects it and ends the frame."""
    state.met = NOTHING
    state.met_time = 1.0
    state.met_overlap = 0.0
    seek_bricks(state, params)
    seek_walls(state, params)
    seek_paddle(state, params)
    if state.met == NOTHING:
        state.ball_x += state.ball_vx
        state.ball_y += state.ball_vy
    elif state.met == PADDLE:
        bounce(state, params, observation)
    else:
        reflect(state, params)
        if state.met == CEILING:
            state.paddle_width = HALF_PADDLE_WIDTH
            observation[WIDTH] = HALF_PADDLE_WIDTH / PADDLE_WIDTH
        elif state.met >= 0:
            break_brick(state, params, observation)


@kernel
def seek_bricks(state: Any, params: Any) -> None:
    """Look at the bricks around the path of the ball in this frame."""
    x, y, vx, vy = state.ball_x, state.ball_y, state.ball_vx, state.ball_vy
    if min(y, y + vy) > wall_bottom(params):
        return
    first_column = cell(min(x, x + vx) / params.brick_width, params.brick_cols)
    last_column = cell((max(x, x + vx) + params.ball_width) / params.brick_width, params.brick_cols)
    first_row = cell((min(y, y + vy) - WALL_TOP) / params.brick_height, params.brick_rows)
    last_row = cell((max(y, y + vy) + params.ball_height - WALL_TOP) / params.brick_height, params.brick_rows)
    for row in range(first_row, last_row + 1):
        top = WALL_TOP + row * params.brick_height
        for column in range(first_column, last_column + 1):
            brick = row * params.brick_cols + column
            if not state.gone[brick]:
                left = column * params.brick_width
                facing_x = left if vx > 0 else left + params.brick_width
                facing_y = top if vy > 0 else top + params.brick_height
                seek_upright_line(state, params, brick, facing_x, top, top + params.brick_height)
                seek_level_line(state, params, brick, facing_y, left, left + params.brick_width)


@kernel
def cell(position: float, count: int) -> int:
    """The row or column at a position, or the nearest to it."""
    return min(max(int(position), 0), count - 1)


@kernel
def seek_walls(state: Any, params: Any) -> None:
    """Look at the wall that the ball moves towards, and at the ceiling."""
    wall_x = params.width if state.ball_vx > 0 else 0
    seek_upright_line(state, params, SIDE_WALL, wall_x, 0, params.height)
    if state.ball_vy < 0:
        seek_level_line(state, params, CEILING, 0, 0, params.width)


@kernel
def seek_paddle(state: Any, params: Any) -> None:
    """Look at the top of the paddle; it has no sides."""
    top = paddle_y(params)
    if state.ball_y + params.ball_height + state.ball_vy >= top:
        seek_level_line(state, params, PADDLE, top, state.paddle_x, state.paddle_x + state.paddle_width)


@kernel
def seek_upright_line(state: Any, params: Any, thing: int, x: float, top: float, bottom: float) -> None:
    """Note a thing with an upright line in the way of the ball, if that is met before all others so far."""
    edge = state.ball_x + params.ball_width if state.ball_vx > 0 else state.ball_x
    if abs(x - edge) <= abs(state.ball_vx):  # spares most lines the division
        time = (x - edge) / state.ball_vx
        y = state.ball_y + time * state.ball_vy
        overlap = min(bottom, y + params.ball_height) - max(top, y)
        note(state, thing, time, overlap, True, x)


@kernel
def seek_level_line(state: Any, params: Any, thing: int, y: float, left: float, right: float) -> None:
    """Note a thing with a level line in the way of the ball, if that is met before all others so far."""
    edge = state.ball_y + params.ball_height if state.ball_vy > 0 else state.ball_y
    if abs(y - edge) <= abs(state.ball_vy):
        time = (y - edge) / state.ball_vy
        x = state.ball_x + time * state.ball_vx
        overlap = min(right, x + params.ball_width) - max(left, x)
        note(state, thing, time, overlap, False, y)


@kernel
def note(state: Any, thing: int, time: float, overlap: float, upright: bool, line: float) -> None:
    """Keep the first of the things in the way; of two met at once, the one with the longer common edge."""
    earlier = 0 < time < state.met_time
    if overlap > 0 and (earlier or (time == state.met_time and overlap > state.met_overlap)):
        state.met = thing
        state.met_time = time
        state.met_overlap = overlap
        state.met_upright = upright
        state.met_line = line


@kernel
def reflect(state: Any, params: Any) -> None:
    """Put the ball at its contact with a brick or wall and turn its velocity."""
    if state.met_upright:
        state.ball_x = state.met_line - (params.ball_width if state.ball_vx > 0 else 0)
        state.ball_y += state.met_time * state.ball_vy
        state.ball_vx = -state.ball_vx
    else:
        state.ball_x += state.met_time * state.ball_vx
        state.ball_y = state.met_line - (params.ball_height if state.ball_vy > 0 else 0)
        state.ball_vy = -state.ball_vy


@kernel
def break_brick(state: Any, params: Any, observation: Any) -> None:
    """Points, and a fast ball from the upper rows."""
    row = state.met // params.brick_cols
    state.gone[state.met] = 1
    state.score += ROW_VALUE[row]
    observation[BRICKS + state.met] = 1.0
    observation[SCORE] = state.score / (2 * wall_value(params))
    if row < FAST_ROWS:
        state.ball_speed = FASTEST


@kernel
def bounce(state: Any, params: Any, observation: Any) -> None:
    """Send the ball back from where it is, by the place of the hit and the speed so far."""
    place = (state.ball_x + params.ball_width // 2 - state.paddle_x) / state.paddle_width
    angle = min(max(BOUNCE_ANGLE * (2 * place - 1), -STEEPEST_ANGLE), STEEPEST_ANGLE)
    state.ball_vx = math.sin(angle) * state.ball_speed / FRAMES_PER_SECOND
    state.ball_vy = -math.cos(angle) * state.ball_speed / FRAMES_PER_SECOND
    state.hits += 1
    if state.hits % HITS_PER_SPEED_UP == 0 and state.ball_speed < FASTEST:
        state.ball_speed += SPEED_UP
    if state.score == wall_value(params):
        build_wall(state, params, observation)


@kernel
def build_wall(state: Any, params: Any, observation: Any) -> None:
    """Bring all bricks back."""
    for brick in range(params.brick_rows * params.brick_cols):
        state.gone[brick] = 0
        observation[BRICKS + brick] = 0.0


@kernel
def start_round(state: Any, params: Any, observation: Any) -> None:
    """Paddle and ball in the middle, at rest."""
    state.launched = False
    state.hits = 0
    state.ball_speed = SLOWEST
    state.paddle_width = PADDLE_WIDTH
    state.paddle_x = params.width / 2 - PADDLE_WIDTH // 2
    state.ball_x = state.paddle_x + PADDLE_WIDTH // 2 - params.ball_width // 2
    state.ball_y = float(params.height // 2 - BALL_START_MARGIN)
    state.ball_vx = 0.0
    state.ball_vy = 0.0
    observation[IN_PLAY] = 0.0
    observation[BALLS] = state.balls / SPARE_BALLS
    observation[WIDTH] = 1.0


@kernel
def paddle_y(params: Any) -> Any:
    """Top edge of the paddle."""
    return params.height - params.paddle_height - PADDLE_MARGIN


@kernel
def wall_bottom(params: Any) -> Any:
    """Bottom edge of the lowest row of bricks."""
    return WALL_TOP + params.brick_rows * params.brick_height


@kernel
def wall_value(params: Any) -> Any:
    """Points of all bricks; the highest score is twice that."""
    return COLUMN_VALUE[params.brick_rows] * params.brick_cols


@kernel
def observe(state: Any, params: Any, observation: Any) -> None:
    """Write what moves in every step; the other entries are written where they change."""
    observation[PADDLE_X] = state.paddle_x / params.width
    observation[BALL_X] = state.ball_x / params.width
    observation[BALL_Y] = state.ball_y / params.height
    observation[BALL_VX] = state.ball_vx * VELOCITY_SCALE
    observation[BALL_VY] = state.ball_vy * VELOCITY_SCALE


@kernel
def statistics(state: Any, params: Any) -> tuple[float, float]:
    """Score and perf."""
    return float(state.score), state.score / (2 * wall_value(params))


def draw(state: Any, params: Params) -> Canvas:
    """Bricks in the colours of the rainbow, the paddle, and a pufferfish for a ball."""
    canvas = Canvas(params.width, params.height)
    width, height = params.brick_width, params.brick_height
    for brick in np.flatnonzero(state.gone == 0):
        row, column = divmod(int(brick), params.brick_cols)
        x, y = width * column + 0.5, WALL_TOP + height * row + 0.5
        canvas.rectangle(x, y, width - 1, height - 1, ROW_COLORS[row])
    top = params.height - params.paddle_height - PADDLE_MARGIN
    canvas.rectangle(state.paddle_x, top, state.paddle_width, params.paddle_height, PADDLE_COLOR, radius=3)
    x, y = state.ball_x + params.ball_width / 2, state.ball_y + params.ball_height / 2
    pufferfish(canvas, x, y, min(params.ball_width, params.ball_height) / 2, state.ball_vx)
    canvas.label(10, 10, f"Score: {state.score}")
    canvas.label(params.width - 80, 10, f"Balls: {state.balls}")
    return canvas


class Breakout(OceanVector):
    """Vectorised Breakout; the rules stand at the top of this module."""

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
