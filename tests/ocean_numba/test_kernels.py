"""How kernels are compiled: once per machine, anew when what they reach has changed, within bounds."""

import importlib.util
import json

import numpy as np
import pytest

from ocean_numba.engine.kernels import Kernel, fingerprint
from ocean_numba.registration import find_class

LOAD = """
import json, numpy as np, ocean_numba
env = ocean_numba.Squared(num_envs=2)
known = env.kernels_are_cached
env.reset(1)
env.step(np.zeros(2, np.int64))
stats = [kernel.call.stats for kernel in (env._reset, env._step)]
hits, misses = (sum(sum(getattr(s, name).values()) for s in stats) for name in ("cache_hits", "cache_misses"))
print(json.dumps([known, hits, misses, env.kernels_are_cached]))
"""


def test_a_second_process_loads_what_the_first_compiled(python, tmp_path):
    first, second = (json.loads(python(LOAD, NUMBA_CACHE_DIR=tmp_path)) for _ in range(2))
    assert first == [False, 0, 2, True]
    assert second == [True, 2, 0, True]


def test_copies_in_one_process_share_their_kernels(any_name):
    cls = find_class(any_name)
    assert cls()._step is cls(num_envs=5)._step
    assert cls()._step is not cls(num_threads=2)._step or cls(num_threads=2).num_threads == 1


HELPER = """
from ocean_numba.engine import kernel
STEP = {constant}
@kernel
def helper(x):
    return x {operator} STEP
"""
AUTHOR = """
import {helper}
from {helper} import helper
from ocean_numba.engine import kernel
FACTORS = ({factor}, 2)
@kernel
def direct(x):
    return helper(x) * FACTORS[0]
@kernel
def through_module(x):
    return {helper}.helper(x)
"""


@pytest.fixture
def author(tmp_path, monkeypatch):
    """author(constant=2) -> the two functions of a freshly written module, which call another module's."""
    monkeypatch.syspath_prepend(tmp_path)
    names = iter(f"written_for_fingerprints_{i}" for i in range(99))

    def write(constant=1, operator="+", factor=3):
        module, helper = next(names), next(names)
        (tmp_path / f"{helper}.py").write_text(HELPER.format(constant=constant, operator=operator))
        path = tmp_path / f"{module}.py"
        path.write_text(AUTHOR.format(helper=helper, factor=factor))
        spec = importlib.util.spec_from_file_location("author", path)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded.direct, loaded.through_module

    return write


def test_the_fingerprint_sees_what_a_kernel_reaches(author):
    def printed(**changes):
        return fingerprint({"step": author(**changes)[0]})

    assert printed() == printed()
    assert printed() != printed(constant=2)
    assert printed() != printed(constant=1.0)
    assert printed() != printed(operator="-")
    assert printed() != printed(factor=4)


def test_the_fingerprint_sees_through_a_module(author, monkeypatch):
    _, function = author()
    before = fingerprint({"step": function})
    module = next(v for k, v in function.py_func.__globals__.items() if k.startswith("written_for"))
    assert fingerprint({"step": function}) == before
    monkeypatch.setattr(module, "STEP", 7)
    assert fingerprint({"step": function}) != before


def test_the_fingerprint_sees_arrays_and_defaults():
    table = np.array([1, 2, 3])

    def look_up(i, offset=1):
        return table[i] + offset

    before = fingerprint({"step": look_up})
    table[2] = 4
    changed = fingerprint({"step": look_up})
    look_up.__defaults__ = (2,)
    assert len({before, changed, fingerprint({"step": look_up})}) == 3


def test_the_name_of_a_kernel_tells_its_variants_apart():
    def template():
        pass

    assert Kernel(template, "X", parallel=False).name != Kernel(template, "X", parallel=True).name


BOUNDS = """
import numpy as np
from ocean_numba.registration import find_class
for name, params in (
    ("Breakout", {}), ("Cartpole", {}), ("Pong", {"frameskip": 8}), ("Squared", {}),
    ("Memory", {"mem_length": 5}), ("Password", {}), ("SquaredPy", {"num_targets": 5}),
):
    env = find_class(name)(num_envs=512, **params)
    env.reset(1)
    rng = np.random.default_rng(2)
    for _ in range(400):
        env.step(rng.integers(0, env.single_action_space.n, 512))
    if name == "Breakout":
        env._states["ball_vy"] = -np.abs(env._states["ball_vy"])
        for _ in range(400):
            offset = (env.observations[:, 2] - env.observations[:, 0]) * 576 - 15
            env.step(np.where(offset < -10, 1, np.where(offset > 10, 2, 0)))
    assert np.isfinite(env.observations).all()
    assert "checked" in env._step.name
    print(name, env.drain()["episodes"])
"""


def test_no_index_leaves_its_array(python, tmp_path):
    """Over 200,000 random steps of each environment; its own cache, since the checks are compiled in."""
    printed = python(BOUNDS, NUMBA_BOUNDSCHECK=1, NUMBA_CACHE_DIR=tmp_path)
    games = [line.split()[0] for line in printed.splitlines()]
    assert games == ["Breakout", "Cartpole", "Pong", "Squared", "Memory", "Password", "SquaredPy"]


CHECKED = """
import numpy as np
from ocean_numba.engine import kernel
@kernel
def read(array, i):
    return array[i]
try:
    read(np.zeros(3), 5)
except IndexError:
    print("caught")
"""


def test_bounds_checks_see_a_fault(python):
    assert python(CHECKED, NUMBA_BOUNDSCHECK=1).strip() == "caught"
