import pytest
from gymnasium import spaces
from omegaconf import OmegaConf

from puffertoolkit.config.build import build_env, build_policy
from puffertoolkit.errors import UserError

MODULE = """
class Env:
    def __init__(self, num_envs, sizes=(), num_threads=1):
        if num_envs > 9:
            raise ValueError(f"num_envs={num_envs} is too many")
        self.num_envs, self.sizes, self.num_threads = num_envs, sizes, num_threads

class Plain:
    def __init__(self, num_envs):
        self.num_envs = num_envs

class Network:
    def __init__(self, observation_space, action_space, part, ready=None):
        self.spaces = observation_space, action_space
        self.part, self.ready = part(size=3), ready

class Part:
    def __init__(self, size, depth):
        self.size, self.depth = size, depth
"""


@pytest.fixture(autouse=True)
def _module(package):
    package("built", MODULE)


def config(**sections):
    return OmegaConf.create({"trust": ["built"], "three": 3, **sections})


def test_env_gets_plain_values_and_what_the_toolkit_supplies():
    cfg = config(env={"_target_": "built.Env", "sizes": [1, "${three}"]})
    env = build_env(cfg.env, num_envs=2, num_threads=5)
    assert (env.num_envs, env.num_threads) == (2, 5)
    assert env.sizes == [1, 3]
    assert type(env.sizes) is list


def test_env_that_knows_no_threads_is_built_without():
    assert build_env(config(env={"_target_": "built.Plain"}).env, num_envs=2, num_threads=5).num_envs == 2


def test_policy_completes_its_parts_and_gets_the_very_spaces():
    part = {"_target_": "built.Part", "depth": 2}
    ready = {"_target_": "built.Part", "size": 1, "depth": "${three}", "_partial_": False}
    cfg = config(policy={"_target_": "built.Network", "part": part, "ready": ready})
    observation = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "n": spaces.Discrete(3)})
    action = spaces.Discrete(2)
    policy = build_policy(cfg.policy, observation, action)
    assert policy.spaces[0] is observation
    assert policy.spaces[1] is action
    assert (policy.part.size, policy.part.depth) == (3, 2)
    assert (policy.ready.size, policy.ready.depth) == (1, 3)


def test_what_a_class_refuses_is_the_users_mistake():
    with pytest.raises(UserError, match="env: num_envs=10 is too many"):
        build_env(config(env={"_target_": "built.Env"}).env, num_envs=10)


def test_the_allow_list_holds_here_too():
    cfg = config(env={"_target_": "built.Env", "sizes": {"_target_": "os.getcwd"}})
    with pytest.raises(UserError, match=r"os\.getcwd"):
        build_env(cfg.env, num_envs=1)
    with pytest.raises(UserError, match=r"add trust=\[built\]"):
        build_env(cfg.env, num_envs=1, trust=[])


def test_an_escaped_interpolation_is_not_resolved_behind_the_check():
    cfg = config(env={"_target_": "built.Env", "sizes": r"\${three}"})
    with pytest.raises(UserError, match="would be resolved"):
        build_env(cfg.env, num_envs=1)


def test_without_a_target_there_is_nothing_to_build():
    with pytest.raises(UserError, match="env has no _target_"):
        build_env(config(env={"size": 1}).env, num_envs=1)


def test_an_argument_that_a_factory_hands_on_in_vain_is_told():
    node = OmegaConf.create({"_target_": "gymnasium.make", "id": "CartPole-v1", "frameskip": 4})
    with pytest.raises(UserError, match=r"frameskip.*take out one that it does not know with ~env\.<key>"):
        build_env(node, trust=["gymnasium"])
