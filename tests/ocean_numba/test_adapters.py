"""The environments behind Gymnasium's API pass its checkers, agree with each other and with the engine."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import ocean_numba
from ocean_numba.adapters import make_env, make_vector_env

CONTINUOUS = {"continuous": True}
VARIANTS = pytest.mark.parametrize(
    ("name", "params"),
    [
        ("Breakout", {}),
        ("Breakout", CONTINUOUS),
        ("Cartpole", {}),
        ("Cartpole", CONTINUOUS),
        ("Pong", {}),
        ("Pong", CONTINUOUS),
        ("Squared", {}),
        ("Bandit", {}),
        ("Continuous", {}),
        ("Continuous", {"discretize": True}),
        ("Memory", {}),
        ("Password", {}),
        ("Performance", {}),
        ("PerformanceEmpiric", {}),
        ("SquaredPy", {}),
        ("Stochastic", {}),
    ],
)
# Whose velocities know no bounds, as in Gymnasium's own.
UNBOUNDED = ("Cartpole", "Continuous")
ENDLESS = ("Performance", "PerformanceEmpiric")


@VARIANTS
def test_gymnasium_s_checker_has_no_complaint(name, params):
    env = gymnasium.make(f"ocean/{name}-v0", render_mode="rgb_array", **params)
    with warnings.catch_warnings():
        if name in UNBOUNDED:
            warnings.filterwarnings("ignore", ".*A Box observation space m.* value is -?infinity")
        check_env(env.unwrapped)
    env.close()


FRESH = """
import warnings; warnings.simplefilter("error")
import gymnasium
env = gymnasium.make("ocean_numba:ocean/Breakout-v0", frameskip=2)
print(env.spec.id, env.reset(seed=1)[0].shape, env.unwrapped.engine.params.frameskip)
envs = gymnasium.make_vec("ocean/Breakout-v0", num_envs=8, vectorization_mode="vector_entry_point")
print(type(envs).__name__, envs.num_envs)
"""


def test_gymnasium_finds_the_environments_by_their_module(python):
    assert python(FRESH).splitlines() == ["ocean/Breakout-v0 (118,) 2", "OceanVectorEnv 8"]


def test_registering_twice_is_no_fault():
    before = dict(gymnasium.registry)
    ocean_numba.registration.register()
    assert gymnasium.registry == before


def play(env, steps, seed=0):
    """What step() returned, with the first observation of the next episode where one ended."""
    env.action_space.seed(seed)
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        following = env.reset()[0] if terminated or truncated else observation
        yield observation, reward, terminated, truncated, info, following


def test_one_environment_equals_the_engine(any_name, make):
    env, engine = make_env(any_name), make(any_name, 1, [9])
    assert np.array_equal(env.reset(seed=9)[0], engine.observations[0])
    ends, env_steps = 0, play(env, 2500, seed=4)
    actions = make_env(any_name).action_space
    actions.seed(4)
    for observation, reward, terminated, truncated, info, following in env_steps:
        engine.step(np.array([actions.sample()]))
        assert (terminated, truncated) == (engine.terminations[0], engine.truncations[0])
        ended = terminated or truncated
        true = engine.final_observations if ended else engine.observations
        assert np.array_equal(observation, true[0])
        assert np.array_equal(following, engine.observations[0])
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert reward == engine.rewards[0]
        if ended:
            expected = engine.drain()
            assert expected.pop("episodes") == 1
            assert info == expected
            ends += 1
        else:
            assert info == {}
    assert ends > 2 or any_name in ("Pong", *ENDLESS)


def test_a_reset_in_the_middle_begins_an_episode():
    env, other = make_env("Squared"), make_env("Squared")
    boards = []
    for one in (env, other):
        one.reset(seed=3)
        one.step(1)
        boards.append(one.reset()[0])
    assert np.array_equal(*boards)
    assert boards[0][60] == 1
    env.step(2)
    assert not np.array_equal(env.reset()[0], boards[0])


def test_returned_arrays_stay_what_they_were():
    env = make_env("Cartpole")
    first, _ = env.reset(seed=1)
    kept = first.copy()
    second = env.step(1)[0]
    assert np.array_equal(first, kept)
    assert not np.shares_memory(first, second)


def test_the_seed_of_an_unseeded_environment_can_be_asked_for():
    env = make_env("Squared")
    board, _ = env.reset()
    again, _ = make_env("Squared").reset(seed=env.np_random_seed)
    assert np.array_equal(board, again)


def test_steps_need_an_episode():
    env = make_env("Cartpole", max_steps=1)
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=1)
    env.step(0)
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(ResetNeeded):
        make_vector_env("Cartpole", 2).step(np.zeros(2, int))


@pytest.mark.parametrize("action", [5, -1, 0.5, [1, 1], None, "up"])
def test_faulty_actions(action):
    env = make_env("Squared")
    env.reset(seed=1)
    with pytest.raises(ValueError):
        env.step(action)


def test_a_time_limit_of_gymnasium_s_own():
    env = gymnasium.make("ocean/Breakout-v0", max_episode_steps=3)
    env.reset(seed=1)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    env.reset()
    assert env.unwrapped.engine._states["tick"][0] == 0


@pytest.mark.parametrize("mode", ["rgb_array", "ansi"])
def test_rendering(any_name, mode):
    env = gymnasium.make(f"ocean/{any_name}-v0", render_mode=mode)
    env.reset(seed=1)
    picture = env.render()
    if mode == "ansi":
        assert picture.count("\n") >= 2
        assert "▀" in picture
    else:
        assert (picture.ndim, picture.dtype) == (3, np.uint8)
    assert env.metadata["render_fps"] == env.unwrapped.engine.frames_per_second > 0
    envs = make_vector_env(any_name, 2, render_mode=mode)
    envs.reset(seed=1)
    assert len(envs.render()) == 2


def test_lists_of_frames_come_from_gymnasium():
    env = gymnasium.make("ocean/Squared-v0", render_mode="rgb_array_list")
    env.reset(seed=1)
    env.step(1)
    assert len(env.render()) == 2


def test_worlds_of_several_agents_are_not_registered():
    registered = {name.removeprefix("ocean/") for name in gymnasium.registry if name.startswith("ocean/")}
    assert "Bandit-v0" in registered
    assert "Multiagent-v0" not in registered


def test_faulty_requests():
    with pytest.raises(ValueError, match="no environment 'Brakeout'; there are Breakout, "):
        make_env("Brakeout")
    with pytest.raises(ValueError, match="render_mode='human' is not valid: it takes None, rgb_array, ansi"):
        make_env("Pong", render_mode="human")
    with pytest.raises(ValueError, match="without a render_mode"):
        make_env("Pong").render()
    with pytest.raises(TypeError, match="Pong has no parameter 'frameskipp'"):
        gymnasium.make("ocean/Pong-v0", frameskipp=1)
    with pytest.raises(ValueError, match="frameskip=0"):
        gymnasium.make_vec("ocean/Pong-v0", num_envs=2, frameskip=0)


@VARIANTS
def test_the_vector_equals_gymnasium_s_vector_of_single_ones(name, params):
    if name == "Pong":
        params = {**params, "frameskip": 8, "max_score": 1}
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    theirs = gymnasium.make_vec(f"ocean/{name}-v0", 5, "sync", vector_kwargs=same_step, **params)
    ours = gymnasium.make_vec(f"ocean/{name}-v0", 5, "vector_entry_point", **params)
    assert isinstance(theirs, SyncVectorEnv)
    for attribute in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert ours.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert np.array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    ours.action_space.seed(6)
    ended = 0
    for _ in range(600):
        actions = ours.action_space.sample()
        mine, other = ours.step(actions), theirs.step(actions)
        assert np.array_equal(mine[0], other[0])
        assert mine[0] in ours.observation_space
        assert mine[1] == pytest.approx(other[1], abs=1e-7)
        assert all(np.array_equal(mine[k], other[k]) for k in (2, 3))
        assert mine[4].keys() == other[4].keys()
        for key in mine[4]:
            assert data_equivalence(mine[4][key], other[4][key]), key
        ended += (mine[2] | mine[3]).sum()
    assert ended > 5 or name in ENDLESS


def test_a_row_of_the_vector_is_the_single_environment_of_its_seed(name):
    env, envs = make_env(name), make_vector_env(name, 3)
    observation, _ = env.reset(seed=8)
    observations, _ = envs.reset(seed=[7, 8, 2**64 - 1])
    assert np.array_equal(observations[1], observation)
    rng = np.random.default_rng(0)
    for _ in range(300):
        actions = rng.integers(0, env.action_space.n, 3)
        observation, reward, terminated, truncated, _ = env.step(actions[1])
        if terminated or truncated:
            observation, _ = env.reset()
        observations, rewards, terminations, truncations, _ = envs.step(actions)
        assert np.array_equal(observations[1], observation)
        assert (rewards[1], terminations[1], truncations[1]) == (np.float32(reward), terminated, truncated)


def test_the_vector_copies_unless_told_otherwise():
    for copy in (True, False):
        envs = make_vector_env("Cartpole", 2, copy=copy)
        first, _ = envs.reset(seed=1)
        second, rewards, *_ = envs.step(np.zeros(2, int))
        assert np.shares_memory(first, second) != copy
        assert np.shares_memory(rewards, envs.engine.rewards) != copy


def test_a_reset_mask_resets_some():
    envs = make_vector_env("Squared", 4)
    envs.reset(seed=1)
    before = envs.step(np.ones(4, int))[0]
    mask = np.array([True, False, False, True])
    after, _ = envs.reset(options={"reset_mask": mask})
    assert np.array_equal(after[~mask], before[~mask])
    assert (after[mask, 60] == 1).all()
    seeded, _ = envs.reset(
        seed=[None, 3, None, 3], options={"reset_mask": np.array([False, True, False, True])}
    )
    assert np.array_equal(seeded[1], seeded[3])
    assert np.array_equal(seeded[0], after[0])


@pytest.mark.parametrize("mask", [[True, False], np.ones(3, bool), np.ones(2), np.zeros(2, bool)])
def test_faulty_reset_masks(mask):
    with pytest.raises(ValueError, match="reset_mask"):
        make_vector_env("Squared", 2).reset(options={"reset_mask": mask})


def test_a_list_of_seeds_needs_one_for_each():
    with pytest.raises(ValueError, match="3 seeds were given for 2 environments"):
        make_vector_env("Squared", 2).reset(seed=[1, 2, 3])


def test_the_vector_may_use_threads():
    results = []
    for num_threads in (1, 2):
        envs = make_vector_env("Squared", 16, num_threads=num_threads)
        envs.reset(seed=1)
        results.append([envs.step(np.full(16, i % 5))[0] for i in range(20)])
    assert np.array_equal(*results)


def test_gymnasium_s_vector_wrappers_fit():
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        gymnasium.make_vec("ocean/Cartpole-v0", num_envs=4)
    )
    envs.reset(seed=1)
    for _ in range(100):
        *_, info = envs.step(np.zeros(4, int))
        if "episode" in info:
            break
    ended = info["_episode"]
    assert np.array_equal(info["episode"]["l"][ended], info["final_info"]["episode_length"][ended])
    assert info["episode"]["r"][ended] == pytest.approx(info["final_info"]["episode_return"][ended])
