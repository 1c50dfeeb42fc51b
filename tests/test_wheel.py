"""The wheel alone: what it holds, and that it runs from an empty folder."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    # Built from a copy: setuptools leaves a build/ behind, and would pack what stands in an old one.
    left_out = shutil.ignore_patterns(".*", "build", "outputs", "tests", "*.egg-info", "__pycache__")
    source = shutil.copytree(ROOT, target / "source", ignore=left_out)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(target),
        str(source),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=target)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(target.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh venv with the wheel; the dependencies are those of the venv that runs the tests."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(dependencies))
    return folder / "bin" / "python"


def run(python, *arguments, cwd):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(python), *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )


def test_holds_packages_and_yaml(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    yaml_files = [str(path.relative_to(ROOT)) for path in (ROOT / "conf").rglob("*.yaml")]
    assert yaml_files
    for name in yaml_files:
        assert f"puffertoolkit/{name}" in names
    sources = [p for package in ("puffertoolkit", "ocean_numba") for p in (ROOT / package).rglob("*.py")]
    for path in sources:
        assert str(path.relative_to(ROOT)) in names
    assert not [name for name in names if name.startswith(("tests", "conf/"))]


def test_trains_and_evaluates_from_an_empty_folder(installed, tmp_path):
    where = run(
        installed, "-c", "import puffertoolkit, ocean_numba; print(puffertoolkit.__file__)", cwd=tmp_path
    )
    assert str(installed.parent.parent) in where.stdout, where.stderr
    small = ("vec.num_envs=32", "train.total_timesteps=4000", "train.horizon=16", "train.minibatch_size=256")
    trained = run(installed, "-m", "puffertoolkit", "env=cartpole", *small, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    checkpoint = next(tmp_path.glob("outputs/train/cartpole/*"))
    evaluated = run(
        installed,
        "-m",
        "puffertoolkit",
        "mode=eval",
        f"checkpoint={checkpoint}",
        "eval.episodes=5",
        cwd=tmp_path,
    )
    assert evaluated.returncode == 0, evaluated.stderr
    assert "episode_length" in evaluated.stdout


@pytest.mark.parametrize(
    "module", ["puffertoolkit", "puffertoolkit.cli", "ocean_numba", "ocean_numba.breakout"]
)
def test_importing_writes_and_prints_nothing(installed, tmp_path, module):
    result = run(installed, "-B", "-c", f"import {module}", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())
