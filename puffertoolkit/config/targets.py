"""What a `_target_` may name, and the object it names.

A config can come from a stranger, and building an arbitrary `_target_` runs arbitrary code. Only modules in
the allow-list are imported, and only what is defined in them is called: `puffertoolkit.cli.os.system` is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from puffertoolkit.config.suggest import did_you_mean, nearest
from puffertoolkit.errors import UserError

OWN_PACKAGES = ("puffertoolkit", "ocean_numba")
ENTRY_POINT_GROUPS = ("puffertoolkit.envs", "puffertoolkit.policies")


@cache
def registered_modules() -> tuple[str, ...]:
    """Return the modules that installed packages register under the entry point groups."""
    points = [point for group in ENTRY_POINT_GROUPS for point in entry_points(group=group)]
    return tuple(sorted({point.value.partition(":")[0].strip() for point in points}))


def is_allowed(dotted: str, trust: Iterable[str]) -> bool:
    """Tell whether a dotted path lies in an allowed module or package."""
    allowed = (*OWN_PACKAGES, *registered_modules(), *trust)
    return any(dotted == name or dotted.startswith(f"{name}.") for name in allowed)


def locate(target: str, trust: Sequence[str]) -> Any:
    """Return the class or function that a `_target_` names, importing its module.

    Raises:
        UserError: it is not allowed, cannot be imported, does not exist, or is neither class nor function.
    """
    if not isinstance(target, str) or not target.replace(".", "").replace("_", "").isalnum():
        raise UserError(f"_target_ is {target!r}; it must be a dotted name like 'my_pkg.MyEnv'.")
    _require_allowed(target, target, trust)
    found = _walk(target)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        kind = "a module" if isinstance(found, ModuleType) else f"a {type(found).__name__}"
        raise UserError(f"_target_ '{target}' is {kind}; it must name a class or a function.")
    _require_allowed(target, f"{found.__module__}.{found.__qualname__}", trust)
    return found


def check_tree(node: Any, trust: Sequence[str]) -> None:
    """Refuse a resolved node, of plain dicts and lists, that holds a `_target_` which is not allowed.

    Raises:
        UserError: a target is refused, or a value holds an interpolation that would be resolved later.
    """
    for value in _leaves(node):
        if isinstance(value, str) and "${" in value:
            raise UserError(f"'{value}' would be resolved when its object is built; write the value itself.")
    for target in targets(node):
        locate(target, trust)


def targets(node: Any) -> Iterator[Any]:
    """Yield the value of every `_target_` in a tree of plain dicts and lists."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield node["_target_"]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from targets(child)


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, (dict, list)):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _leaves(child)
    else:
        yield node


def _require_allowed(target: str, home: str, trust: Sequence[str]) -> None:
    if is_allowed(home, trust):
        return
    package = home.partition(".")[0]
    where = "" if home == target else f", which is defined as {home},"
    trusted = ",".join([*trust, package])
    raise UserError(
        f"_target_ '{target}'{where} is outside the packages whose code a config may run "
        f"({', '.join([*OWN_PACKAGES, *registered_modules(), *trust])}). "
        f"If you trust {package}, add trust=[{trusted}]"
    )


def _walk(target: str) -> Any:
    """Import as much of the dotted path as is modules, and look the rest up."""
    head, *rest = target.split(".")
    found: Any = _import(head, target)
    path = head
    for part in rest:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            if not isinstance(found, ModuleType):
                raise UserError(f"_target_ '{target}': there is no '{path}'.") from None
            found = _import(path, target, among=[name for name in dir(found) if not name.startswith("_")])
    return found


def _import(module: str, target: str, among: Iterable[str] = ()) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        parent, _, name = module.rpartition(".")
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise UserError(f"_target_ '{target}': importing {module} failed: {error}.") from error
        hint = nearest(name, among)
        hint = f"{parent}.{hint}" if hint else None
        where = f"{parent} has no '{name}'" if parent else f"there is no package '{name}'"
        raise UserError(f"_target_ '{target}': {where}{did_you_mean(hint)}") from None
    except ImportError as error:
        raise UserError(f"_target_ '{target}': importing {module} failed: {error}.") from error
