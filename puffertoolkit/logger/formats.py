"""Numbers and small pictures as text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"


def number(value: float | None, digits: int = 3) -> str:
    """A number with at least `digits` significant digits in at most ten characters; `-` for None.

    Example:
        number(3.14159) == "3.14"; number(123456.7) == "123,457"; number(1.5e-6) == "1.50e-06"
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) < 1e7:
        return f"{value:,}"
    size = abs(value)
    if size != 0 and (size < 1e-4 or size >= 1e7):
        return f"{value:.{digits - 1}e}"
    exponent = math.floor(math.log10(size)) if size else 0
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def compact(value: float) -> str:
    """A count in at most five characters: 950, 21.3k, 212k, 3.4M."""
    if not math.isfinite(value):
        return "-"
    for limit, suffix in ((1e3, ""), (1e6, "k"), (1e9, "M"), (1e12, "G")):
        if value < limit * 0.9995:
            scaled = value / (limit / 1e3)
            return f"{scaled:.0f}{suffix}" if scaled >= 99.95 or not suffix else f"{scaled:.1f}{suffix}"
    return f"{value / 1e12:.0f}T"


def duration(seconds: float | None) -> str:
    """A time span: 0:09, 12:34, 1:02:03, 2d 03:04; `-` when it is not known."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "-"
    whole = int(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return f"{hours // 24}d {hours % 24:02}:{minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def memory(megabytes: float | None) -> str:
    """A size: 512 MB, 3.4 GB."""
    if megabytes is None or not math.isfinite(megabytes):
        return "-"
    return f"{megabytes / 1024:.1f} GB" if megabytes >= 1024 else f"{megabytes:.0f} MB"


def percent(share: float) -> str:
    """A share of one in whole percent, rounded down, so that 100% means done."""
    return f"{math.floor(share * 100 + 1e-9)}%"


def columns(values: Sequence[float], width: int) -> list[float]:
    """At most `width` numbers which show the course of the values, each the mean of its share of them."""
    values = [value for value in values if math.isfinite(value)]
    width = min(width, len(values))
    edges = [len(values) * i // width for i in range(width + 1)] if width > 0 else []
    return [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]


def chart(values: Sequence[float], width: int, height: int) -> list[str]:
    """A chart of the values' course in `height` lines, the top one first, each at most `width` long.

    The lowest value still shows as a thin line, the highest fills the column; a constant is a thin line.
    """
    means = columns(values, width)
    low, high = min(means, default=0.0), max(means, default=0.0)
    top = height * len(BLOCKS)
    scale = (top - 1) / (high - low) if high > low else 0.0
    levels = [1 + round((mean - low) * scale) for mean in means]
    lines = []
    for floor in range(top - len(BLOCKS), -1, -len(BLOCKS)):
        cells = [min(max(level - floor, 0), len(BLOCKS)) for level in levels]
        lines.append("".join(BLOCKS[cell - 1] if cell else " " for cell in cells))
    return lines
