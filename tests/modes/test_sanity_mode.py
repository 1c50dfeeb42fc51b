"""mode=sanity: what it learns, what it says of a learner that does not, and what it refuses."""

import json
import math
import re
import subprocess
import sys

import pytest

from puffertoolkit.modes.sanity import TESTS

ALL = [
    "bandit",
    "memory",
    "password",
    "squared_py",
    "stochastic",
    "continuous",
    "multiagent",
    "performance",
    "performance_empiric",
]


@pytest.fixture
def sanity(tmp_path):
    """sanity(*overrides): run the mode in a folder of its own; returns the result and sanity.json's rows."""

    def run(*overrides):
        command = [sys.executable, "-m", "puffertoolkit", "mode=sanity", *overrides]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        reports = sorted(tmp_path.rglob("sanity.json"))
        return done, {row["env"]: row for row in json.loads(reports[-1].read_text())} if reports else {}

    return run


# Within the specification's limits, and just outside of them.
PASSES = [
    *(
        ("bandit memory password squared_py multiagent", {"score": score}, score >= 0.95)
        for score in (0.95, 1, 0.949)
    ),
    ("continuous", {"score": 0.90}, True),
    ("continuous", {"score": 0.89}, False),
    ("stochastic", {"score": 0.985, "action_0": 0.55}, True),
    ("stochastic", {"score": 0.998, "action_0": 0.70}, True),
    ("stochastic", {"score": 0.998, "action_0": 0.71}, False),
    ("stochastic", {"score": 0.98, "action_0": 0.6}, False),
    ("stochastic", {"score": 0.99, "action_0": 0.54}, False),
    ("bandit", {"score": math.nan}, False),
]


@pytest.mark.parametrize(("names", "means", "passes"), PASSES)
def test_what_counts_as_solved(names, means, passes):
    for name in names.split():
        assert TESTS[name].passes({**means, "perf": 1.0}) == passes


def test_every_sanity_environment_has_a_test():
    assert list(TESTS) == ALL
    assert TESTS["stochastic"].wanted.count("score ≥ 0.985") == 1
    assert TESTS["performance"].wanted == "-"


@pytest.mark.slow
def test_the_learner_solves_them_all(sanity):
    done, rows = sanity()
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(rows) == ALL
    for name, row in rows.items():
        learns = not name.startswith("performance")
        assert row["solved"] is (True if learns else None), row
        assert row["steps"] > 0
        assert row["sps"] > 1000
        assert TESTS[name].passes(row["means"])
        assert name in done.stdout
    assert "score ≥ 0.95" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_learner_that_learns_nothing_is_caught(sanity):
    chosen = "sanity.envs=[multiagent,performance,bandit]"
    done, rows = sanity(chosen, "train.lr=1e-12", "train.total_timesteps=8192", "num_threads=1")
    assert done.returncode == 1, done.stderr
    # In the order that was asked for; the settings of the command line hold for every one of them.
    assert {name: row["solved"] for name, row in rows.items()} == {
        "multiagent": False,
        "performance": None,
        "bandit": False,
    }
    assert all(8192 <= row["steps"] <= 16_384 for row in rows.values())
    assert rows["bandit"]["means"]["score"] == pytest.approx(0.1, abs=0.08)
    assert done.stdout.count("NOT solved") == 2


def test_a_training_that_diverges_does_not_keep_the_others_from_running(sanity):
    broken = ("train.optimizer=adam", "train.lr=1e9", "train.max_grad_norm=1e9")
    done, rows = sanity("sanity.envs=[bandit,performance]", *broken, "train.total_timesteps=8192")
    assert done.returncode == 1, done.stderr
    assert list(rows) == ["bandit", "performance"]
    assert rows["bandit"]["solved"] is False
    assert "diverged at step" in rows["bandit"]["problem"]
    assert "diverged at step" in done.stdout


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["sanity.envs=[bandti]"],
            "sanity.envs names 'bandti'; there are bandit, memory, .*did you mean 'bandit'",
        ),
        (["env=breakout"], "'env=breakout' does not go with mode=sanity"),
        (["env.num_actions=4", "env=bandit"], "does not go with mode=sanity"),
        (
            ["train.horizon=3"],
            "Nothing was trained: with env=bandit, train.minibatch_size is 512; .* 510 or 513",
        ),
        (["train.lr=nothing"], "train.lr"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(sanity, overrides, message):
    done, rows = sanity(*overrides)
    assert done.returncode == 2, done.stdout
    assert not rows
    assert "Traceback" not in done.stderr
    assert re.search(message, " ".join(done.stderr.split())), done.stderr
