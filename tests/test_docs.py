"""The documentation's examples, done as a reader would do them."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "environments.md").read_text()
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S))
# A module is named in its docstring: """Corridor: find out ...
MODULES = re.findall(r'^```python\n("""(\w+):.*?)^```', PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder with what the page tells to write."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "conf" / "env").mkdir(parents=True)
    for source, name in MODULES:
        (folder / f"{name.lower()}.py").write_text(source)
    (folder / "conf" / "env" / "corridor.yaml").write_text(BLOCKS["yaml"])
    return folder


def run(*arguments, cwd, **environment):
    command = [sys.executable, *arguments]
    env = {**os.environ, **environment}
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_environment_learns_by_the_command_on_the_page(reader):
    run(*shlex.split(BLOCKS["sh"])[1:], cwd=reader)
    rows = [json.loads(line) for line in next(reader.rglob("metrics.jsonl")).read_text().splitlines()]
    scores = [row["env/score"] for row in rows if "env/score" in row]
    # The very first episodes to end are those that happened to succeed; the failures take their time.
    assert min(scores[:5]) < 0.9
    assert scores[-1] > 0.98


PLAY = """
import sys
sys.path.insert(0, "")
import numpy as np
from corridor import Corridor
env = Corridor(num_envs=8, length=5)
env.reset(seed=1)
seen = []
for step in range(60):
    env.step((np.arange(8) * 7 + step * step) % 3 % 2)
    seen += [env.observations.tolist(), env.rewards.tolist(), env.terminations.tolist()]
print(seen, env.drain(), env.render().shape)
"""


def test_compiled_and_plain_python_agree(reader):
    compiled = run("-c", PLAY, cwd=reader)
    assert compiled == run("-c", PLAY, cwd=reader, NUMBA_DISABLE_JIT="1")
    assert "(32, 160, 3)" in compiled


@pytest.mark.parametrize("name", ["PLAY", "MEET"])
def test_bounds_hold(reader, name):
    run("-c", globals()[name], cwd=reader, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(reader / "checked"))


MEET = """
import sys
sys.path.insert(0, "")
import numpy as np
from meeting import Meeting
worlds = Meeting(num_envs=6, num_agents=4, max_steps=12)
worlds.reset(seed=1)
assert worlds.num_agents == 24
rng = np.random.default_rng(0)
seen = []
for step in range(40):
    worlds.step(rng.choice(3, 24, p=[0.48, 0.48, 0.04]))
    seen += [worlds.observations.tolist(), worlds.rewards.tolist(), worlds.masks.tolist()]
    seen += [worlds.terminations.tolist(), worlds.truncations.tolist()]
print(seen, worlds.drain(), worlds.render().shape)
"""


def test_worlds_of_several_agents_compiled_and_in_plain_python_agree(reader):
    compiled = run("-c", MEET, cwd=reader)
    assert compiled == run("-c", MEET, cwd=reader, NUMBA_DISABLE_JIT="1")
    assert "(32, 160, 3)" in compiled


def test_walkers_who_meet_are_paid_and_those_who_left_are_not(reader, monkeypatch):
    monkeypatch.syspath_prepend(str(reader))
    from meeting import LEAVE, Meeting

    world = Meeting(cells=100)
    world.reset(seed=3)
    world._states["cell"] = [4, 6, 50]
    world.step([1, 0, 0])
    assert world.rewards.tolist() == [1, 1, 0]
    world.step([0, LEAVE, 0])
    assert world.terminations.tolist() == [False, True, False]
    assert world.masks.tolist() == [True, False, True]
    world._states["cell"][0, :2] = 7, 8
    world.step([1, 0, 0])
    assert not world.rewards.any()
    counts, sums = world.drain_rows()
    assert counts.tolist() == [0, 1, 0]
    assert sums["score"][1] == 1 / 20
    assert sums["episode_length"][1] == 2
    for _ in range(17):
        world.step([0, 0, 0])
    assert world.truncations.tolist() == [True, False, True]
    assert world.masks.all()


def test_pettingzoo_accepts_the_worlds(reader, monkeypatch):
    monkeypatch.syspath_prepend(str(reader))
    from meeting import Meeting
    from pettingzoo.test import parallel_api_test

    from ocean_numba.parallel import OceanParallelEnv

    parallel_api_test(OceanParallelEnv(Meeting()), num_cycles=100)


def test_parameters_are_checked(reader, monkeypatch):
    monkeypatch.syspath_prepend(str(reader))
    from corridor import Corridor

    with pytest.raises(ValueError, match="length=1 is not valid: it takes an integer from 2 to 1000"):
        Corridor(length=1)
    env = Corridor(num_envs=4, length=3)
    env.reset(seed=0)
    env.step(np.ones(4, int))
    env.step(np.ones(4, int))
    assert env.drain()["score"] == 1.0
