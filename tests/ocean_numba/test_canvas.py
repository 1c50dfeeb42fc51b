"""Pictures and text."""

import re

import numpy as np
import pytest

from ocean_numba.engine import CYAN, RED, WHITE, Canvas, pufferfish

BLACK = (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "params", "size"),
    [
        ("Breakout", {}, (330, 576)),
        ("Breakout", {"width": 600, "height": 400}, (400, 600)),
        ("Cartpole", {}, (200, 600)),
        ("Pong", {}, (640, 620)),
        ("Pong", {"width": 300, "height": 200, "paddle_width": 10}, (200, 360)),
        ("Squared", {}, (704, 704)),
        ("Squared", {"size": 3}, (192, 192)),
    ],
)
def test_pictures_have_the_size_of_the_window(make, name, params, size):
    picture = make(name, 2, **params).render(1)
    assert (picture.shape, picture.dtype) == ((*size, 3), np.uint8)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 2
    assert tuple(picture[-1, 0]) == (6, 24, 24) or name == "Squared"


def test_pictures_follow_the_game(name, make, random_actions):
    env, rng = make(name, num_envs=2), np.random.default_rng(0)
    before = env.render()
    for _ in range(5):
        env.step(random_actions(env, rng))
    assert not np.array_equal(env.render(), before)


@pytest.mark.parametrize("columns", [20, 64, 100])
def test_text_has_the_width_that_was_asked_for(name, make, columns):
    env = make(name)
    lines = env.render_text(columns=columns).split("\n")
    picture = [line for line in lines if "▀" in line]
    assert {line.count("▀") for line in picture} == {columns}
    height, width, _ = env.render().shape
    assert len(picture) == pytest.approx(height * columns / width / 2, abs=1)
    plain = env.render_text(columns=columns, color=False).split("\n")
    assert len(plain) == len(lines)
    assert all(line.isascii() and len(line) <= max(columns, 60) for line in plain)


def test_breakout_shows_bricks_paddle_ball_and_labels(make):
    env = make("Breakout")
    env._states["score"], env._states["balls"] = 123, 4
    env._states["gone"][0, 1] = 1
    picture = env.render()
    rainbow = [tuple(picture[56 + 12 * row, 16]) for row in range(6)]
    assert rainbow == [
        (230, 41, 55),
        (255, 161, 0),
        (253, 249, 0),
        (0, 228, 48),
        (102, 191, 255),
        (0, 121, 241),
    ]
    assert tuple(picture[56, 48]) == (6, 24, 24)
    assert tuple(picture[316, 288]) == (0, 255, 255)
    assert env.render_text().splitlines()[0] == "Score: 123   Balls: 4"


def test_pong_shows_paddles_and_points(make):
    env = make("Pong")
    env._states["opponent_points"], env._states["agent_points"], env._states["agent_y"] = 3, 12, 500
    picture = env.render()
    assert tuple(picture[320, 50]) == (255, 0, 0)
    assert tuple(picture[640 - 535, 570]) == (0, 255, 255)
    assert env.render_text().splitlines()[0] == "3   12"


def test_the_fish_looks_where_it_swims():
    faces = []
    for facing in (1, -1):
        canvas = Canvas(40, 40, BLACK)
        pufferfish(canvas, 20, 20, 16, facing)
        faces.append(canvas.image())
    assert not np.array_equal(faces[0], faces[1])
    white = [np.argwhere((face > 240).all(axis=-1))[:, 1].mean() for face in faces]
    assert white[0] > 20 > white[1]
    rows, columns = np.nonzero(faces[0].any(axis=-1))
    assert min(rows.min(), columns.min()) >= 2
    assert max(rows.max(), columns.max()) <= 38


def test_shapes():
    canvas = Canvas(30, 20, BLACK)
    canvas.rectangle(2, 3, 5, 4, RED)
    canvas.disc(20, 10, 5, CYAN)
    canvas.line(0, 18, 30, 18, WHITE, width=2)
    picture = canvas.image()
    assert picture.shape == (20, 30, 3)
    assert (picture[3:7, 2:7] == RED).all()
    assert not picture[3:7, 7].any()
    assert tuple(picture[10, 20]) == CYAN
    assert tuple(picture[18, 5]) == WHITE
    assert not picture[10, 10].any()


def test_empty_rectangles_are_nothing():
    canvas = Canvas(10, 10, BLACK)
    canvas.rectangle(2, 2, 0, 5, RED)
    canvas.rectangle(2, 2, 5, -1, RED)
    assert not canvas.image().any()


def test_labels_are_in_the_picture_and_above_the_text():
    canvas = Canvas(100, 40, BLACK)
    canvas.label(5, 5, "Score: 7")
    assert canvas.image().any()
    assert canvas.text_image(50, color=False).splitlines()[0] == "Score: 7"
    colored = canvas.text_image(50).splitlines()
    assert re.sub("\x1b\\[[0-9;]*m", "", colored[1]) == "▀" * 50
