from typing import Any, Literal

import pytest

from puffertoolkit.config import signatures
from puffertoolkit.config.signatures import section_faults


class Env:
    def __init__(
        self,
        num_envs: int,
        size: int,
        speed: float = 1.0,
        kind: Literal["a", "b"] = "a",
        tag: str | None = None,
    ):
        pass


class Open:
    def __init__(self, num_envs: int, **anything: Any):
        pass


class Judged:
    class Params:
        def __init__(self, size: int = 1):
            if size < 1:
                raise ValueError(f"size={size} is not valid")

    def __init__(self, num_envs: int, **params: Any):
        pass


class Network:
    def __init__(
        self, observation_space: Any, action_space: Any, width: int, encoder: Any = None, parts: Any = ()
    ):
        pass


class Part:
    def __init__(self, input_size: int, hidden_size: int, more: int, depth: int = 1):
        pass


CLASSES = {"Env": Env, "Open": Open, "Judged": Judged, "Network": Network, "Part": Part}


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.setattr(signatures, "locate", lambda target, trust: CLASSES[target])
    return lambda section, **node: [str(fault) for fault in section_faults(section, node, [])]


@pytest.mark.parametrize(
    "given",
    [
        {"size": 3},
        {"size": 3, "speed": 2},
        {"size": 3, "speed": 2.5, "kind": "b", "tag": "x"},
        {"size": 3, "tag": None},
    ],
)
def test_sound_parameters(given, faults):
    assert faults("env", _target_="Env", **given) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "env lacks 'size', which Env requires"),
        ({"size": 1, "sped": 2}, "no key 'env.sped': Env has no such parameter; did you mean 'env.speed'?"),
        ({"size": "a"}, "env.size is 'a'; Env takes a whole number"),
        ({"size": True}, "env.size is True; Env takes a whole number"),
        ({"size": 1.5}, "env.size is 1.5; Env takes a whole number"),
        ({"size": 1, "kind": "c"}, "env.kind is 'c'; Env takes 'a' or 'b'"),
        ({"size": 1, "tag": 3}, "env.tag is 3; Env takes text or null"),
        ({"size": 1, "num_envs": 3}, "'env.num_envs' cannot be set: it comes from vec.num_envs"),
    ],
)
def test_faulty_parameters(given, message, faults):
    assert faults("env", _target_="Env", **given) == [message]


def test_a_class_that_takes_anything_is_given_anything(faults):
    assert faults("env", _target_="Open", whatever=3) == []


def test_a_class_with_params_takes_those_and_judges_them(faults):
    assert faults("env", _target_="Judged", size=2) == []
    assert faults("env", _target_="Judged", size=0) == ["env: size=0 is not valid"]
    assert "no key 'env.sice'" in faults("env", _target_="Judged", sice=2)[0]


def test_parts_of_a_policy_may_lack_what_the_policy_supplies(faults):
    assert faults("policy", _target_="Network", width=3, encoder={"_target_": "Part", "depth": 2}) == []
    # A part that is built before the policy has to be complete.
    found = faults("policy", _target_="Network", width=3, encoder={"_target_": "Part", "_partial_": False})
    assert len(found) == 3


def test_parts_are_checked_at_any_depth(faults):
    found = faults("policy", _target_="Network", width=3, parts=[{"x": {"_target_": "Part", "dept": 2}}])
    assert found == [
        "no key 'policy.parts.0.x.dept': Part has no such parameter; did you mean 'policy.parts.0.x.depth'?"
    ]


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_a_policy_is_not_given_its_spaces(name, faults):
    assert f"'policy.{name}' cannot be set" in faults("policy", _target_="Network", width=3, **{name: 1})[0]


def test_a_section_without_a_target(faults):
    assert "env has no _target_" in faults("env", size=3)[0]
