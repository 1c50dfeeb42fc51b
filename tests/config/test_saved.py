import json

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from puffertoolkit.config.saved import override_value


@pytest.fixture
def make_run(check, tmp_path):
    """A run directory as a training of these overrides leaves it."""

    def make(name, *overrides):
        run = tmp_path / name
        cfg = check(*overrides).cfg
        (run / ".hydra").mkdir(parents=True)
        OmegaConf.save(
            {"hydra": {"runtime": {"choices": cfg.hydra.runtime.choices}}}, run / ".hydra" / "hydra.yaml"
        )
        content = {key: value for key, value in cfg.items() if key != "hydra"}
        OmegaConf.save(content, run / ".hydra" / "config.yaml")
        checkpoint = run / "checkpoints" / "step_000000000100"
        checkpoint.mkdir(parents=True)
        manifest = {"format": 1, "step": 100, "files": {}}
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))
        return run

    return make


@pytest.fixture
def any_manifest(monkeypatch):
    """Let the manifests above pass: what is in them is the business of another test."""
    import puffertoolkit.run.directory as directory

    monkeypatch.setattr(directory, "read_manifest_or_suggest", lambda path: None)
    monkeypatch.setattr(
        directory, "latest_checkpoint", lambda folder: type("Info", (), {"path": next(folder.iterdir())})
    )


pytestmark = pytest.mark.usefixtures("any_manifest")


def test_the_runs_own_env_and_policy_are_used(make_run, check):
    run = make_run(
        "run", "env=pong", "policy=lstm", "env.max_score=3", "policy.hidden_size=32", "+env.max_steps=9"
    )
    for checkpoint in (run, run / "checkpoints" / "step_000000000100"):
        checked = check("mode=eval", f"checkpoint={checkpoint}")
        assert checked.faults == []
        assert checked.cfg.hydra.runtime.choices.env == "pong"
        assert checked.cfg.hydra.runtime.choices.policy == "lstm"
        assert checked.cfg.env == OmegaConf.load(run / ".hydra" / "config.yaml").env
        assert checked.cfg.policy == OmegaConf.load(run / ".hydra" / "config.yaml").policy


def test_the_users_overrides_stand_over_them(make_run, check):
    run = make_run("run", "env=pong", "env.max_score=3", "env.frameskip=2")
    checked = check("mode=eval", f"checkpoint={run}", "env.frameskip=4", "env=pong")
    assert checked.faults == []
    assert (checked.cfg.env.max_score, checked.cfg.env.frameskip) == (3, 4)


def test_a_node_that_has_become_another_is_restored_whole(make_run, check):
    run = make_run("run", "env=squared", "policy=lstm", "~policy.encoder", "+policy.encoder=null")
    # Made with a policy file that has changed since: the saved values count.
    config = run / ".hydra" / "config.yaml"
    saved = OmegaConf.load(config)
    saved.policy.encoder = {"_target_": "puffertoolkit.policies.MLPEncoder", "depth": 3}
    OmegaConf.save(saved, config)
    checked = check("mode=eval", f"checkpoint={run}")
    assert checked.cfg.policy == saved.policy


def test_a_choice_whose_file_is_elsewhere_now(make_run, check, conf, package):
    package("gone_env", "class Gone:\n    def __init__(self, num_envs: int, size: int = 3): ...\n")
    folder = conf({"env/gone": "_target_: gone_env.Gone\nsize: 5\n"})
    run = make_run("run", "--config-dir", folder, "env=gone", "trust=[gone_env]")
    checked = check("mode=eval", f"checkpoint={run}", "trust=[gone_env]")
    assert checked.faults == []
    assert checked.cfg.hydra.runtime.choices.env == "gone"
    assert checked.cfg.env == {"_target_": "gone_env.Gone", "size": 5}
    # That a run trusted a package does not make whoever evaluates it trust it.
    assert "add trust=[gone_env]" in str(check("mode=eval", f"checkpoint={run}").faults[0])


@pytest.mark.parametrize("choice", ["env=cartpole", "policy=lstm"])
def test_another_choice_than_the_runs_is_a_fault(choice, make_run, faults):
    run = make_run("run", "env=pong")
    group = choice.partition("=")[0]
    [fault] = faults("mode=eval", f"checkpoint={run}", choice)
    assert f"not {choice}; leave {group}= out" in fault
    assert fault.startswith("the checkpoint is of ")


def test_what_is_no_run(tmp_path, faults):
    [absent] = faults("mode=eval", f"checkpoint={tmp_path}/nope")
    assert "There is no run or checkpoint" in absent
    [empty] = faults("mode=eval", f"checkpoint={tmp_path}")
    assert "neither a run's directory nor a checkpoint" in empty


def test_a_damaged_run(make_run, faults):
    run = make_run("run", "env=pong")
    (run / ".hydra" / "hydra.yaml").write_text("hydra: [")
    [fault] = faults("mode=eval", f"checkpoint={run}")
    assert "its .hydra files are damaged" in fault


def test_a_sweep_over_checkpoints_of_one_kind(make_run, faults):
    runs = [make_run(f"run{seed}", "env=pong", f"seed={seed}") for seed in (1, 2)]
    assert faults("-m", "mode=eval", f"checkpoint={runs[0]},{runs[1]}") == []
    other = make_run("other", "env=squared")
    [fault] = faults("-m", "mode=eval", f"checkpoint={runs[0]},{other}")
    assert "must share env and policy" in fault


@pytest.mark.parametrize(
    "value",
    [
        1,
        -1.5,
        1e-8,
        True,
        None,
        "",
        "a b",
        "it's",
        'say "x"',
        "a\\",
        "[1,2]",
        "null",
        "3",
        "${x}",
        [1, "a,b"],
        {"a": {"b": [None]}},
    ],
)
def test_values_survive_the_syntax_of_overrides(value):
    parsed = OverridesParser.create().parse_override(f"key={override_value(value)}").value()
    assert parsed == value
    assert type(parsed) is type(value)
