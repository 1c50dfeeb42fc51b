"""What a run that goes on, or is trained again, takes from its directory, and what may not be changed."""

import json

import pytest
from omegaconf import OmegaConf

OVERRIDES = ("env=pong", "experiment=ppo", "policy=lstm", "train.lr=0.125", "vec.num_envs=24", "seed=7")
KEYS = ("env", "policy", "vec", "train", "seed", "device")


@pytest.fixture
def make_run(check, tmp_path):
    """A run directory as trainings with these overrides leave it, one after the other."""

    def save(folder, cfg):
        folder.mkdir(parents=True)
        OmegaConf.save({"hydra": {"runtime": {"choices": cfg.hydra.runtime.choices}}}, folder / "hydra.yaml")
        OmegaConf.save({key: value for key, value in cfg.items() if key != "hydra"}, folder / "config.yaml")

    def make(*overrides, num_threads=3, resumed=(), recorded=None):
        run = tmp_path / "a run, $x it"
        save(run / ".hydra", check(*overrides).cfg)
        for number, more in enumerate(resumed, start=1):
            save(run / f".hydra/resumed_{number}", check(*overrides, *more).cfg)
        numbers = range(1, len(resumed) + 1) if recorded is None else recorded
        processes = [{"config": f".hydra/resumed_{n}", "num_threads": num_threads + n} for n in numbers]
        (run / "run.json").write_text(
            json.dumps({"num_threads": num_threads, **({"resumptions": processes} if processes else {})})
        )
        return run

    return make


def quoted(run):
    return f"'{run}'"


@pytest.mark.parametrize("mode", [("resume={}",), ("mode=reproduce", "run={}")])
def test_every_setting_is_the_runs(mode, make_run, check):
    run = make_run(*OVERRIDES)
    checked = check(*(text.format(quoted(run)) for text in mode))
    assert [str(fault) for fault in checked.faults] == []
    saved = OmegaConf.load(run / ".hydra" / "config.yaml")
    for key in KEYS:
        assert checked.cfg[key] == saved[key], key
    # It was 0, for all cores; the numbers depend on how many those were.
    assert checked.cfg.num_threads == 3


def test_a_run_goes_on_in_its_directory_and_is_trained_again_in_another(make_run, check):
    run = make_run(*OVERRIDES, "logger.tensorboard=false", "tag=first")
    cfg = check(f"resume={quoted(run)}").cfg
    assert cfg.hydra.run.dir == str(run)
    assert (cfg.logger.tensorboard, cfg.tag) == (False, "first")
    cfg = check("mode=reproduce", f"run={quoted(run)}").cfg
    assert "/reproduce/pong/" in str(cfg.hydra.run.dir)
    assert str(run) not in str(cfg.hydra.run.dir)


def test_the_users_overrides_stand_over_the_runs(make_run, check):
    run = make_run(*OVERRIDES)
    checked = check(f"resume={quoted(run)}", "train.total_timesteps=99", "train.lr=0.5", "num_threads=1")
    assert [str(fault) for fault in checked.faults] == []
    cfg = checked.cfg
    assert (cfg.train.total_timesteps, cfg.train.lr, cfg.num_threads) == (99, 0.5, 1)


def test_a_run_goes_on_as_it_last_was_and_is_trained_again_as_it_first_was(make_run, check):
    run = make_run(*OVERRIDES, resumed=[("train.lr=0.25",), ("train.lr=0.5",)])
    cfg = check(f"resume={quoted(run)}").cfg
    assert (cfg.train.lr, cfg.num_threads) == (0.5, 5)
    cfg = check("mode=reproduce", f"run={quoted(run)}").cfg
    assert (cfg.train.lr, cfg.num_threads) == (0.125, 3)


def test_a_process_that_was_refused_does_not_count(make_run, check):
    """Hydra writes a process's config before the process can be refused; what it did is in run.json."""
    run = make_run(*OVERRIDES, resumed=[("train.lr=0.25",), ("train.lr=0.5",)], recorded=[1])
    cfg = check(f"resume={quoted(run)}").cfg
    assert (cfg.train.lr, cfg.num_threads) == (0.25, 4)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("vec.num_envs=32", "vec.num_envs is 32 here and 24 in the run; leave it out"),
        ("train.horizon=7", "train.horizon is 7 here and"),
        ("train.optimizer=muon", "train.optimizer is muon here and adam in the run"),
        ("seed=8", "seed is 8 here and 7 in the run"),
        ("env.frameskip=3", "env.frameskip is 3 here and"),
        ("policy.hidden_size=9", "policy.hidden_size is 9 here and"),
        ("env=breakout", "the run is of env=pong, not env=breakout; leave env= out"),
        ("train=pufferl", "the run is of train=ppo, not train=pufferl; leave train= out"),
    ],
)
@pytest.mark.parametrize("mode", [("resume={}",), ("mode=reproduce", "run={}")])
def test_what_would_make_it_another_run_is_refused(mode, override, message, make_run, faults):
    run = make_run(*OVERRIDES)
    found = faults(*(text.format(quoted(run)) for text in mode), override)
    assert any(message in fault for fault in found), found


def test_a_run_directory_cannot_choose_what_is_trusted(make_run, faults, package):
    package("strange_env", "class Strange:\n    def __init__(self, num_envs: int): ...\n")
    target = ("env._target_=strange_env.Strange", "trust=[strange_env]")
    run = make_run("env=squared", *target, "~env.size")
    for mode in ((f"resume={quoted(run)}",), ("mode=reproduce", f"run={quoted(run)}")):
        assert "add trust=[strange_env]" in faults(*mode)[0]
        assert faults(*mode, "trust=[strange_env]") == []


@pytest.mark.parametrize("text", [None, "{", "[]", '{"resumptions": 3}', '{"num_threads": "x"}'])
def test_a_damaged_record_leaves_what_can_be_known(text, make_run, check):
    run = make_run(*OVERRIDES)
    (run / "run.json").unlink() if text is None else (run / "run.json").write_text(text)
    checked = check(f"resume={quoted(run)}")
    assert [str(fault) for fault in checked.faults] == []
    assert (checked.cfg.train.lr, checked.cfg.num_threads) == (0.125, 0)
