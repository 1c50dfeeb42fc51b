"""Breakout against a second, slow and literal version of its rules, frame by frame and line by line."""

import math

import numpy as np
import pytest

import ocean_numba

MASK = 2**64 - 1


def coin(state):
    """The next draw of a stream, as documented: SplitMix64 with an increment per stream; its top bit."""
    z = (int(state["rng_key"]) + (int(state["rng_counter"]) + 1) * int(state["rng_gamma"])) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return (z ^ (z >> 31)) >> 63


class Reference:
    """One game; `state` is a record of the engine to begin from."""

    def __init__(self, params, state):
        self.p = params
        self.paddle_y = params.height - params.paddle_height - 10
        for field in ("ball_x", "ball_y", "ball_vx", "ball_vy", "paddle_x"):
            setattr(self, field, float(state[field]))
        for field in ("paddle_width", "ball_speed", "hits", "score", "balls"):
            setattr(self, field, int(state[field]))
        self.launched, self.coin = bool(state["launched"]), coin(state)
        self.gone = [bool(b) for b in state["gone"]]
        self.wall_value = sum(self.value(r) for r in range(params.brick_rows)) * params.brick_cols

    def value(self, row):
        return 7 - 3 * (row // 2)

    def round_start(self):
        self.launched, self.hits, self.ball_speed, self.paddle_width = False, 0, 256, 62
        self.paddle_x = self.p.width / 2 - 31
        self.ball_x = self.paddle_x + 31 - self.p.ball_width // 2
        self.ball_y = float(self.p.height // 2 - 30)
        self.ball_vx = self.ball_vy = 0.0

    def step(self, action):
        score = self.score
        for _ in range(self.p.frameskip):
            self.frame(action)
            if self.balls < 0 or self.score == 2 * self.wall_value:
                return self.score - score, True
        return self.score - score, False

    def frame(self, action):
        p = self.p
        speed = min(1.0, max(-1.0, float(action))) if p.continuous else (0.0, -1.0, 1.0)[action]
        if not self.launched:
            self.launched = True
            self.ball_vy = math.cos(math.pi / 3.25) * 256 / 60
            self.ball_vx = math.sin(math.pi / 3.25) * 256 / 60 * (1 if self.coin else -1)
            speed = speed if p.continuous else 0.0
        self.paddle_x += speed * 620 / 60
        if self.paddle_x <= 0:
            self.paddle_x = max(0, self.paddle_x)
        else:
            self.paddle_x = min(p.width - self.paddle_width, self.paddle_x)
        push = 448 * 1.1 / 60
        if self.ball_x < 0:
            self.ball_x += push
        if self.ball_x + p.ball_width > p.width:
            self.ball_x -= push
        if self.ball_y < 0:
            self.ball_y += push
        self.collide()
        if self.ball_y >= self.paddle_y + p.paddle_height:
            self.balls -= 1
            self.round_start()

    def collide(self):
        self.best = (2.0, -1.0, None, None)  # time, overlap, what, (x, y, vx, vy) at the contact
        self.bricks()
        self.walls()
        self.paddle()
        _, _, what, contact = self.best
        if what is None:
            self.ball_x += self.ball_vx
            self.ball_y += self.ball_vy
        elif what == "paddle":
            self.bounce()
        else:
            self.ball_x, self.ball_y, self.ball_vx, self.ball_vy = contact
            if what == "top":
                self.paddle_width = 31
            elif what != "side":
                row = what // self.p.brick_cols
                self.gone[what] = True
                self.score += self.value(row)
                if row < 3:
                    self.ball_speed = 448

    def bricks(self):
        p, x, y, vx, vy = self.p, self.ball_x, self.ball_y, self.ball_vx, self.ball_vy
        columns = (
            min(x, x + vx) / p.brick_width,
            max(x + p.ball_width, x + p.ball_width + vx) / p.brick_width,
        )
        rows = (
            (min(y, y + vy) - 50) / p.brick_height,
            (max(y + p.ball_height, y + p.ball_height + vy) - 50) / p.brick_height,
        )
        first_column, last_column = (min(max(math.floor(c), 0), p.brick_cols - 1) for c in columns)
        first_row, last_row = (min(max(math.floor(r), 0), p.brick_rows - 1) for r in rows)
        for row in range(first_row, last_row + 1):
            for column in range(first_column, last_column + 1):
                brick = row * p.brick_cols + column
                if self.gone[brick]:
                    continue
                left, top = column * p.brick_width, 50 + row * p.brick_height
                if vx > 0:
                    self.vertical(left, top, p.brick_height, brick, right_edge=True)
                if vx < 0:
                    self.vertical(left + p.brick_width, top, p.brick_height, brick, right_edge=False)
                if vy > 0:
                    self.horizontal(left, top, p.brick_width, brick, bottom_edge=True)
                if vy < 0:
                    self.horizontal(left, top + p.brick_height, p.brick_width, brick, bottom_edge=False)

    def walls(self):
        if self.ball_vx < 0:
            self.vertical(0, 0, self.p.height, "side", right_edge=False)
        if self.ball_vx > 0:
            self.vertical(self.p.width, 0, self.p.height, "side", right_edge=True)
        if self.ball_vy < 0:
            self.horizontal(0, 0, self.p.width, "top", bottom_edge=False)

    def paddle(self):
        if self.ball_y + self.p.ball_height + self.ball_vy >= self.paddle_y:
            self.horizontal(self.paddle_x, self.paddle_y, self.paddle_width, "paddle", bottom_edge=True)

    def vertical(self, line_x, line_y, length, what, right_edge):
        width = self.p.ball_width if right_edge else 0
        if self.ball_vx == 0:
            return
        t = (line_x - (self.ball_x + width)) / self.ball_vx
        y = self.ball_y + self.ball_vy * t
        overlap = min(line_y + length, y + self.p.ball_height) - max(line_y, y)
        self.offer(t, overlap, what, (line_x - width, y, -self.ball_vx, self.ball_vy))

    def horizontal(self, line_x, line_y, length, what, bottom_edge):
        height = self.p.ball_height if bottom_edge else 0
        if self.ball_vy == 0:
            return
        t = (line_y - (self.ball_y + height)) / self.ball_vy
        x = self.ball_x + self.ball_vx * t
        overlap = min(line_x + length, x + self.p.ball_width) - max(line_x, x)
        self.offer(t, overlap, what, (x, line_y - height, self.ball_vx, -self.ball_vy))

    def offer(self, t, overlap, what, contact):
        best_t, best_overlap, _, _ = self.best
        if overlap > 0 and 0 < t <= 1 and (t < best_t or (t == best_t and overlap > best_overlap)):
            self.best = (t, overlap, what, contact)

    def bounce(self):
        relative = (self.ball_x + self.p.ball_width // 2 - self.paddle_x) / self.paddle_width
        angle = -math.pi / 4 + relative * math.pi / 2
        angle = max(-math.radians(80), min(math.radians(80), angle))
        self.ball_vx = math.sin(angle) * self.ball_speed / 60
        self.ball_vy = -math.cos(angle) * self.ball_speed / 60
        self.hits += 1
        if self.hits % 4 == 0 and self.ball_speed < 448:
            self.ball_speed += 64
        if self.score == self.wall_value:
            self.gone = [False] * len(self.gone)

    def observation(self):
        p, scale = self.p, 60 / 512
        return [
            self.paddle_x / p.width,
            self.paddle_y / p.height,
            self.ball_x / p.width,
            self.ball_y / p.height,
            self.ball_vx * scale,
            self.ball_vy * scale,
            0.2 if self.launched else 0.0,
            self.score / (2 * self.wall_value),
            self.balls / 5,
            self.paddle_width / 62,
            *(1.0 if g else 0.0 for g in self.gone),
        ]


FIELDS = ("ball_x", "ball_y", "ball_vx", "ball_vy", "paddle_x")
COUNTS = ("paddle_width", "ball_speed", "hits", "score", "balls", "launched")


@pytest.mark.parametrize(
    ("steps", "params"),
    [
        (180, {}),
        (450, {"frameskip": 1}),
        (250, {"continuous": True, "frameskip": 5}),
        (250, {"frameskip": 8, "ball_width": 10, "ball_height": 14, "brick_height": 3, "brick_width": 31}),
        (
            120,
            {"frameskip": 16, "brick_rows": 2, "brick_cols": 54, "brick_width": 6, "brick_height": 2}
            | {"width": 325, "height": 180, "ball_width": 5, "ball_height": 3, "paddle_height": 2},
        ),
    ],
)
def test_every_transition_equals_the_reference(steps, params):
    env = ocean_numba.Breakout(num_envs=16, **params)
    env.reset(3)
    rng = np.random.default_rng(4)
    points = 0
    for number in range(steps):
        before = env._states.copy()
        if number % 100 == 99:  # let some play with a wall nearly gone, and against time
            before["gone"][::2] = rng.random(before["gone"][::2].shape) < 0.7
            consistent_scores(env, before)
        env._states[...] = before
        env.observations[:, 10:] = before["gone"]
        env.observations[:, 7] = before["score"] / (2 * wall_value(env))
        actions = follow(env, rng)
        env.step(actions)
        for i in range(env.num_envs):
            reference = Reference(env.params, before[i])
            reward, ended = reference.step(actions[i] if actions.ndim == 1 else actions[i, 0])
            points += reward
            assert (env.rewards[i], env.terminations[i]) == (reward, ended)
            if ended:
                assert env.final_observations[i] == pytest.approx(reference.observation(), abs=1e-6)
                continue
            state = env._states[i]
            for field in FIELDS:
                assert abs(state[field] - getattr(reference, field)) < 1e-9, field
            for field in COUNTS:
                assert state[field] == getattr(reference, field), field
            assert state["gone"].tolist() == reference.gone
            assert env.observations[i] == pytest.approx(reference.observation(), abs=1e-6)
    assert points > 100


def wall_value(env):
    return int(np.repeat([7, 7, 4, 4, 1, 1][: env.params.brick_rows], env.params.brick_cols).sum())


def consistent_scores(env, states):
    values = np.repeat([7, 7, 4, 4, 1, 1][: env.params.brick_rows], env.params.brick_cols)
    states["score"] = states["gone"] @ values


def follow(env, rng):
    middle = env.observations[:, 0] * env.params.width + env.observations[:, 9] * 31
    offset = env.observations[:, 2] * env.params.width + env.params.ball_width / 2 - middle
    offset = np.where(rng.random(env.num_envs) < 0.15, rng.uniform(-30, 30, env.num_envs), offset)
    if env.params.continuous:
        return (offset / 8).astype(np.float32)[:, None]
    return np.where(offset < -6, 1, np.where(offset > 6, 2, 0))
