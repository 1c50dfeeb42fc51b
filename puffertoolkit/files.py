"""Writing files so that a crash leaves either the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """Writes the file and waits until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Writes the file under another name in the same directory, then renames it into place."""
    temporary = path.with_name(f".{path.name}.tmp")
    write_synced(temporary, data)
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Waits until the directory's entries (names made, renamed, deleted) are on the disk."""
    # Some network file systems cannot open or sync a directory; there the rename is all one can do.
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
