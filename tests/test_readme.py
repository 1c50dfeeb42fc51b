"""What the README tells people to type is accepted, and its Python runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)
COMMANDS = [
    shlex.split(line, comments=True)[3:]
    for kind, block in BLOCKS
    if kind == "sh"
    for line in block.splitlines()
    if line.startswith("python -m puffertoolkit")
]
# These name a run or a package that only the reader has.
PLACEHOLDERS = ("checkpoint=", "resume=", "run=outputs", "my_package")


@pytest.mark.parametrize(
    "arguments", [c for c in COMMANDS if not any(p in " ".join(c) for p in PLACEHOLDERS)], ids=" ".join
)
def test_commands_compose(arguments, tmp_path):
    if "-m" in arguments or "--help" in arguments or "--cfg" in arguments:
        look = [a for a in arguments if a != "-m"]
        look = [a.replace("squared,cartpole", "squared").replace("1,2", "1") for a in look]
    else:
        look = arguments
    look = [*look, *([] if {"--help", "--cfg"} & set(look) else ["--cfg", "job"])]
    result = subprocess.run(
        [sys.executable, "-m", "puffertoolkit", *look],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert not list(tmp_path.iterdir())


def test_there_are_commands_to_check():
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("code", [block for kind, block in BLOCKS if kind == "python"])
def test_python_runs(code):
    exec(compile(code, "README.md", "exec"), {})


def test_mistakes_read_as_shown(tmp_path):
    shown = next(block for kind, block in BLOCKS if kind == "text")
    command, _, wanted = shown.partition("\n")
    arguments = shlex.split(command.removeprefix("$ python"))
    result = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2
    assert result.stdout + result.stderr == wanted


def test_the_two_commands_come_first():
    kind, first = BLOCKS[0]
    assert kind == "sh"
    commands = [line.split()[0] for line in first.splitlines()]
    assert commands == ["scripts/run", "scripts/test"]
    for command in commands:
        assert (ROOT / command).stat().st_mode & 0o100


def test_choices_are_those_that_exist():
    table = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", README, re.M))
    for group, shown in table.items():
        files = {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")}
        assert set(re.findall(r"`(\w+)`", shown)) == files
