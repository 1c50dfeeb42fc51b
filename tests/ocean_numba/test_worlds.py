"""Worlds of several agents: rows, deaths, ends, statistics; and what PettingZoo makes of them."""

import runpy
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from ocean_numba.adapters import OceanEnv, OceanVectorEnv
from ocean_numba.parallel import OceanParallelEnv

ARENA = runpy.run_path(str(Path(__file__).with_name("arena.py")), run_name="arena")
Arena, play = ARENA["Arena"], ARENA["play"]
WORLDS, AGENTS, STEPS = 5, 3, 60


@pytest.fixture(scope="module")
def seen():
    return play(WORLDS, STEPS)


def test_rows_of_a_world_are_neighbours(seen):
    assert Arena(WORLDS).num_agents == WORLDS * AGENTS
    assert (seen["observations"][:, :, 0] == np.tile(np.arange(AGENTS), WORLDS)).all()


def test_episodes_of_agents_against_a_loop_over_what_was_seen(seen):
    """Follow each agent by masks, rewards and flags alone."""
    counts, returns, lengths = (np.zeros(WORLDS * AGENTS) for _ in range(3))
    for row in range(WORLDS * AGENTS):
        running, length = 0.0, 0
        for t in range(STEPS):
            if not seen["masks"][t, row]:
                assert seen["rewards"][t + 1, row] == 0
                assert not seen["terminations"][t + 1, row]
                assert not seen["truncations"][t + 1, row]
                continue
            running, length = running + seen["rewards"][t + 1, row], length + 1
            ended = seen["terminations"][t + 1, row], seen["truncations"][t + 1, row]
            assert not all(ended)
            if any(ended):
                counts[row] += 1
                returns[row] += running
                lengths[row] += length
                running, length = 0.0, 0
    assert np.array_equal(seen["counts"], counts)
    assert np.array_equal(seen["episode_return"], returns)
    assert np.array_equal(seen["episode_length"], lengths)
    assert np.array_equal(seen["score"], returns)
    assert np.array_equal(seen["who"], counts * np.tile(np.arange(AGENTS), WORLDS))


def test_everything_happens(seen):
    shape = (STEPS, WORLDS, AGENTS)
    dead = ~seen["masks"][:-1].reshape(shape)
    terminated, truncated = (seen[name][1:].reshape(shape) for name in ("terminations", "truncations"))
    assert dead.any()
    assert (terminated.any(2) & ~(terminated | truncated | dead).all(2)).any()  # some alone
    assert truncated.any()
    late = ~seen["masks"][0].reshape(WORLDS, AGENTS)[:, -1]
    assert late.any()


def test_the_end_of_a_world_keeps_the_last_observations(seen):
    ticks = seen["observations"][1:, :, 2].reshape(STEPS, WORLDS, AGENTS)
    for t, world in zip(
        *np.nonzero(seen["truncations"][1:].reshape(STEPS, WORLDS, AGENTS).any(2)), strict=True
    ):
        rows = slice(world * AGENTS, (world + 1) * AGENTS)
        assert (ticks[t, world] == 0).all()
        finals = seen["final_observations"][t + 1, rows]
        assert (finals[:, 0] == np.arange(AGENTS)).all()


@pytest.mark.parametrize(("worlds", "threads"), [(WORLDS, 2), (17, 1)])
def test_neither_threads_nor_other_worlds_change_a_number(seen, worlds, threads):
    other = play(worlds, STEPS, threads)
    rows = WORLDS * AGENTS
    for name, values in seen.items():
        found = other[name]
        assert np.array_equal(found[:, :rows] if values.ndim > 1 else found[:rows], values), name


def test_compiled_equals_python(seen, python, tmp_path):
    python("arena.py", tmp_path / "seen.npz", str(WORLDS), "1", NUMBA_DISABLE_JIT=1)
    interpreted = np.load(tmp_path / "seen.npz")
    assert set(interpreted.files) == set(seen)
    for name, values in seen.items():
        assert values.tobytes() == interpreted[name].tobytes(), name


def test_goes_on_from_a_saved_state():
    def follow(env):
        rng = np.random.default_rng(1)
        for _ in range(40):
            env.step(rng.integers(0, 4, env.num_agents))
        return env.observations.copy(), env.masks.copy(), env.drain()

    one, other = Arena(4), Arena(4)
    one.reset(3)
    other.reset(4)
    follow(one)
    saved = one.state_dict()
    wanted = follow(one)
    other.load_state_dict(saved)
    found = follow(other)
    assert all(np.array_equal(a, b) for a, b in zip(found[:2], wanted[:2], strict=True))
    assert found[2] == wanted[2]


def test_an_action_out_of_the_space_names_the_agent_unless_it_is_dead():
    env = Arena(2)
    env.reset(0)
    with pytest.raises(ValueError, match="action 9 of agent 4 "):
        env.step(np.array([0, 0, 0, 0, 9, 0]))
    env.step(np.array([0, 0, 0, 0, ARENA["DIE"], 0]))
    env.step(np.array([0, 0, 0, 0, 9, 0]))
    with pytest.raises(ValueError, match=r"shape \(2,\); 6 of"):
        env.step(np.zeros(2, int))


def test_pettingzoo_accepts_it():
    parallel_api_test(OceanParallelEnv(Arena(1)), num_cycles=200)
    parallel_seed_test(lambda: OceanParallelEnv(Arena(1)), num_cycles=50)


def test_a_parallel_world_in_which_one_dies_and_all_end():
    env = OceanParallelEnv(Arena(1, max_steps=3, goal=1000), "ansi")
    observations, infos = env.reset(seed=2)
    assert list(observations) == list(infos) == env.agents
    present = list(env.agents)
    *_, infos = env.step({agent: ARENA["DIE"] if agent == "agent_0" else 0 for agent in present})
    assert "agent_0" not in env.agents
    assert infos["agent_0"]["episode_length"] == 1
    env.step(dict.fromkeys(env.agents, 0))
    observations, _, terminations, truncations, infos = env.step(dict.fromkeys(env.agents, 0))
    assert all(truncations.values())
    assert not any(terminations.values())
    assert all(info["episode_length"] == 3 for info in infos.values())
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})
    assert isinstance(env.render(), str)
    env.reset()
    with pytest.raises(ValueError, match="no action for agent_1"):
        env.step({"agent_0": 0, "agent_2": 0})


@pytest.mark.parametrize("adapter", [OceanEnv, OceanVectorEnv])
def test_gymnasium_does_not_know_worlds_of_several_agents(adapter):
    with pytest.raises(ValueError, match="several agents share a world of Arena"):
        adapter(Arena(1))
    assert isinstance(gymnasium.make("ocean_numba:ocean/Squared-v0"), gymnasium.Env)
