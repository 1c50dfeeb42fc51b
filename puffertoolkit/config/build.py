"""The only place where a config becomes objects."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from puffertoolkit.config.targets import check_tree, locate
from puffertoolkit.errors import UserError


def build_env(node: DictConfig, *, trust: Sequence[str] | None = None, **supplied: int) -> Any:
    """Build the environment of `cfg.env`: its class, called with its own parameters and what is supplied.

    Args:
        node: `cfg.env`.
        trust: Packages that `_target_` may name besides the toolkit's own; by default `cfg.trust`.
        supplied: `num_envs` copies and `num_threads` to step them; left out for a class that does not take
            them.

    Raises:
        UserError: a `_target_` is not allowed or does not exist, or a parameter is refused by its class.
    """
    trust = _trusted(node, trust)
    resolved = _resolved(node, "env", trust)
    accepted = inspect.signature(locate(resolved["_target_"], trust)).parameters
    return _build(resolved, "env", **{name: value for name, value in supplied.items() if name in accepted})


def build_policy(
    node: DictConfig, observation_space: Any, action_space: Any, *, trust: Sequence[str] | None = None
) -> Any:
    """Build the policy of `cfg.policy` for the spaces of one agent.

    Its parts, the nodes in it with a `_target_` of their own, are handed to it unbuilt, as partials: their
    sizes come from the spaces and from one another, and only the policy knows them. A part that says
    `_partial_: false` is built first.

    Args:
        node: `cfg.policy`.
        observation_space: Gymnasium space of one agent's observation.
        action_space: Gymnasium space of one agent's action.
        trust: Packages that `_target_` may name besides the toolkit's own; by default `cfg.trust`.

    Raises:
        UserError: a `_target_` is not allowed or does not exist, or a parameter is refused by its class.
    """
    resolved = _resolved(node, "policy", _trusted(node, trust))
    unbuilt = {key: _as_partial(part) for key, part in resolved.items()}
    return _build(unbuilt, "policy", observation_space=observation_space, action_space=action_space)


def _trusted(node: DictConfig, trust: Sequence[str] | None) -> list[str]:
    if trust is None:
        trust = OmegaConf.select(node._get_root(), "trust", default=[])
    return list(trust)


def _resolved(node: DictConfig, section: str, trust: Sequence[str]) -> dict[str, Any]:
    """Return the node as plain, checked values: what is checked is then exactly what is built."""
    plain: Any = OmegaConf.to_container(node, resolve=True)
    if "_target_" not in plain:
        raise UserError(f"{section} has no _target_; name the class to build, like 'my_pkg.MyClass'.")
    check_tree(plain, trust)
    return dict(plain)


def _as_partial(part: Any) -> Any:
    if isinstance(part, list):
        return [_as_partial(child) for child in part]
    if not isinstance(part, dict):
        return part
    children = {key: _as_partial(child) for key, child in part.items()}
    return {"_partial_": True, **children} if "_target_" in part else children


def _build(node: dict[str, Any], section: str, **supplied: Any) -> Any:
    try:
        # In two steps: Hydra would copy and convert what is supplied if it went through the config.
        factory = instantiate({**node, "_partial_": True}, _convert_="all")
        return factory(**supplied)
    except InstantiationException as error:
        if isinstance(error.__cause__, (UserError, ValueError)):
            raise UserError(f"{section}: {error.__cause__}") from error
        raise
    except ValueError as error:
        raise UserError(f"{section}: {error}") from error
    except TypeError as error:
        # A factory such as gymnasium.make hands its arguments on: only there it turns out who takes them.
        if "argument" not in str(error):
            raise
        raise UserError(
            f"{section}: {error}. The keys of {section} are what {node['_target_']} is called with; take out "
            f"one that it does not know with ~{section}.<key>."
        ) from error
