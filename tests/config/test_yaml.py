import itertools
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import get_type_hints

import pytest
from omegaconf import OmegaConf

from puffertoolkit.config.keys import keys_of
from puffertoolkit.config.paths import conf_dir
from puffertoolkit.config.schema import Config, Range
from puffertoolkit.config.values import has_key, schema_fields

FILES = sorted(conf_dir().rglob("*.yaml"))


def choices(group):
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(conf_dir())) for path in FILES])
def test_every_key_has_a_comment(path):
    without = [key.name for key in keys_of(path) if key.is_leaf and not key.comment]
    assert not without


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(conf_dir())) for path in FILES])
def test_every_file_says_what_it_is(path):
    first, second = path.read_text().splitlines()[:2]
    assert (second if first.startswith("# @package") else first).startswith("# ")


@pytest.mark.parametrize("env", choices("env"))
def test_every_combination_of_choices_is_free_of_faults(env, faults):
    rest = itertools.product(choices("policy"), choices("train"), choices("vec"))
    for policy, train, vec in rest:
        assert faults(f"env={env}", f"policy={policy}", f"train={train}", f"vec={vec}") == []


@pytest.mark.parametrize("experiment", choices("experiment"))
def test_every_experiment_is_free_of_faults(experiment, faults):
    assert faults(f"experiment={experiment}") == []


@pytest.mark.parametrize("env", choices("env"))
def test_an_env_file_holds_every_parameter_of_its_class(env):
    node = OmegaConf.to_container(OmegaConf.load(conf_dir() / "env" / f"{env}.yaml"))["env"]
    package, _, name = node.pop("_target_").rpartition(".")
    assert package in ("ocean_numba", "ocean_numba.sanity")
    params = getattr(import_module(package), name).Params
    assert set(node) == {field.name for field in fields(params)}
    params(**node)


def test_the_schema_holds_no_values():
    def missing(schema):
        for name, kind in get_type_hints(schema).items():
            if is_dataclass(kind):
                yield from missing(kind)
            else:
                yield OmegaConf.is_missing(OmegaConf.structured(schema), name)

    assert all(missing(Config))


def test_the_files_give_every_setting_a_value(check):
    cfg = check().cfg
    assert [key for key, _ in schema_fields() if not has_key(cfg, key)] == []


@pytest.mark.parametrize("train", choices("train"))
def test_a_train_file_holds_every_setting_of_its_section(train):
    held = {key.name for key in keys_of(conf_dir() / "train" / f"{train}.yaml")}
    assert held == {key.partition(".")[2] for key, _ in schema_fields() if key.startswith("train.")}


def test_ranges():
    closed, half_open = Range(0, 1), Range(low=0, low_open=True)
    assert 0 in closed
    assert 1 in closed
    assert 1.01 not in closed
    assert 0 not in half_open
    assert 1e-9 in half_open
    assert float("nan") not in half_open
    assert float("inf") not in half_open


def test_breakout_is_the_default(check):
    cfg = check().cfg
    assert cfg.env._target_ == "ocean_numba.Breakout"
    assert cfg.hydra.runtime.choices.env == "breakout"


ORDER = {
    "env/tuned": """
        # @package _global_
        defaults:
          - override /policy: lstm
        env:
          _target_: ocean_numba.Squared
          size: 5
        vec:
          num_envs: 64
        train:
          lr: 0.5
          gamma: 0.5
          minibatch_size: 1024
        """,
    "local/default": """
        # @package _global_
        train:
          gamma: 0.6
          gae_lambda: 0.6
        """,
    "experiment/other": """
        # @package _global_
        defaults:
          - override /env: tuned
          - override /policy: mlp
        train:
          lr: 0.25
          gae_lambda: 0.7
        """,
}


def test_env_values_stand_over_groups_and_under_the_rest(check, conf):
    folder = ["--config-dir", conf(ORDER)]
    cfg = check(*folder, "env=tuned", "train=ppo").cfg
    assert cfg.policy.core._target_ == "puffertoolkit.policies.LSTMCore"
    assert (cfg.train.lr, cfg.vec.num_envs) == (0.5, 64)
    assert cfg.train.optimizer == "adam"
    assert (cfg.train.gamma, cfg.train.gae_lambda) == (0.6, 0.6)

    cfg = check(*folder, "experiment=other").cfg
    assert cfg.env.size == 5
    assert cfg.policy.core._target_ == "puffertoolkit.policies.NoCore"
    assert (cfg.train.lr, cfg.train.gamma, cfg.train.gae_lambda) == (0.25, 0.6, 0.7)

    cfg = check(*folder, "experiment=other", "policy=lstm", "train.lr=0.125", "env=squared").cfg
    assert cfg.policy.core._target_ == "puffertoolkit.policies.LSTMCore"
    assert cfg.env.size == 11
    assert cfg.train.lr == 0.125


def test_an_env_file_may_hold_nothing_but_its_parameters(check, conf, package):
    package("bare_env", "class Bare:\n    def __init__(self, num_envs: int, size: int = 3): ...\n")
    folder = conf({"env/bare": "_target_: bare_env.Bare\nsize: 4\n"})
    checked = check("--config-dir", folder, "env=bare", "trust=[bare_env]")
    assert checked.faults == []
    assert checked.cfg.env.size == 4
