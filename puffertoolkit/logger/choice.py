"""The choice between a live dashboard and plain lines."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

from puffertoolkit.errors import UserError
from puffertoolkit.logger.dashboard import Dashboard, can_draw
from puffertoolkit.logger.display import Display, Note
from puffertoolkit.logger.plain import PlainLines
from puffertoolkit.logger.progress import RunInfo


class LoggerSettings(Protocol):
    """The part of the config's `logger` that a display needs."""

    dashboard: str
    print_interval_s: float


def make_display(
    settings: LoggerSettings, info: RunInfo, stream: TextIO | None = None, note: Note | None = None
) -> Display:
    """The display that suits the terminal and the config.

    Args:
        settings: The config's `logger`: `dashboard` is `on`, `off`, or `auto` (on in a terminal that can).
        info: The run.
        stream: Where to write; standard output by default.
        note: Gives a line to show for the moment, or None, such as `Interrupt.note`; plain lines ignore it.

    Raises:
        UserError: `dashboard` is something else.
    """
    stream = sys.stdout if stream is None else stream
    choice = settings.dashboard
    # YAML reads a bare `on` or `off` as true or false, which a field of text then holds as "True", "False".
    choice = {"true": "on", "false": "off"}.get(str(choice).lower(), choice)
    if choice not in ("auto", "on", "off"):
        raise UserError(f"logger.dashboard must be auto, on or off, and it is '{choice}'.")
    if choice == "on" or (choice == "auto" and can_draw(stream)):
        return Dashboard(info, stream, note)
    return PlainLines(info, stream, settings.print_interval_s)
