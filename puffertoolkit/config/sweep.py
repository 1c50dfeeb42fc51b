"""The jobs that a sweep will make, or enough of them to see every swept value checked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from hydra.core.override_parser.types import Override

MAX_PRODUCT = 64


def jobs(overrides: Sequence[Override]) -> list[list[str]]:
    """Return the override lines of each job.

    Every combination, as long as there are at most `MAX_PRODUCT`; beyond that each swept value once, the
    others at their first. Of an interval, which a sweeper draws from, both ends stand for the rest.
    """
    options = [_options(override) for override in overrides]
    if math.prod(len(lines) for lines in options) <= MAX_PRODUCT:
        return [list(lines) for lines in itertools.product(*options)]
    first = [lines[0] for lines in options]
    return [first] + [
        [*first[:index], line, *first[index + 1 :]]
        for index, lines in enumerate(options)
        for line in lines[1:]
    ]


def _options(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [str(override.input_line)]
    key = override.get_key_element()
    if override.is_interval_sweep():
        interval = override.value()
        return [f"{key}={end}" for end in (interval.start, interval.end)]  # type: ignore[union-attr]
    return [f"{key}={value}" for value in override.sweep_string_iterator()]
