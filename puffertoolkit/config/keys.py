"""Dotted keys of YAML files: which there are, on which line, and with which comment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Key:
    """A key in a file.

    Attributes:
        name: Dotted, relative to the file's package: "encoder.depth".
        line: Counted from 1.
        comment: What follows `#` on its line, or stands alone on the line above; empty if neither.
        is_leaf: Whether a value stands there rather than further keys.
    """

    name: str
    line: int
    comment: str
    is_leaf: bool


def keys_of(path: Path) -> list[Key]:
    """Return the keys of a YAML file in their order, those of its defaults list left out.

    Raises:
        yaml.YAMLError: the file is not valid YAML.
        OSError: it cannot be read.
    """
    text = path.read_text(encoding="utf-8")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    lines = text.splitlines()
    if not isinstance(root, yaml.MappingNode):
        return []
    return [
        Key(name, line, _comment(lines, line), is_leaf)
        for name, line, is_leaf in _walk(root, "")
        if name.partition(".")[0] != "defaults"
    ]


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested plain dicts by dotted key; lists and empty dicts are leaves."""
    if not isinstance(tree, dict) or not tree:
        return {prefix: tree} if prefix else {}
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return leaves


def _walk(node: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, int, bool]]:
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        is_leaf = not isinstance(value, yaml.MappingNode)
        yield name, key.start_mark.line + 1, is_leaf
        if not is_leaf:
            yield from _walk(value, f"{name}.")


def _comment(lines: list[str], line: int) -> str:
    _, mark, trailing = lines[line - 1].partition(" #")
    if mark:
        return trailing.strip()
    above = lines[line - 2].strip() if line > 1 else ""
    return above[1:].strip() if above.startswith("#") and not above.startswith("# @package") else ""
