import logging
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import puffertoolkit
from puffertoolkit import cli, modes
from puffertoolkit.errors import UserError

RESULT = {"env/score": 1.25, "env/perf": 0.5}


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    """Run command lines in an empty folder, with a mode that only notes the configs it gets."""
    monkeypatch.chdir(tmp_path)
    configs = []

    def run(cfg):
        configs.append(cfg)
        return RESULT

    monkeypatch.setattr(modes, "run", run)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield configs
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:], root.level = handlers, level


def program(*arguments, cwd):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    command = [sys.executable, "-m", "puffertoolkit", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def run_directories(folder):
    return sorted(path.parent for path in folder.rglob(".hydra"))


def test_a_run_gets_its_config_and_directory(jobs, tmp_path, capsys):
    assert cli.main(["env=pong", "train.lr=0.01", "seed=7"]) == 0
    [cfg] = jobs
    assert (cfg.env._target_, cfg.train.lr, cfg.seed) == ("ocean_numba.Pong", 0.01, 7)
    [run] = run_directories(tmp_path)
    assert re.fullmatch(
        r"outputs/train/pong/\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_s7", str(run.relative_to(tmp_path))
    )
    assert OmegaConf.load(run / ".hydra" / "config.yaml") == cfg
    assert (run / "puffertoolkit.log").is_file()
    # Nothing of Hydra's own on the console, and the process is left as it was.
    assert capsys.readouterr() == ("", "")
    assert "HYDRA_FULL_ERROR" not in os.environ


def test_runs_of_the_same_second_have_directories_of_their_own(jobs, tmp_path):
    wanted = tmp_path / "run"
    for _ in range(3):
        assert cli.main(["env=pong", f"hydra.run.dir={wanted}"]) == 0
    assert [run.name for run in run_directories(tmp_path)] == ["run", "run-2", "run-3"]


def test_a_sweep_has_a_directory_and_a_line_for_each_job(jobs, tmp_path, capsys):
    assert cli.main(["-m", "env=squared,cartpole", "seed=1,2"]) == 0
    assert [(cfg.env._target_.rpartition(".")[2], cfg.seed) for cfg in jobs] == [
        ("Squared", 1),
        ("Squared", 2),
        ("Cartpole", 1),
        ("Cartpole", 2),
    ]
    runs = run_directories(tmp_path)
    assert [run.name for run in runs] == ["0_squared_s1", "1_squared_s2", "2_cartpole_s1", "3_cartpole_s2"]
    out, err = capsys.readouterr()
    assert err == ""
    for number, (line, run) in enumerate(zip(out.splitlines(), runs, strict=True)):
        assert line.startswith(f"#{number}  env={run.name.split('_')[1]} seed={run.name[-1]}  ")
        assert str(run.relative_to(tmp_path)) in line
        assert line.endswith("env/score 1.25  env/perf 0.5")


def test_sweeps_never_share_a_directory(jobs, tmp_path):
    for _ in range(2):
        assert cli.main(["-m", "seed=1,2", f"hydra.sweep.dir='{tmp_path}/a, b'"]) == 0
    assert [str(run.relative_to(tmp_path)) for run in run_directories(tmp_path)] == [
        "a, b/0_breakout_s1",
        "a, b/1_breakout_s2",
        "a, b-2/0_breakout_s1",
        "a, b-2/1_breakout_s2",
    ]


def test_options_may_stand_anywhere(jobs):
    assert cli.main(["env=squared", "-m", "seed=1,2"]) == 0
    assert [cfg.seed for cfg in jobs] == [1, 2]


def test_a_users_mistake_in_a_job_is_one_paragraph(jobs, monkeypatch, capsys):
    def run(cfg):
        raise UserError("This cannot work. " * 20)

    monkeypatch.setattr(modes, "run", run)
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert " ".join(err.split()) == " ".join(["This cannot work."] * 20)


def test_a_bug_shows_its_traceback(jobs, monkeypatch, capsys):
    def run(cfg):
        raise ZeroDivisionError("in the depths")

    monkeypatch.setattr(modes, "run", run)
    assert cli.main([]) == 1
    err = capsys.readouterr().err
    assert err.count("Traceback") == 1
    assert "in run\n" in err
    assert "ZeroDivisionError: in the depths" in err


def test_one_failed_job_does_not_stop_a_sweep(jobs, monkeypatch, capsys):
    def run(cfg):
        if cfg.seed == 1:
            raise UserError("seed 1 is unlucky")
        return RESULT

    monkeypatch.setattr(modes, "run", run)
    assert cli.main(["-m", "seed=0,1,2"]) == 2
    out, err = capsys.readouterr()
    assert [line.split("  ")[0] for line in out.splitlines()] == ["#0", "#1", "#2"]
    assert "failed: seed 1 is unlucky" in out.splitlines()[1]
    assert err.count("seed 1 is unlucky") == 1
    assert "Traceback" not in err


def test_the_status_a_mode_returns_is_the_programs(jobs, monkeypatch):
    monkeypatch.setattr(modes, "run", lambda cfg: 3)
    assert cli.main([]) == 3


def test_a_faulty_command_line_starts_and_leaves_nothing(jobs, tmp_path, capsys):
    assert cli.main(["env=brekout", "train.lrr=1", "train.lr=-1"]) == 2
    out, err = capsys.readouterr()
    assert (out, jobs) == ("", [])
    assert err.startswith("3 mistakes in the configuration; nothing was started:\n")
    for message in ("did you mean 'breakout'?", "did you mean 'train.lr'?", "train.lr is -1.0"):
        assert message in err
    assert list(tmp_path.iterdir()) == []


def test_showing_a_config_leaves_nothing_behind(jobs, tmp_path, capsys):
    for arguments in (["--help"], ["--cfg", "job"], ["--info"], ["--hydra-help"], ["--version"]):
        assert cli.main([*arguments, "env=pong"]) == 0
    assert jobs == []
    assert list(tmp_path.iterdir()) == []


def test_help_lists_groups_keys_and_comments(jobs, capsys):
    assert cli.main(["--help", "env=pong", "policy=lstm", "train.lr=0.125"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"env +bandit  breakout  cartpole .*\s\*pong\s", out, re.DOTALL)
    assert re.search(r"policy +\*lstm  mlp", out)
    assert re.search(r"train\.lr +0\.125 +learning rate at the start", out)
    assert re.search(r"env\.paddle_speed +8 +pixels per frame", out)
    assert re.search(r"vec\.num_envs +\d+ +copies of the environment", out)
    assert "python -m puffertoolkit env=pong --help" in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_shows_every_key_with_a_comment(jobs, capsys):
    cli.main(["--cfg", "job"])
    config = OmegaConf.create(capsys.readouterr().out)
    cli.main(["--help"])
    text = capsys.readouterr().out

    def leaves(node, prefix=""):
        for key, value in node.items():
            if OmegaConf.is_dict(value):
                yield from leaves(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}"

    for key in leaves(config):
        row = re.search(rf"^  {re.escape(key)} +\S+ *(.*)\n(.*)", text, re.MULTILINE)
        assert row, key
        # A long value pushes its comment to the next line.
        assert row[1] or row[2].startswith(" " * 10), key


def test_cfg_and_info_print_what_hydra_users_expect(jobs, capsys):
    cli.main(["--cfg", "job", "env=squared", "seed=3"])
    assert OmegaConf.create(capsys.readouterr().out).seed == 3
    cli.main(["--cfg", "job", "--package", "train", "train.lr=0.125"])
    assert "lr: 0.125" in capsys.readouterr().out
    cli.main(["--info", "defaults", "env=squared"])
    assert "env/squared" in capsys.readouterr().out


def test_a_config_with_wrong_values_is_shown_and_complained_about(jobs, capsys):
    assert cli.main(["--cfg", "job", "train.lr=-1"]) == 2
    out, err = capsys.readouterr()
    assert OmegaConf.create(out).train.lr == -1
    assert "train.lr is -1.0" in err


def test_version(jobs, capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"puffertoolkit {puffertoolkit.__version__}, Hydra 1.3")


@pytest.mark.parametrize("arguments", [["--nope"], ["-m", "--cfg", "job"], ["--resolve"], ["--cfg", "nope"]])
def test_wrong_options_are_the_users_mistake(arguments, jobs, capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(arguments)
    assert leaving.value.code == 2
    assert "usage: puffertoolkit" in capsys.readouterr().err


def test_program_reports_faults(tmp_path):
    done = program("env=brekout", "train.lrr=1", "vec.num_envs=0", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("3 mistakes in the configuration")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_program_prints_help_and_config(tmp_path):
    done = program("--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = program("--cfg", "job", "env=pong", "--resolve", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert OmegaConf.create(done.stdout).env.frameskip == 8


def test_program_ends_quietly_when_its_reader_leaves(tmp_path):
    command = f"{sys.executable} -m puffertoolkit --help | head -n 1"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("puffertoolkit")
    assert done.stderr == ""


def test_shell_completion(tmp_path):
    environment = {**os.environ, "COMP_LINE": "puffertoolkit env=po", "COMP_POINT": "20"}
    command = [sys.executable, "-m", "puffertoolkit", "-sc", "query=bash"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["env=pong"]


@pytest.mark.parametrize("conf", ["puffertoolkit/conf", "conf"], ids=["wheel", "checkout"])
def test_the_yaml_is_found_wherever_it_was_installed(conf, tmp_path):
    package = Path(puffertoolkit.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, tmp_path / "puffertoolkit", ignore=ignore)
    shutil.copytree(package.parent / "conf", tmp_path / conf, ignore=ignore)
    done = program("--info", "searchpath", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"file://{tmp_path / conf} " in done.stdout


def test_import_is_quick_and_light():
    code = """
import sys, time
begin = time.perf_counter()
import puffertoolkit
seconds = time.perf_counter() - begin
heavy = {"torch", "numba", "hydra", "omegaconf", "tensorboard", "numpy"} & set(sys.modules)
assert not heavy, heavy
print(seconds)
"""
    run = [sys.executable, "-c", code]
    seconds = []
    for _ in range(3):
        done = subprocess.run(run, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        seconds.append(float(done.stdout))
    assert min(seconds) < 0.3


def test_start_of_a_faulty_command_line_is_quick(tmp_path):
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        program("train.lrr=1", cwd=tmp_path)
        seconds.append(time.perf_counter() - begin)
    # About 0.5 s; importing Torch alone would take longer.
    assert min(seconds) < 1.5
