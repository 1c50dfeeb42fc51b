"""Parameters in `env` and `policy` against the signature of the class that their `_target_` names.

Some parameters come from the toolkit and are not for the YAML: an environment's `num_envs` and `num_threads`;
a policy's spaces; and of a policy's parts (its nodes with a `_target_` of their own), which the policy itself
completes, also the sizes that follow from the spaces and from the policy's `hidden_size`. Parts may leave out
any other required parameter as well, since the policy may supply more; the top node may not.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from puffertoolkit.config.faults import Fault
from puffertoolkit.config.suggest import did_you_mean, nearest
from puffertoolkit.config.targets import locate
from puffertoolkit.errors import UserError

SPACES = {"observation_space": "the environment", "action_space": "the environment"}
SUPPLIED = {
    "env": {"num_envs": "vec.num_envs", "num_threads": "num_threads"},
    "policy": SPACES,
    "part": {**SPACES, "input_size": "the part before it", "hidden_size": "policy.hidden_size"},
}
INSTRUCTIONS = frozenset({"_target_", "_partial_", "_convert_", "_recursive_"})
NAMES = {"int": int, "float": float, "bool": bool, "str": str}
NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}


def section_faults(section: str, node: dict[str, Any], trust: Sequence[str]) -> list[Fault]:
    """Check `cfg.env` or `cfg.policy`, resolved to plain values, importing what it names.

    Args:
        section: "env" or "policy".
        node: The section's values.
        trust: Packages whose classes may be named besides the toolkit's own.
    """
    if not isinstance(node.get("_target_"), str):
        return [Fault(f"{section} has no _target_; name the class to build, like 'my_pkg.MyClass'", section)]
    return list(_node_faults(section, node, trust, SUPPLIED[section], complete=True))


def parameter_names(target: Any) -> list[str]:
    """Return the names that a class or function can be called with."""
    parameters, _ = _parameters(target)
    return list(parameters)


def _node_faults(
    path: str, node: dict[str, Any], trust: Sequence[str], supplied: dict[str, str], *, complete: bool
) -> Iterator[Fault]:
    try:
        target = locate(node["_target_"], trust)
    except UserError as error:
        yield Fault(str(error), f"{path}._target_")
        target = None
    given = {key: value for key, value in node.items() if key not in INSTRUCTIONS}
    sound = target is not None
    if target is not None:
        for fault in _call_faults(path, target, given, supplied, complete=complete):
            sound = False
            yield fault
    for key, value in given.items():
        yield from _child_faults(f"{path}.{key}", value, trust, is_part=path.partition(".")[0] == "policy")
    if sound and hasattr(target, "Params"):
        yield from _params_faults(path, target, given)


def _child_faults(path: str, value: Any, trust: Sequence[str], *, is_part: bool) -> Iterator[Fault]:
    """Check the targets inside a value, at any depth."""
    if isinstance(value, dict) and "_target_" in value:
        built = not is_part or value.get("_partial_") is False
        yield from _node_faults(path, value, trust, {} if built else SUPPLIED["part"], complete=built)
    elif isinstance(value, (dict, list)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _child_faults(f"{path}.{key}", child, trust, is_part=is_part)


def _call_faults(
    path: str, target: Any, given: dict[str, Any], supplied: dict[str, str], *, complete: bool
) -> Iterator[Fault]:
    """Check names and types of what is given against what `target` takes."""
    parameters, takes_any = _parameters(target)
    name = target.__qualname__
    for key, value in given.items():
        if key in supplied:
            yield Fault(f"'{path}.{key}' cannot be set: it comes from {supplied[key]}", f"{path}.{key}")
        elif key not in parameters:
            if not takes_any:
                hint = nearest(key, [other for other in parameters if other not in supplied])
                hint = f"{path}.{hint}" if hint else None
                text = f"no key '{path}.{key}': {name} has no such parameter{did_you_mean(hint)}"
                yield Fault(text, f"{path}.{key}")
        elif not hasattr(target, "Params") and not _fits(value, parameters[key].annotation):
            expected = _describe(parameters[key].annotation)
            yield Fault(f"{path}.{key} is {value!r}; {name} takes {expected}", f"{path}.{key}")
    if complete:
        for key, parameter in parameters.items():
            if parameter.default is parameter.empty and key not in given and key not in supplied:
                yield Fault(f"{path} lacks '{key}', which {name} requires", path)


def _params_faults(path: str, target: Any, given: dict[str, Any]) -> Iterator[Fault]:
    """Let the class's own dataclass of parameters judge their values."""
    names = inspect.signature(target.Params).parameters
    try:
        target.Params(**{key: value for key, value in given.items() if key in names})
    except (ValueError, TypeError) as error:
        at_fault = next((key for key in given if str(error).startswith(f"{key}=")), None)
        yield Fault(f"{path}: {error}", f"{path}.{at_fault}" if at_fault else path)


def _parameters(target: Any) -> tuple[dict[str, inspect.Parameter], bool]:
    """Return the parameters that can be given by name, and whether any other name is taken as well."""
    try:
        signature = inspect.signature(target, eval_str=True)
    except NameError:  # an annotation that names what only a type checker imports
        signature = inspect.signature(target)
    except ValueError:  # a builtin that does not tell
        return {}, True
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = {p.name: p for p in signature.parameters.values() if p.kind in by_name}
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    if hasattr(target, "Params"):
        own = inspect.signature(target.Params).parameters
        return {**parameters, **own}, False
    return parameters, takes_any


def _fits(value: Any, annotation: Any) -> bool:
    """Tell whether a YAML value suits an annotation; what cannot be told from it suits."""
    annotation = NAMES.get(annotation, annotation) if isinstance(annotation, str) else annotation
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(annotation))
    if origin is Literal:
        return value in get_args(annotation)
    if annotation is NoneType:
        return value is None
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (bool, str):
        return isinstance(value, annotation)
    return True


def _describe(annotation: Any) -> str:
    annotation = NAMES.get(annotation, annotation) if isinstance(annotation, str) else annotation
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return " or ".join(_describe(option) for option in get_args(annotation))
    if origin is Literal:
        return " or ".join(repr(option) for option in get_args(annotation))
    return NOUNS.get(annotation, str(annotation))
