import textwrap

import pytest
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore

from puffertoolkit.cli import _run_of
from puffertoolkit.config.check import preflight


@pytest.fixture(autouse=True)
def _forget_choices():
    """A choice that a command line registers with Hydra because its file is gone ends with its test."""
    yield
    for group in ("env", "policy"):
        ConfigStore.instance().repo.pop(group, None)


@pytest.fixture
def check():
    """Preflight a command line: `check("env=pong", "train.lr=1")`."""

    def run(*arguments):
        options = get_args_parser().parse_intermixed_args([str(argument) for argument in arguments])
        return preflight(options, _run_of)

    return run


@pytest.fixture
def faults(check):
    """The messages of a command line's preflight."""
    return lambda *arguments: [str(fault) for fault in check(*arguments).faults]


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """Write a config folder of a user's own, from names and contents, and work beside it."""
    monkeypatch.chdir(tmp_path)

    def write(files):
        folder = tmp_path / "mine" / "conf"
        for name, content in files.items():
            path = folder / f"{name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(content))
        return folder

    return write


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a module that can be imported, from its name and content."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def write(name, content):
        (folder / f"{name}.py").write_text(textwrap.dedent(content))

    return write
