"""Breakout rule by rule: a state is set up, a step made, the result compared with a sum done by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocean_numba

STAY, LEFT, RIGHT = 0, 1, 2


@pytest.fixture
def place(make):
    """place(ball_x=100, …): a one-frame game in flight in the open, with fields set."""

    def placed(frameskip=1, params=None, **fields):
        env = make("Breakout", frameskip=frameskip, **(params or {}))
        flying = {"launched": True, "ball_x": 200.0, "ball_y": 200.0, "ball_vx": 3.0, "ball_vy": 2.0}
        for name, value in (flying | fields).items():
            env._states[name] = value
        return env

    return placed


def act(env, action=STAY):
    env.step(np.array([action]))
    return env._states[0]


def close(*values):
    return pytest.approx(values, abs=1e-9)


def only(env, *bricks):
    """Leave these bricks alone standing."""
    env._states["gone"] = 1
    env._states["gone"][0, list(bricks)] = 0


def test_an_episode_begins_with_a_whole_wall_and_everything_in_the_middle(make):
    env = make("Breakout")
    expected = [257 / 576, 312 / 330, 272 / 576, 135 / 330, 0, 0, 0, 0, 1, 1] + [0] * 108
    assert env.observations[0] == pytest.approx(expected)
    assert env.single_observation_space == ocean_numba.Breakout().single_observation_space
    assert env.single_observation_space.low.min() == -2
    assert env.single_observation_space.high.max() == 2


def test_the_first_frame_launches_the_ball_and_ignores_a_discrete_action(make):
    env = make("Breakout", 64, frameskip=1)
    env.step(np.full(64, RIGHT))
    states = env._states
    assert np.all(states["paddle_x"] == 257)
    assert np.abs(states["ball_vx"]) == pytest.approx(np.full(64, 256 / 60 * math.sin(math.pi / 3.25)))
    assert states["ball_vx"][0] == pytest.approx(3.5114 * np.sign(states["ball_vx"][0]), abs=1e-4)
    assert states["ball_vy"] == pytest.approx(np.full(64, 2.4237), abs=1e-4)
    assert states["ball_x"] == pytest.approx(272 + states["ball_vx"])
    assert np.all(env.observations[:, 6] == np.float32(0.2))
    assert 15 < (states["ball_vx"] > 0).sum() < 49
    env.step(np.full(64, RIGHT))
    assert states["paddle_x"] == pytest.approx(np.full(64, 257 + 620 / 60))


def test_a_continuous_action_counts_in_the_frame_of_the_launch(make):
    env = make("Breakout", frameskip=1, continuous=True)
    env.step(np.array([[0.5]], np.float32))
    assert env._states["paddle_x"] == close(257 + 0.5 * 620 / 60)
    env.step(np.array([[-7.0]], np.float32))
    assert env._states["paddle_x"] == close(257 - 0.5 * 620 / 60)


@pytest.mark.parametrize(
    ("x", "width", "action", "expected"),
    [(5.0, 62, LEFT, 0), (510.0, 62, RIGHT, 514), (540.0, 31, RIGHT, 545), (100.0, 62, LEFT, 100 - 31 / 3)],
)
def test_the_paddle_stays_inside(place, x, width, action, expected):
    env = place(paddle_x=x, paddle_width=width)
    assert act(env, action)["paddle_x"] == pytest.approx(expected)


def test_free_flight(place):
    state = act(place())
    assert (state["ball_x"], state["ball_y"]) == close(203, 202)


@pytest.mark.parametrize(("row", "value"), [(0, 7), (1, 7), (2, 4), (3, 4), (4, 1), (5, 1)])
def test_a_brick_from_below(place, row, value):
    brick, bottom = 18 * row + 5, 50 + 12 * (row + 1)
    env = place(ball_x=5 * 32.0, ball_y=bottom + 3.0, ball_vx=0.8, ball_vy=-4.0)
    only(env, brick)
    state = act(env)
    assert (state["ball_x"], state["ball_y"]) == close(160 + 0.8 * 0.75, bottom)
    assert (state["ball_vx"], state["ball_vy"]) == close(0.8, 4.0)
    assert (state["score"], env.rewards[0]) == (value, value)
    assert state["gone"].all()
    assert state["ball_speed"] == (448 if row < 3 else 256)
    assert env.observations[0, 10 + brick] == 1
    assert env.observations[0, 7] == pytest.approx(value / 864)
    assert env.observations[0, 5] == pytest.approx(4 * 60 / 512)


def test_a_brick_from_above(place):
    env = place(ball_x=160.0, ball_y=86.0 - 32 - 1, ball_vx=0.0, ball_vy=4.0)
    only(env, 18 * 3 + 5)
    state = act(env)
    assert (state["ball_y"], state["ball_vy"]) == close(86 - 32, -4)


@pytest.mark.parametrize(("vx", "x", "contact"), [(4.0, 157.0, 160.0), (-4.0, 227.0, 224.0)])
def test_a_brick_from_the_side(place, vx, x, contact):
    env = place(ball_x=x, ball_y=90.0, ball_vx=vx, ball_vy=-0.4)
    only(env, 18 * 3 + 6)  # its left side is at 192, its right side at 224
    state = act(env)
    assert (state["ball_x"], state["ball_y"]) == close(contact, 90 - 0.3)
    assert (state["ball_vx"], state["ball_vy"]) == close(-vx, -0.4)


def test_of_two_bricks_met_at_once_the_one_with_the_longer_common_edge_breaks(place):
    env = place(ball_x=32 * 5 - 10.0, ball_y=122.0 + 2, ball_vx=0.0, ball_vy=-4.0)
    act(env)
    broken = np.flatnonzero(env._states["gone"][0])
    assert broken.tolist() == [18 * 5 + 5]  # 22 pixels below it, 10 below its left neighbour


def test_the_earliest_contact_counts(place):
    # The lower brick's bottom is met after 0.5 frames, the wall on the left after 0.25.
    env = place(ball_x=1.0, ball_y=124.0, ball_vx=-4.0, ball_vy=-4.0)
    state = act(env)
    assert (state["ball_x"], state["ball_y"], state["ball_vx"], state["ball_vy"]) == close(0, 123, 4, -4)
    assert not state["gone"].any()


@pytest.mark.parametrize(("x", "vx", "contact"), [(1.5, -3.0, 0), (542.5, 3.0, 544)])
def test_side_walls(place, x, vx, contact):
    state = act(place(ball_x=x, ball_vx=vx))
    assert (state["ball_x"], state["ball_y"], state["ball_vx"], state["ball_vy"]) == close(
        contact, 201, -vx, 2
    )


def test_the_ceiling_halves_the_paddle_until_the_round_ends(place):
    env = place(ball_y=1.0, ball_vy=-2.0, paddle_x=100.0)
    env._states["gone"] = 1
    state = act(env)
    assert (state["ball_x"], state["ball_y"], state["ball_vy"]) == close(201.5, 0, 2)
    assert (state["paddle_width"], state["paddle_x"]) == (31, 100)
    assert env.observations[0, 9] == 0.5
    act(env)
    assert state["paddle_width"] == 31
    env._states["ball_y"], env._states["ball_x"] = 319.0, 500.0
    act(env)
    assert (state["paddle_width"], state["paddle_x"], state["balls"]) == (62, 257, 4)
    assert env.observations[0, 9] == 1


@pytest.mark.parametrize(
    ("x", "y", "vx", "vy", "after"),
    [
        (-1.0, 200.0, -3.0, 2.0, (-1 + 448 * 1.1 / 60 - 3, 202)),
        (545.0, 200.0, 3.0, 2.0, (545 - 448 * 1.1 / 60 + 3, 202)),
        (200.0, -2.0, 3.0, -2.0, (203, -2 + 448 * 1.1 / 60 - 2)),
    ],
)
def test_a_ball_that_escaped_is_pushed_back(place, x, y, vx, vy, after):
    env = place(ball_x=x, ball_y=y, ball_vx=vx, ball_vy=vy)
    env._states["gone"] = 1
    state = act(env)
    assert (state["ball_x"], state["ball_y"]) == close(*after)


@pytest.mark.parametrize("offset", [0, 10, 31, 47, 62])
def test_the_place_on_the_paddle_decides_the_direction(place, offset):
    env = place(ball_x=300.0 + offset - 16, ball_y=279.0, ball_vx=0.0, ball_vy=2.0, paddle_x=300.0)
    state = act(env)
    angle = -math.pi / 4 + offset / 62 * math.pi / 2
    assert (state["ball_x"], state["ball_y"]) == close(300 + offset - 16, 279)
    velocity = (math.sin(angle) * 256 / 60, -math.cos(angle) * 256 / 60)
    assert (state["ball_vx"], state["ball_vy"]) == close(*velocity)
    assert state["hits"] == 1


def test_half_a_paddle_bounces_at_most_80_degrees(place):
    # The ball's middle is 15 px beyond the right end: the unlimited angle would be 88.5 degrees.
    env = place(
        ball_x=330.0, ball_y=279.0, ball_vx=0.0, ball_vy=2.0, paddle_x=300.0, paddle_width=31, ball_speed=448
    )
    state = act(env)
    angle = math.radians(80)
    assert (state["ball_vx"], state["ball_vy"]) == close(
        math.sin(angle) * 448 / 60, -math.cos(angle) * 448 / 60
    )


def test_the_paddle_misses_a_ball_beside_it(place):
    state = act(place(ball_x=362.0, ball_y=279.0, ball_vx=0.0, ball_vy=2.0, paddle_x=300.0))
    assert (state["ball_y"], state["ball_vy"], state["hits"]) == (281, 2, 0)


def test_every_fourth_hit_speeds_up_the_next(place):
    speeds, env = [], place()
    for _ in range(20):
        env._states["ball_x"], env._states["ball_y"], env._states["ball_vy"] = 300.0, 279.0, 2.0
        env._states["paddle_x"] = 285.0
        state = act(env)
        speeds.append(round(60 * math.hypot(state["ball_vx"], state["ball_vy"])))
    assert speeds == [256] * 4 + [320] * 4 + [384] * 4 + [448] * 8


def test_a_brick_of_the_upper_rows_speeds_up_the_next_hit(place):
    env = place(ball_x=160.0, ball_y=88.0, ball_vx=0.0, ball_vy=-4.0)
    only(env, 18 * 2 + 5)
    state = act(env)
    assert (state["ball_vy"], state["ball_speed"]) == (4, 448)


def test_the_next_hit_brings_the_wall_back_once(place):
    hit = {"ball_x": 300.0, "ball_y": 279.0, "ball_vx": 0.0, "ball_vy": 2.0, "paddle_x": 285.0}
    env = place(score=432, gone=1, **hit)
    env.observations[0, 10:] = 1
    state = act(env)
    assert not state["gone"].any()
    assert not env.observations[0, 10:].any()
    env = place(score=433, **hit)
    only(env, *range(1, 108))
    assert act(env)["gone"].sum() == 1


def test_a_lost_ball_starts_a_round(place):
    env = place(ball_y=319.0, ball_x=50.0, paddle_x=500.0, hits=3, ball_speed=448, score=9)
    env._states["gone"][0, :2] = 1
    state = act(env)
    assert not state["launched"]
    fields = (
        "hits",
        "ball_speed",
        "paddle_width",
        "paddle_x",
        "ball_x",
        "ball_y",
        "ball_vx",
        "balls",
        "score",
    )
    assert [state[field] for field in fields] == [0, 256, 62, 257, 272, 135, 0, 4, 9]
    assert state["gone"].sum() == 2
    assert env.observations[0, [6, 8]].tolist() == pytest.approx([0, 0.8])
    assert not env.terminations[0]


def test_the_last_lost_ball_ends_the_episode_and_the_step(place):
    env = place(frameskip=4, ball_y=319.0, ball_x=50.0, balls=0, score=9)
    env._states["tick"], env._states["episode_return"] = 99, 9.0
    state = act(env)
    assert (env.terminations[0], env.truncations[0], env.rewards[0]) == (True, False, 0)
    assert env.final_observations[0, 8] == np.float32(-1 / 5)
    assert not state["launched"]  # the remaining three frames are not played in the next episode
    assert (state["score"], state["balls"], state["tick"]) == (0, 5, 0)
    assert env.observations[0, :10].tolist() == pytest.approx(
        [257 / 576, 312 / 330, 272 / 576, 135 / 330, 0, 0, 0, 0, 1, 1]
    )
    assert env.drain() == {
        "episodes": 1,
        "episode_return": 9,
        "episode_length": 100,
        "score": 9,
        "perf": pytest.approx(9 / 864),
    }


def test_the_last_brick_of_the_second_wall_wins(place):
    env = place(ball_x=160.0, ball_y=124.0, ball_vx=0.0, ball_vy=-4.0, score=863)
    only(env, 18 * 5 + 5)
    act(env)
    assert (env.terminations[0], env.rewards[0]) == (True, 1)
    assert env.final_observations[0, 7] == 1
    assert env.final_observations[0, 10 + 18 * 5 + 5] == 1
    assert not env.observations[0, 10:].any()
    assert env.drain()["perf"] == 1


def test_truncation(place):
    env = place(params={"max_steps": 3})
    flags = []
    for _ in range(4):
        act(env)
        flags.append((bool(env.terminations[0]), bool(env.truncations[0])))
    assert flags == [(False, False), (False, False), (False, True), (False, False)]


def test_an_end_at_the_time_limit_is_a_termination_only(place):
    env = place(params={"max_steps": 1}, ball_y=319.0, ball_x=50.0, balls=0)
    act(env)
    assert (env.terminations[0], env.truncations[0]) == (True, False)


WALLS = st.sampled_from([(6, 18), (4, 27), (3, 36), (2, 54), (6, 18)])


@st.composite
def breakout_params(draw):
    """Valid parameters; the wall always has 108 bricks, since their number is part of the compiled state."""
    rows, columns = draw(WALLS)
    brick_width, brick_height = draw(st.integers(3, 32)), draw(st.integers(1, 12))
    ball_width = draw(st.integers(1, 64))
    bottom = 50 + rows * brick_height
    height = 2 * (bottom + 31 + draw(st.integers(0, 60))) + draw(st.integers(0, 1))
    room = height - height // 2 + 30 - 10
    paddle_height = draw(st.integers(1, min(20, room - 1)))
    return {
        "brick_rows": rows,
        "brick_cols": columns,
        "brick_width": brick_width,
        "brick_height": brick_height,
        "width": max(columns * brick_width, 63, ball_width + 1) + draw(st.integers(0, 50)),
        "height": height,
        "paddle_height": paddle_height,
        "ball_width": ball_width,
        "ball_height": draw(st.integers(1, min(64, room - paddle_height))),
        "frameskip": draw(st.integers(1, 16)),
        "continuous": draw(st.booleans()),
        "max_steps": draw(st.sampled_from([0, 1, 7, 120])),
    }


@given(breakout_params(), st.integers(0, 2**32), st.sampled_from(["random", "follow", "stay"]))
def test_invariants(params, seed, policy):
    env = ocean_numba.Breakout(num_envs=8, **params)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    values = np.repeat([7, 7, 4, 4, 1, 1][: params["brick_rows"]], params["brick_cols"])
    states, wall = env._states, int(values.sum())
    before, bricks_before, returns = states["score"].copy(), states["gone"].copy(), np.zeros(8)
    for _ in range(150):
        env.step(choose(env, policy, rng))
        ended = env.terminations | env.truncations
        assert not (env.terminations & env.truncations).any()
        assert np.isin(states["paddle_width"], (62, 31)).all()
        assert (states["paddle_x"] >= 0).all()
        assert (states["paddle_x"] + states["paddle_width"] <= params["width"]).all()
        assert ((states["balls"] >= 0) & (states["balls"] <= 5)).all()
        assert (states["score"] < 2 * wall).all()
        assert (states["score"] >= before)[~ended].all()
        assert (states["ball_y"] < params["height"] - 10).all()
        speed = 60 * np.hypot(states["ball_vx"], states["ball_vy"])
        assert np.isclose(speed[:, None], [0, 256, 320, 384, 448]).any(axis=1).all()
        assert (np.isclose(speed, 0) == ~states["launched"]).all()
        bricks = states["gone"]
        rebuilt = states["score"] >= wall
        rest = states["score"] - bricks @ values
        assert ((rest == 0) | ((rest == wall) & rebuilt)).all()
        assert np.array_equal(env.observations[:, 10:], bricks)
        assert ((bricks >= bricks_before).all(axis=1) | ended | rebuilt).all()
        assert np.isfinite(env.observations).all()
        assert all(o in env.single_observation_space for o in env.observations)
        assert all(o in env.single_observation_space for o in env.final_observations[ended])
        assert np.array_equal(env.observations[:, 7], (states["score"] / (2 * wall)).astype(np.float32))
        returns += env.rewards
        assert np.array_equal(returns[~ended], states["score"][~ended])
        assert env.final_observations[ended, 7] == pytest.approx(returns[ended] / (2 * wall))
        returns[ended] = 0
        before, bricks_before = states["score"].copy(), bricks.copy()


def choose(env, policy, rng):
    n, params = env.num_envs, env.params
    middle = env.observations[:, 0] * params.width + env.observations[:, 9] * 31
    offset = env.observations[:, 2] * params.width + params.ball_width / 2 - middle
    if policy == "random":
        offset = rng.uniform(-30, 30, n)
    elif policy == "stay":
        offset = np.zeros(n)
    if params.continuous:
        return np.clip(offset / 10, -1, 1).astype(np.float32)[:, None]
    return np.where(offset < -10, LEFT, np.where(offset > 10, RIGHT, STAY))


@given(breakout_params(), st.integers(0, 2**32), st.sampled_from(["random", "follow"]))
def test_a_step_is_its_frames_one_by_one(params, seed, policy):
    """Frames that the engine plays at once come to the same as frames played alone."""
    params = {**params, "max_steps": 0}
    whole = ocean_numba.Breakout(num_envs=4, **params)
    single = ocean_numba.Breakout(num_envs=4, **{**params, "frameskip": 1})
    rng = np.random.default_rng(seed)
    whole.reset(seed)
    for _ in range(60):
        single._states[...] = whole._states
        actions = choose(whole, policy, rng)
        whole.step(actions)
        rewards, ended = np.zeros(4), np.zeros(4, bool)
        for _ in range(params["frameskip"]):
            kept = single._states.copy()
            single.step(actions)
            rewards += np.where(ended, 0, single.rewards)
            single._states[ended] = kept[ended]
            ended |= single.terminations
        assert np.array_equal(whole.terminations, ended)
        assert np.array_equal(whole.rewards, rewards)
        for field in ("ball_x", "ball_y", "ball_vx", "ball_vy", "paddle_x", "score", "balls", "hits", "gone"):
            assert whole._states[field] == pytest.approx(single._states[field], abs=1e-9), field
