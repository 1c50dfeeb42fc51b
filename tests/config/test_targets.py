import types

import pytest

from puffertoolkit.config import targets
from puffertoolkit.config.targets import check_tree, is_allowed, locate
from puffertoolkit.errors import UserError


def test_own_classes_are_found():
    from puffertoolkit.errors import UserError as Found

    assert locate("puffertoolkit.errors.UserError", []) is Found


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "subprocess.Popen",
        "builtins.eval",
        "puffertoolkit_evil.X",
        "ocean_numba2.X",
        "hydra.utils.call",
    ],
)
def test_other_packages_are_refused_without_import(target):
    with pytest.raises(UserError, match=r"If you trust .*, add trust="):
        locate(target, [])


@pytest.mark.parametrize(
    "target",
    # Each is an attribute of a module that is allowed, and defined in one that is not.
    ["puffertoolkit.cli.os.system", "puffertoolkit.config.targets.import_module", "puffertoolkit.cli.Path"],
)
def test_what_an_allowed_module_merely_imports_is_refused(target):
    with pytest.raises(UserError, match="which is defined as"):
        locate(target, [])


def test_trust_allows_a_package_and_its_modules(package):
    package("trusted_pkg", "class Env: ...")
    assert locate("trusted_pkg.Env", ["trusted_pkg"]).__name__ == "Env"
    with pytest.raises(UserError, match=r"add trust=\[other,trusted_pkg\]"):
        locate("trusted_pkg.Env", ["other"])


def test_entry_points_allow_the_module_they_name(monkeypatch):
    points = {"puffertoolkit.envs": [types.SimpleNamespace(value="their_envs.maze:Maze")]}
    monkeypatch.setattr(targets, "entry_points", lambda group: points.get(group, []))
    targets.registered_modules.cache_clear()
    try:
        assert is_allowed("their_envs.maze.Maze", [])
        assert not is_allowed("their_envs.other.Maze", [])
    finally:
        targets.registered_modules.cache_clear()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "puffertoolkit.errors.UserErorr",
            "has no 'UserErorr'; did you mean 'puffertoolkit.errors.UserError'",
        ),
        ("puffertoolkit.erors.UserError", "puffertoolkit has no 'erors'"),
        ("puffertoolkit.errors", "is a module; it must name a class or a function"),
        ("puffertoolkit.__version__", "is a str; it must name a class or a function"),
        ("puffertoolkit.errors.UserError.nope", "there is no 'puffertoolkit.errors.UserError.nope'"),
        ("", "must be a dotted name"),
        ("os; rm -r", "must be a dotted name"),
        (3, "must be a dotted name"),
    ],
)
def test_what_cannot_be_found_says_so(target, message):
    with pytest.raises(UserError) as error:
        locate(target, [])
    assert message in str(error.value)


def test_an_import_error_inside_a_module_is_passed_on(package):
    package("needs_more", "import not_installed_anywhere\n")
    with pytest.raises(
        UserError, match=r"importing needs_more failed: No module named 'not_installed_anywhere'"
    ):
        locate("needs_more.Env", ["needs_more"])


@pytest.mark.parametrize(
    "tree",
    [
        {"_target_": "os.system"},
        {"a": {"_target_": "os.system"}},
        {"a": [{"b": [{"_target_": "os.system"}]}]},
        {"_target_": "puffertoolkit.errors.UserError", "a": {"_target_": "os.system"}},
    ],
)
def test_a_target_is_found_at_any_depth(tree):
    with pytest.raises(UserError, match=r"os\.system"):
        check_tree(tree, [])


def test_a_value_that_resolves_later_is_refused():
    # Hydra would resolve it once more while building, into a node that nobody has checked.
    with pytest.raises(UserError, match="would be resolved"):
        check_tree({"a": "${oc.create:{_target_:os.system}}"}, [])
