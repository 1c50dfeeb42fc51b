"""The one exception that means: the user can put this right."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in what the user asked for; the command line prints it without a traceback and exits with 2.

    The message is one paragraph: what was wrong, what was expected, the nearest right name, what to do.
    """
