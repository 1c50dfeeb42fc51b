"""The nearest right name for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that `name` most likely stands for, or None if none is close."""
    names = list(names)
    exact = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if exact:
        return exact[0]
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def nearest_key(key: str, keys: Iterable[str]) -> str | None:
    """Return the dotted key that `key` most likely stands for.

    A key whose last part is right but which lacks its section comes first (`lr` for `train.lr`), then a
    misspelt last part in the right section, then any key that looks alike.
    """
    keys = list(keys)
    section, _, last = key.rpartition(".")
    same_name = [other for other in keys if other.rpartition(".")[2] == last]
    if len(same_name) == 1:
        return same_name[0]
    siblings = {other.rpartition(".")[2]: other for other in keys if other.rpartition(".")[0] == section}
    sibling = nearest(last, siblings)
    return siblings[sibling] if sibling else nearest(key, same_name or keys)


def did_you_mean(name: str | None) -> str:
    """Return `; did you mean 'name'?`, or nothing for None."""
    return f"; did you mean '{name}'?" if name else ""
