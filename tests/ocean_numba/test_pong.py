"""Pong rule by rule, its invariants, and every transition against a slow and literal version."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ocean_numba

STAY, UP, DOWN = 0, 1, 2


@pytest.fixture
def place(make):
    """place(ball_x=100, …): a game in flight in the middle of the field, with fields set."""

    def placed(frameskip=1, params=None, **fields):
        env = make("Pong", frameskip=frameskip, **(params or {}))
        flying = {"ball_x": 250.0, "ball_y": 300.0, "ball_vx": 10.0, "ball_vy": 2.0}
        for name, value in (flying | fields).items():
            env._states[name] = value
        return env

    return placed


def act(env, action=STAY):
    env.step(np.array([action]))
    return env._states[0]


def close(*values):
    return pytest.approx(values, abs=1e-9)


def test_an_episode_begins_with_a_serve_to_the_agent(make):
    env = make("Pong", 64)
    states = env._states
    assert np.isin(states["ball_vy"], (0, -1)).all()
    assert 15 < (states["ball_vy"] == 0).sum() < 49
    for field, value in {
        "opponent_y": 285,
        "agent_y": 285,
        "ball_x": 100,
        "ball_y": 304,
        "ball_vx": 10,
    }.items():
        assert (states[field] == value).all()
    assert env.observations[:, :5] == pytest.approx(np.tile([0.5, 0.5, 0.2, 304 / 640, 1], (64, 1)))
    assert env.observations[:, 5] == pytest.approx(0.5 + states["ball_vy"] / 26)
    assert not env.observations[:, 6:].any()
    assert env.single_observation_space.low == pytest.approx(np.full(8, -0.1))
    assert env.single_observation_space.high == pytest.approx(np.full(8, 1.1))


@pytest.mark.parametrize(("action", "after"), [(STAY, 285), (UP, 293), (DOWN, 277)])
def test_actions_move_the_paddle(place, action, after):
    env = place()
    assert act(env, action)["agent_y"] == after
    assert env.observations[0, 1] == pytest.approx((after + 35) / 640)


def test_a_continuous_action_scales_the_speed_and_is_clipped(place):
    env = place(params={"continuous": True})
    env.step(np.array([[-0.25]], np.float32))
    assert env._states["agent_y"] == close(283)
    env.step(np.array([[3.0]], np.float32))
    assert env._states["agent_y"] == close(291)


@pytest.mark.parametrize(("start", "action", "after"), [(601.0, UP, 605), (-30.0, DOWN, -35)])
def test_a_paddle_hangs_out_by_half_at_most(place, start, action, after):
    assert act(place(agent_y=start), action)["agent_y"] == after


@pytest.mark.parametrize(("ball_y", "after"), [(300.0, 277), (318.0, 283), (324.0, 289), (400.0, 293)])
def test_the_opponent_follows_the_lower_edge_of_the_ball_before_it_moves(place, ball_y, after):
    assert act(place(ball_y=ball_y, ball_vy=5.0))["opponent_y"] == after


@pytest.mark.parametrize(("y", "vy", "after"), [(1.0, -4.0, -3), (605.0, 4.0, 609), (4.0, -4.0, 0)])
def test_top_and_bottom_turn_the_ball_where_it_is(place, y, vy, after):
    state = act(place(ball_y=y, ball_vy=vy))
    turned = after < 0 or after + 32 > 640
    assert (state["ball_y"], state["ball_vy"]) == (after, -vy if turned else vy)


def test_the_opponent_returns_a_ball_beside_its_paddle(place):
    state = act(place(ball_x=4.0, ball_vx=-10.0, ball_vy=2.0, opponent_y=300.0))
    assert (state["ball_x"], state["ball_y"], state["ball_vx"], state["ball_vy"]) == (-6, 302, 10, 2)


@pytest.mark.parametrize(
    ("paddle_y", "missed"), [(339.0, False), (340.0, True), (223.0, False), (222.0, True)]
)
def test_the_edges_of_the_opponent(place, paddle_y, missed):
    # The ball is at 300 … 332; the paddle of 70 moves by 8 towards 265 first.
    env = place(ball_x=4.0, ball_vx=-10.0, ball_y=300.0, ball_vy=0.0, opponent_y=paddle_y)
    state = act(env)
    assert (env.rewards[0] == 1) == missed
    assert state["agent_points"] == missed


@pytest.mark.parametrize(
    ("vy", "action", "after"),
    [(2.0, STAY, 2), (2.0, UP, 5), (2.0, DOWN, -1), (12.0, UP, 13), (-12.0, DOWN, -13)],
)
def test_a_hit_pays_and_takes_the_motion_of_the_paddle_along(place, vy, action, after):
    env = place(ball_x=460.0, ball_y=300.0, ball_vy=vy, agent_y=285.0)
    state = act(env, action)
    assert (state["ball_x"], state["ball_y"]) == (468, 300 + vy)
    assert (state["ball_vx"], state["ball_vy"]) == (-10, after)
    assert env.rewards[0] == np.float32(0.1)
    assert env.observations[0, 4] == 0


@pytest.mark.parametrize(("vy", "action"), [(0.0, STAY), (3.0, DOWN), (-3.0, UP), (0.005, STAY)])
def test_no_ball_is_level_after_a_hit(place, vy, action):
    assert act(place(ball_x=460.0, ball_vy=vy, agent_y=285.0), action)["ball_vy"] == 3


@pytest.mark.parametrize(
    ("agent_y", "missed"), [(331.0, False), (332.0, True), (231.0, False), (230.0, True)]
)
def test_the_edges_of_the_agent(place, agent_y, missed):
    env = place(ball_x=460.0, ball_y=300.0, ball_vy=0.0, agent_y=agent_y)
    state = act(env)
    assert (state["opponent_points"], env.rewards[0]) == ((1, -1) if missed else (0, np.float32(0.1)))


def test_a_hit_puts_the_ball_back_into_the_field(place):
    state = act(place(ball_x=460.0, ball_y=1.0, ball_vy=-4.0, agent_y=0.0))
    assert (state["ball_x"], state["ball_y"], state["ball_vx"], state["ball_vy"]) == (468, 0, -10, 4)


def test_a_point_serves_and_ends_the_step(place):
    env = place(8, ball_x=460.0, agent_y=0.0, opponent_y=100.0)
    state = act(env, UP)
    assert (state["opponent_points"], state["agent_y"], state["opponent_y"]) == (1, 285, 285)
    assert (state["ball_x"], state["ball_y"], state["ball_vx"]) == (100, 304, 10)
    assert env.observations[0, 2:4] == pytest.approx([0.2, 304 / 640])
    assert env.observations[0, 6:] == pytest.approx([1 / 21, 0])
    assert (env.rewards[0], env.terminations[0]) == (-1, False)


def test_rewards_of_a_step_add_up(place):
    params = {"width": 41, "ball_width": 32, "ball_initial_speed_x": 9}
    env = place(16, params, ball_x=2.0, ball_y=300.0, ball_vx=9.0, ball_vy=3.0, agent_y=270.0)
    env._states["opponent_y"] = 600.0
    act(env)
    assert env.rewards[0] == pytest.approx(1.1)


@pytest.mark.parametrize("winner", ["agent", "opponent"])
def test_the_game_ends_at_max_score(place, winner):
    points = {"agent_points": 20, "opponent_points": 5} if winner == "agent" else {"opponent_points": 20}
    far = {"opponent_y": 600.0} if winner == "agent" else {"agent_y": 600.0}
    side = {"ball_x": 4.0, "ball_vx": -10.0} if winner == "agent" else {"ball_x": 460.0}
    env = place(**points, **far, **side)
    env._states["tick"], env._states["episode_return"] = 499, 3.5
    state = act(env)
    assert (env.terminations[0], env.truncations[0]) == (True, False)
    assert env.final_observations[0, 6 if winner == "opponent" else 7] == 1
    assert not env.observations[0, 6:].any()
    assert (state["agent_points"], state["opponent_points"], state["ball_x"]) == (0, 0, 100)
    difference, share, reward = (16, 21 / 26, 1) if winner == "agent" else (-21, 0, -1)
    assert env.drain() == {
        "episodes": 1,
        "episode_return": 3.5 + reward,
        "episode_length": 500,
        "score": difference,
        "perf": pytest.approx(share),
    }
    act(env)
    assert not env.terminations[0]


def test_truncation_without_a_point_has_no_perf(place):
    env = place(params={"max_steps": 2})
    act(env)
    assert not env.truncations[0]
    act(env)
    assert (env.terminations[0], env.truncations[0]) == (False, True)
    assert env.drain() == {"episodes": 1, "episode_return": 0, "episode_length": 2, "score": 0, "perf": 0}


class Reference:
    """One game, frame by frame; `state` is a record of the engine to begin from. A point ends the step."""

    def __init__(self, params, state):
        self.p = params
        self.yl, self.yr = float(state["opponent_y"]), float(state["agent_y"])
        self.x, self.y = float(state["ball_x"]), float(state["ball_y"])
        self.vx, self.vy = float(state["ball_vx"]), float(state["ball_vy"])

    def step(self, action):
        """(reward, who made a point: -1 nobody, 0 the opponent, 1 the agent)."""
        p, reward = self.p, 0.0
        d = max(-1.0, min(1.0, float(action))) if p.continuous else (0, 1, -1)[action]
        low, high = -p.paddle_height / 2, p.height - p.paddle_height / 2
        for _ in range(p.frameskip):
            self.yr += p.paddle_speed * d
            delta = self.y - (self.yl + p.paddle_height / 2)
            self.yl += min(max(delta, -p.paddle_speed), p.paddle_speed)
            self.yl, self.yr = min(max(self.yl, low), high), min(max(self.yr, low), high)
            self.x += self.vx
            self.y += self.vy
            if self.y < 0 or self.y + p.ball_height > p.height:
                self.vy = -self.vy
            if self.x < 0:
                if not (self.y + p.ball_height > self.yl and self.y < self.yl + p.paddle_height):
                    return reward + 1, 1
                self.vx = -self.vx
            if self.x + p.ball_width > p.width:
                if not (self.y + p.ball_height > self.yr and self.y < self.yr + p.paddle_height):
                    return reward - 1, 0
                self.vx = -self.vx
                reward += 0.1
                self.vy += p.ball_speed_y_increment * d
                self.vy = min(max(self.vy, -p.ball_max_speed_y), p.ball_max_speed_y)
                if abs(self.vy) < 0.01:
                    self.vy = min(p.ball_speed_y_increment, p.ball_max_speed_y)
                self.x = min(max(self.x, 0), p.width - p.ball_width)
                self.y = min(max(self.y, 0), p.height - p.ball_height)
        return reward, -1


@st.composite
def pong_params(draw):
    width, height = draw(st.integers(20, 700)), draw(st.integers(10, 700))
    ball_width = draw(st.integers(1, (4 * width - 1) // 5))
    fastest = draw(st.floats(0.5, 20))
    return {
        "width": width,
        "height": height,
        "ball_width": ball_width,
        "ball_height": draw(st.integers(1, height - 1)),
        "paddle_height": draw(st.integers(1, height - 1)),
        "paddle_speed": draw(st.floats(0.5, 20)),
        "ball_initial_speed_x": draw(st.floats(1.0, max(1.0, min(30.0, width - ball_width)))),
        "ball_max_speed_y": fastest,
        "ball_initial_speed_y": draw(st.floats(0, fastest)),
        "ball_speed_y_increment": draw(st.floats(0.25, 5)),
        "max_score": draw(st.integers(1, 5)),
        "frameskip": draw(st.integers(1, 16)),
        "continuous": draw(st.booleans()),
        "max_steps": draw(st.sampled_from([0, 1, 30])),
    }


def choose(env, rng):
    """Follow the ball, with noise."""
    n, p = env.num_envs, env.params
    offset = (env.observations[:, 3] - env.observations[:, 1]) * p.height + p.ball_height / 2
    offset = np.where(rng.random(n) < 0.3, rng.uniform(-20, 20, n), offset)
    if p.continuous:
        return (offset / 8).astype(np.float32)[:, None]
    return np.where(offset > 8, UP, np.where(offset < -8, DOWN, STAY))


@settings(max_examples=60)
@given(pong_params() | st.just({"frameskip": 8}) | st.just({}), st.integers(0, 2**32))
def test_invariants_and_every_transition(params, seed):
    env = ocean_numba.Pong(num_envs=6, **params)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    p, states = env.params, env._states
    low, high = -p.paddle_height / 2, p.height - p.paddle_height / 2
    returns, hits = np.zeros(6), np.zeros(6)
    for _ in range(60):
        before, actions = states.copy(), choose(env, rng)
        env.step(actions)
        ended = env.terminations | env.truncations
        assert not (env.terminations & env.truncations).any()
        for field in ("opponent_y", "agent_y"):
            assert ((states[field] >= low) & (states[field] <= high)).all()
        for field in ("opponent_points", "agent_points"):
            assert ((states[field] >= 0) & (states[field] < p.max_score)).all()
        assert (np.abs(states["ball_vx"]) == p.ball_initial_speed_x).all()
        fastest = p.ball_max_speed_y
        assert (np.abs(states["ball_vy"]) <= fastest).all()
        assert (states["ball_x"] >= -p.ball_initial_speed_x).all()
        assert (states["ball_x"] <= p.width - p.ball_width + 1e-9).all()
        assert all(o in env.single_observation_space for o in env.observations)
        assert all(o in env.single_observation_space for o in env.final_observations[ended])
        assert not env.observations[ended, 6:].any()
        for i in range(6):
            compare(env, i, before[i], actions[i] if actions.ndim == 1 else actions[i, 0], ended[i])
        assert params or np.isin(env.rewards, np.array([-1, 0, 0.1, 1], np.float32)).all()
        returns += env.rewards
        point = np.round(env.rewards)
        hits += np.round((env.rewards - point) * 10)
        score = np.where(ended, 0, states["agent_points"] - states["opponent_points"])
        assert returns[~ended] == pytest.approx(score[~ended] + 0.1 * hits[~ended], abs=1e-4)
        returns[ended], hits[ended] = 0, 0


def compare(env, i, before, action, ended):
    reference = Reference(env.params, before)
    reward, who = reference.step(action)
    assert env.rewards[i] == pytest.approx(reward)
    points = [before["opponent_points"], before["agent_points"]]
    if who >= 0:
        points[who] += 1
    assert env.terminations[i] == (max(points) == env.params.max_score)
    state = env._states[i]
    if ended:
        shown = env.final_observations[i, 6:]
        assert shown == pytest.approx(np.array(points) / env.params.max_score)
    else:
        assert [state["opponent_points"], state["agent_points"]] == points
        if who < 0:
            assert (state["ball_x"], state["ball_y"]) == close(reference.x, reference.y)
            assert (state["ball_vx"], state["ball_vy"]) == close(reference.vx, reference.vy)
            assert (state["opponent_y"], state["agent_y"]) == close(reference.yl, reference.yr)
    shown = env.observations[i]
    p = env.params
    expected = [
        (state["opponent_y"] + p.paddle_height / 2) / p.height,
        (state["agent_y"] + p.paddle_height / 2) / p.height,
        state["ball_x"] / p.width,
        state["ball_y"] / p.height,
        state["ball_vx"] > 0,
        (state["ball_vy"] + p.ball_max_speed_y) / (2 * p.ball_max_speed_y),
        state["opponent_points"] / p.max_score,
        state["agent_points"] / p.max_score,
    ]
    assert shown == pytest.approx(np.array(expected, float), abs=1e-6)
