import subprocess
import sys
from pathlib import Path

import pytest

from puffertoolkit.config.rundir import claim


@pytest.mark.parametrize("marker", [".hydra", "multirun.yaml"])
def test_a_directory_is_claimed_once(marker, tmp_path):
    wanted = tmp_path / "a" / "run"
    claimed = [claim(wanted, marker) for _ in range(3)]
    assert [path.name for path in claimed] == ["run", "run-2", "run-3"]
    assert all((path / marker).exists() for path in claimed)


def test_an_empty_directory_may_be_claimed_and_a_used_one_not(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").touch()
    assert claim(tmp_path / "empty", ".hydra").name == "empty"
    assert claim(tmp_path / "used", ".hydra").name == "used-2"


def test_processes_never_share_a_directory(tmp_path):
    code = f"""
from pathlib import Path
from puffertoolkit.config.rundir import claim
for _ in range(25):
    print(claim(Path({str(tmp_path / "run")!r}), ".hydra").name)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    names = [name for process in processes for name in process.communicate(timeout=60)[0].split()]
    assert len(names) == 100
    assert len(set(names)) == 100


def test_what_cannot_be_made_is_an_error(tmp_path):
    Path(tmp_path, "file").touch()
    with pytest.raises(OSError):
        claim(tmp_path / "file" / "run", ".hydra")


def test_processes_that_go_on_with_a_run_never_share_a_folder(tmp_path):
    code = f"""
from pathlib import Path
from puffertoolkit.config.rundir import claim_subfolder
for _ in range(25):
    print(claim_subfolder(Path({str(tmp_path)!r}), ".hydra"))
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    names = [name for process in processes for name in process.communicate(timeout=60)[0].split()]
    assert sorted(names) == sorted(f".hydra/resumed_{number}" for number in range(1, 51))
    assert all((tmp_path / name).is_dir() for name in names)
