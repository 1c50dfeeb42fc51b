"""Faulty parameters and actions are refused with a message that says which and what would do."""

import re

import numpy as np
import pytest

import ocean_numba
from ocean_numba.registration import find_class

OUT_OF_RANGE = [
    ("Breakout", "frameskip", (0, 17, -1, 2.5, "4", None, True, np.nan), "an integer from 1 to 16"),
    ("Breakout", "width", (62, 0), "an integer of at least 63"),
    ("Breakout", "height", (0,), "an integer of at least 1"),
    ("Breakout", "paddle_width", (61, 31, 100), "only 62"),
    ("Breakout", "paddle_height", (0,), "an integer of at least 1"),
    ("Breakout", "ball_width", (0,), "an integer of at least 1"),
    ("Breakout", "ball_height", (0,), "an integer of at least 1"),
    ("Breakout", "brick_width", (0,), "an integer of at least 1"),
    ("Breakout", "brick_height", (0,), "an integer of at least 1"),
    ("Breakout", "brick_rows", (0, 7), "an integer from 1 to 6"),
    ("Breakout", "brick_cols", (0,), "an integer of at least 1"),
    ("Breakout", "continuous", (1, "yes", None), "true or false"),
    ("Breakout", "max_steps", (-1, 10**400, np.inf), "an integer of at least 0"),
    ("Cartpole", "continuous", (0.5,), "true or false"),
    ("Cartpole", "max_steps", (0, -5, 1.5), "an integer of at least 1"),
    ("Squared", "size", (1, 0, 256, 3.5), "an integer from 2 to 255"),
    ("Pong", "width", (0, -3, 2.5), "an integer of at least 1"),
    ("Pong", "height", (0,), "an integer of at least 1"),
    ("Pong", "paddle_width", (0,), "an integer of at least 1"),
    ("Pong", "paddle_height", (0,), "an integer of at least 1"),
    ("Pong", "ball_width", (0,), "an integer of at least 1"),
    ("Pong", "ball_height", (0,), "an integer of at least 1"),
    ("Pong", "paddle_speed", (0, -1.0, np.inf, np.nan), "a number greater than 0"),
    ("Pong", "ball_initial_speed_x", (0,), "a number greater than 0"),
    ("Pong", "ball_initial_speed_y", (-0.1,), "a number of at least 0"),
    ("Pong", "ball_speed_y_increment", (0,), "a number greater than 0"),
    ("Pong", "ball_max_speed_y", (0,), "a number greater than 0"),
    ("Pong", "max_score", (0, 1.5), "an integer of at least 1"),
    ("Pong", "frameskip", (0, 17), "an integer from 1 to 16"),
    ("Pong", "continuous", (0,), "true or false"),
    ("Pong", "max_steps", (-1,), "an integer of at least 0"),
    ("Bandit", "num_actions", (1, 2.5), "an integer of at least 2"),
    ("Bandit", "reward_scale", (0, -1, np.inf), "a number greater than 0"),
    ("Bandit", "reward_noise", (-0.1,), "a number of at least 0"),
    ("Bandit", "hard_fixed_seed", (-1, 2**32), "an integer from 0 to 4294967295"),
    ("Continuous", "discretize", (1, "no"), "true or false"),
    ("Memory", "mem_length", (0,), "an integer of at least 1"),
    ("Memory", "mem_delay", (-1,), "an integer of at least 0"),
    ("Password", "password_length", (0, 31), "an integer from 1 to 30"),
    ("Password", "hard_fixed_seed", (-1, 2**32), "an integer from 0 to 4294967295"),
    ("Performance", "delay_mean", (-1e-9, np.nan), "a number of at least 0"),
    ("Performance", "delay_std", (-1,), "a number of at least 0"),
    ("Performance", "bandwidth", (0,), "an integer of at least 1"),
    ("PerformanceEmpiric", "count_n", (-1, 0.5), "an integer of at least 0"),
    ("PerformanceEmpiric", "count_std", (-1,), "a number of at least 0"),
    ("PerformanceEmpiric", "bandwidth", (0,), "an integer of at least 1"),
    ("SquaredPy", "distance_to_target", (0, 61), "an integer from 1 to 60"),
    ("SquaredPy", "num_targets", (-2, 1.5), "an integer of at least -1"),
    ("Stochastic", "p", (0, -0.5), "a number greater than 0"),
    ("Stochastic", "horizon", (0,), "an integer of at least 1"),
]


@pytest.mark.parametrize(("name", "field", "values", "takes"), OUT_OF_RANGE)
def test_each_parameter_names_its_range(name, field, values, takes):
    for value in values:
        message = re.escape(f"{field}={value!r} is not valid: it takes {takes}")
        with pytest.raises(ValueError, match=f"^{message}$"):
            find_class(name)(**{field: value})


def test_the_table_above_has_every_parameter(any_name):
    fields = find_class(any_name).Params.__dataclass_fields__
    assert set(fields) == {field for owner, field, _, _ in OUT_OF_RANGE if owner == any_name}
    assert all(field.metadata["help"] for field in fields.values())


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("Breakout", {"width": 575}, ("brick_cols=18", "brick_width=32", "width=575")),
        ("Breakout", {"ball_width": 576}, ("ball_width=576", "width=576")),
        ("Breakout", {"height": 300, "brick_height": 12}, ("brick_rows=6", "brick_height=12", "height=300")),
        ("Breakout", {"ball_height": 178}, ("ball_height=178", "height=330", "paddle_height=8")),
        ("Breakout", {"paddle_height": 154}, ("paddle_height=154", "height=330")),
        ("Pong", {"paddle_height": 640}, ("paddle_height=640", "height=640")),
        ("Pong", {"ball_height": 640}, ("ball_height=640", "height=640")),
        ("Pong", {"ball_width": 400}, ("ball_width=400", "width=500")),
        ("Pong", {"ball_initial_speed_x": 468.5}, ("ball_initial_speed_x=468.5", "468")),
        ("Pong", {"ball_initial_speed_y": 13.5}, ("ball_initial_speed_y=13.5", "ball_max_speed_y=13.0")),
        ("SquaredPy", {"num_targets": 25}, ("num_targets=25", "1 to 24", "distance_to_target=3")),
        ("SquaredPy", {"num_targets": 0}, ("num_targets=0", "-1, or 1 to 24")),
        ("Stochastic", {"p": 1}, ("p=1.0", "less than 1")),
    ],
)
def test_parameters_that_do_not_go_together(name, params, words):
    with pytest.raises(ValueError) as caught:
        find_class(name)(**params)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("Breakout", {"height": 306}),
        ("Breakout", {"ball_height": 177}),
        ("Breakout", {"width": 576.0, "frameskip": np.int64(16)}),
        ("Pong", {"ball_width": 399, "ball_initial_speed_x": 101}),
        ("Pong", {"ball_initial_speed_x": 468, "ball_initial_speed_y": 13, "paddle_height": 639}),
        ("Squared", {"size": 255}),
        ("Bandit", {"num_actions": 2, "hard_fixed_seed": 2**32 - 1}),
        ("Password", {"password_length": 30, "hard_fixed_seed": 0}),
        ("SquaredPy", {"distance_to_target": 60, "num_targets": 480}),
    ],
)
def test_the_last_values_that_go_together(name, params):
    find_class(name)(**params)


def test_all_faults_are_reported_together():
    with pytest.raises(ValueError, match=r"frameskip=0 .*; brick_rows=9 "):
        ocean_numba.Breakout(frameskip=0, brick_rows=9)


def test_an_unknown_parameter(any_name):
    with pytest.raises(TypeError, match=f"{any_name} has no parameter 'frameskipp'; it has "):
        find_class(any_name)(frameskipp=3)


@pytest.mark.parametrize("argument", ["num_envs", "num_threads"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2"])
def test_faulty_sizes(argument, value):
    with pytest.raises(ValueError, match=re.escape(f"{argument}={value!r} is not valid")):
        ocean_numba.Squared(**{argument: value})


def test_values_become_their_declared_type():
    params = ocean_numba.Pong(width=np.int32(500), paddle_speed=8, continuous=np.True_, max_score=3.0).params
    kinds = [type(v) for v in (params.width, params.paddle_speed, params.continuous, params.max_score)]
    assert kinds == [int, float, bool, int]


@pytest.mark.parametrize(("action", "shown"), [(-1, "-1"), (7, "7"), (2**40, str(2**40))])
def test_an_action_outside_the_space_is_named_and_nothing_is_stepped(name, make, action, shown):
    env = make(name, 5)
    before = env._states.copy(), env.observations.copy()
    actions = np.zeros(5, np.int64)
    actions[3] = action
    with pytest.raises(ValueError, match=f"^action {shown} of environment 3 is not in Discrete"):
        env.step(actions)
    assert np.array_equal(env._states, before[0])
    assert np.array_equal(env.observations, before[1])
    env.step(np.zeros(5, np.int64))


@pytest.mark.parametrize("continuous", ["Breakout", "Cartpole", "Pong"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_is_named_and_nothing_is_stepped(continuous, make, value):
    env = make(continuous, 3, continuous=True)
    before = env._states.copy()
    with pytest.raises(ValueError, match=f"^action {value} of environment 1 is not in Box"):
        env.step(np.array([[0], [value], [0]], np.float32))
    assert np.array_equal(env._states, before)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros(4, np.int64), "shape"),
        (np.zeros((3, 2), np.int64), "shape"),
        (0, "shape"),
        (np.zeros(3), "floa.* takes integers"),
        (np.zeros(3, bool), "bool"),
        (["0", "1", "2"], "takes integers"),
    ],
)
def test_actions_of_a_wrong_shape_or_type(make, actions, message):
    env = make("Pong", 3)
    with pytest.raises(ValueError, match=message):
        env.step(actions)


def test_the_caller_s_actions_are_left_alone(make):
    for env, actions in (
        (make("Pong", 3), np.array([0, 1, 2], np.int64)),
        (make("Pong", 3), np.array([0, 1, 2], np.uint8)),
        (make("Cartpole", 3, continuous=True), np.array([[-3], [0.5], [9]], np.float32)),
        (make("Breakout", 3, continuous=True), np.array([[-3], [0.5], [9]], np.float64)),
    ):
        before = actions.copy()
        actions.flags.writeable = False
        env.step(actions)
        assert np.array_equal(actions, before)
        assert actions.dtype == before.dtype
