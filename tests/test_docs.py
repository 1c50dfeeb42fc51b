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


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder with what the page tells to write."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "conf" / "env").mkdir(parents=True)
    (folder / "corridor.py").write_text(BLOCKS["python"])
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


def test_bounds_hold(reader):
    run("-c", PLAY, cwd=reader, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(reader / "checked"))


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
