from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

import puffertoolkit
from puffertoolkit.errors import UserError
from puffertoolkit.run import provenance
from puffertoolkit.run.checkpoint import save_checkpoint
from puffertoolkit.run.directory import RunDirectory, config_hash, find_run
from puffertoolkit.run.provenance import GitState, git_state
from puffertoolkit.seeding import SeedTree
from puffertoolkit.threads import available_cpus

CONFIG = OmegaConf.create({"seed": 7, "num_threads": 0, "env": {"width": 8, "height": "${env.width}"}})


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints at steps 1, 2, 3, of which 2 is the best."""
    path = tmp_path / "outputs" / "train" / "breakout" / "2025-01-02_03-04-05_s7"
    directory = RunDirectory(path)
    directory.write_provenance(CONFIG, ["env=breakout"])
    directory.config.parent.mkdir()
    directory.config.write_text(OmegaConf.to_yaml(CONFIG))
    for step, score in ((1, 0.0), (2, 9.0), (3, 1.0)):
        save_checkpoint(directory.checkpoints, step, {"w": torch.ones(1)}, {}, {}, keep=5, score=score)
    return directory


def checkpoint(run, step):
    return run.checkpoints / f"step_{step:012d}"


# --- the record ---


def test_the_record_says_what_ran_where_and_with_which_seeds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = RunDirectory(tmp_path / "run")
    run.write_provenance(CONFIG, ["env=breakout", "tag=two words"], num_threads=3)
    record = json.loads(run.provenance.read_text())
    assert record["command"] == "python -m puffertoolkit env=breakout 'tag=two words'"
    assert record["argv"] == ["env=breakout", "tag=two words"]
    assert record["working_directory"] == str(tmp_path)
    assert record["seed"] == 7
    assert record["seeds"] == SeedTree(7).as_dict()
    assert record["num_threads"] == 3
    assert record["cpu_count"] >= 1
    assert record["host"] == platform.node()
    assert record["versions"]["python"] == platform.python_version()
    for name in ("puffertoolkit", "torch", "numba", "numpy"):
        assert record["versions"][name] == importlib.metadata.version(name)
    assert record["versions"]["cuda"] == torch.version.cuda
    assert record["config_sha256"] == config_hash(CONFIG)
    started = datetime.fromisoformat(record["started"])
    assert abs((datetime.now().astimezone() - started).total_seconds()) < 60


def test_without_a_number_all_the_cpus_are_the_threads(tmp_path):
    run = RunDirectory(tmp_path)
    run.write_provenance(CONFIG, [])
    assert json.loads(run.provenance.read_text())["num_threads"] == available_cpus()


def test_no_environment_variable_reaches_the_record(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "a-secret-value")
    run = RunDirectory(tmp_path)
    run.write_provenance(CONFIG, [])
    assert all("a-secret-value" not in file.read_text() for file in tmp_path.iterdir())


def test_the_hash_is_of_the_resolved_values_whatever_their_order():
    same = OmegaConf.create({"env": {"height": 8, "width": 8}, "num_threads": 0, "seed": 7})
    other = OmegaConf.create({"env": {"height": 9, "width": 8}, "num_threads": 0, "seed": 7})
    assert config_hash(CONFIG) == config_hash(same) != config_hash(other)
    text = "env:\n  height: 8\n  width: 8\nnum_threads: 0\nseed: 7\n"
    assert config_hash(CONFIG) == hashlib.sha256(text.encode()).hexdigest()


def test_cuda_is_found_without_importing_torch():
    code = (
        "import sys\nfrom puffertoolkit.run.directory import RunDirectory\n"
        "from puffertoolkit.run.provenance import versions\n"
        "print(versions()['cuda'], [name for name in ('torch', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{torch.version.cuda} []"


def test_the_cuda_version_is_read_from_a_cuda_build(tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "torch" / "version.py").write_text(
        "debug = False\ncuda: Optional[str] = '12.8'\nhip = None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    assert provenance.versions()["cuda"] == "12.8"


# --- git ---


def git(path, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, "-C", str(path), *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("needs git")
    package = tmp_path / "checkout" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1\n")
    (package.parent / "settings.yaml").write_text("a: 1\n")
    git(package.parent, "init", "--quiet")
    git(package.parent, "add", ".")
    git(package.parent, "commit", "--quiet", "-m", "first")
    return package


def test_a_clean_checkout(checkout):
    state = git_state(checkout)
    assert len(state.sha) == 40
    assert state.dirty is False
    assert state.diff == b""


def test_a_changed_checkout_gives_a_diff_that_applies_again(checkout):
    (checkout / "__init__.py").write_text("x = 2\n")
    (checkout.parent / "settings.yaml").write_text("a: 3\n")
    state = git_state(checkout)
    assert state.dirty is True
    git(checkout.parent, "checkout", "--quiet", ".")
    (checkout.parent / "the.diff").write_bytes(state.diff)
    git(checkout.parent, "apply", "the.diff")
    assert (checkout / "__init__.py").read_text() == "x = 2\n"
    assert (checkout.parent / "settings.yaml").read_text() == "a: 3\n"


def test_new_files_are_named_but_not_copied(checkout):
    (checkout.parent / ".env").write_text("TOKEN=a-secret-value")
    state = git_state(checkout)
    assert state.dirty is True
    assert state.untracked == (".env",)
    assert state.diff == b""


def test_staged_changes_are_in_the_diff(checkout):
    (checkout / "new.py").write_text("y = 1\n")
    git(checkout.parent, "add", ".")
    assert b"+y = 1" in git_state(checkout).diff


def test_a_huge_diff_is_cut(checkout, monkeypatch):
    monkeypatch.setattr(provenance, "DIFF_LIMIT_BYTES", 5000)
    (checkout / "__init__.py").write_text("x = 1234567890\n" * 200_000)
    diff = git_state(checkout).diff
    assert diff.startswith(b"diff --git")
    assert 5000 < len(diff) < 5100
    assert b"cut here" in diff


def test_a_package_installed_inside_somebody_elses_repository_is_not_its_source(checkout):
    installed = checkout.parent / "venv" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert git_state(installed) == GitState()


def test_variables_that_point_git_elsewhere_do_not(checkout, monkeypatch):
    sha = git_state(checkout).sha
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert git_state(checkout).sha == sha


@pytest.mark.parametrize("script", [None, "exit 1", "sleep 30", "yes"])
def test_a_missing_broken_slow_or_endless_git_stops_nothing(checkout, tmp_path, monkeypatch, script):
    monkeypatch.setattr(provenance, "GIT_TIMEOUT_S", 0.2)
    tools = tmp_path / "tools"
    tools.mkdir()
    if script:
        (tools / "git").write_text(
            f"#!/bin/sh\nexec {script}\n" if script != "exit 1" else "#!/bin/sh\nexit 1\n"
        )
        (tools / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin")
    else:
        monkeypatch.setenv("PATH", str(tools))
    state = git_state(checkout)
    assert len(state.diff) < 2 * provenance.DIFF_LIMIT_BYTES
    assert script == "yes" or state == GitState()


def test_a_run_of_a_changed_checkout_has_the_diff_beside_its_record(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(puffertoolkit, "__file__", str(checkout / "__init__.py"))
    (checkout / "__init__.py").write_text("x = 2\n")
    run = RunDirectory(tmp_path / "run")
    run.write_provenance(CONFIG, [])
    assert b"+x = 2" in run.git_diff.read_bytes()
    record = json.loads(run.provenance.read_text())
    assert record["git"]["dirty"] is True
    assert len(record["git"]["sha"]) == 40
    assert {path.name for path in run.path.iterdir()} == {"run.json", "git.diff"}


def test_a_clean_run_has_no_diff(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(puffertoolkit, "__file__", str(checkout / "__init__.py"))
    run = RunDirectory(tmp_path / "run")
    run.write_provenance(CONFIG, [])
    assert {path.name for path in run.path.iterdir()} == {"run.json"}


# --- finding a run ---


def test_a_run_or_its_checkpoints_mean_the_latest_or_the_best(run):
    for path in (run.path, run.checkpoints, str(run.path), run.path / "checkpoints" / ".."):
        found, at = find_run(path)
        assert found.path.samefile(run.path)
        assert at.samefile(checkpoint(run, 3))
        assert find_run(path, prefer="best")[1].samefile(checkpoint(run, 2))


@pytest.mark.parametrize("name", ["", "weights.safetensors", "manifest.json", "trainer.pt"])
def test_a_checkpoint_or_a_file_of_it_means_itself(run, name):
    found, at = find_run(checkpoint(run, 1) / name)
    assert at.samefile(checkpoint(run, 1))
    assert found.path.samefile(run.path)


def test_a_relative_path_works(run, monkeypatch):
    monkeypatch.chdir(checkpoint(run, 1))
    assert find_run(".")[1].samefile(checkpoint(run, 1))
    monkeypatch.chdir(run.path)
    assert find_run(".")[1].samefile(checkpoint(run, 3))
    assert find_run("checkpoints/step_000000000002")[1].samefile(checkpoint(run, 2))


def test_a_renamed_checkpoint_is_still_one(run):
    renamed = run.checkpoints / "favourite"
    checkpoint(run, 1).rename(renamed)
    found, at = find_run(renamed)
    assert at == renamed
    assert found.path.samefile(run.path)


def message(path):
    with pytest.raises(UserError) as error:
        find_run(path)
    return str(error.value)


def test_a_mistyped_path_gets_the_nearest_name(run):
    wrong = run.path.with_name("2025-01-02_03-04-05_s8")
    assert f"Did you mean {run.path}" in message(wrong)
    typo = run.path.parents[1] / "braekout" / run.path.name
    assert f"Did you mean {run.path.parent}" in message(typo)
    assert "Did you mean" not in message(run.path / "zzz" / "yyy")


def test_a_folder_of_runs_names_the_newest(run):
    other = run.path.with_name("2024-01-01_00-00-00_s1")
    shutil.copytree(run.path, other)
    os.utime(other / "run.json", (0, 0))
    for folder in run.path.parents[:3]:
        text = message(folder)
        assert "2 runs" in text
        assert str(run.path) in text


def test_a_run_without_checkpoints_says_so(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.write_provenance(CONFIG, [])
    assert "holds no checkpoint" in message(run.path)


def test_something_else_is_told_what_was_expected(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        assert "neither a run's directory nor a checkpoint" in message(path)


def test_a_checkpoint_away_from_its_run_says_what_is_missing(run, tmp_path):
    away = tmp_path / "away" / "step_000000000001"
    shutil.copytree(checkpoint(run, 1), away)
    assert "outside the directory of its run" in message(away)


def test_a_damaged_newest_checkpoint_names_the_good_one(run):
    (checkpoint(run, 3) / "manifest.json").write_text("{")
    for path in (run.path, checkpoint(run, 3)):
        text = message(path)
        assert "step_000000000003" in text
        assert "checkpoint=" in text
        assert "step_000000000002" in text


def test_the_layout_of_a_run():
    run = RunDirectory("r")
    expected = {
        "config": ".hydra/config.yaml",
        "overrides": ".hydra/overrides.yaml",
        "provenance": "run.json",
        "git_diff": "git.diff",
        "metrics": "metrics.jsonl",
        "tensorboard": "tb",
        "checkpoints": "checkpoints",
        "videos": "videos",
    }
    assert {name: getattr(run, name) for name in expected} == {k: Path("r") / v for k, v in expected.items()}
