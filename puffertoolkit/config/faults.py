"""What is wrong with a configuration, in words for the person who wrote it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

WIDTH = 100


@dataclass(frozen=True)
class Fault:
    """One mistake.

    Attributes:
        text: What is wrong, what would be right, what to do; without a full stop at the end.
        key: The dotted key whose value is at fault; the file that set it is then named in the report.
        place: The file and line at fault, where known.
    """

    text: str
    key: str | None = None
    place: str | None = None

    def at(self, place: str | None) -> Fault:
        """Return this fault with its place, unless it has one."""
        return replace(self, place=self.place or place)

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


def unique(faults: Iterable[Fault]) -> list[Fault]:
    """Drop repetitions, and keep the order."""
    return list({str(fault): fault for fault in faults}.values())


def report(faults: Iterable[Fault]) -> str:
    """Return the text that the user reads: one bullet per fault."""
    lines = [str(fault) for fault in faults]
    count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
    bullets = [
        textwrap.fill(line, WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)
        for line in lines
    ]
    return "\n".join(
        [
            f"{count} in the configuration; nothing was started:",
            *bullets,
            "All groups, keys and their meaning: python -m puffertoolkit --help",
        ]
    )
