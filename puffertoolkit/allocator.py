"""How the C library hands out memory: once it is the process's, it stays so."""

from __future__ import annotations

import ctypes
import platform

# Parameters of glibc's mallopt(3), and the largest threshold that it takes.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGEST_THRESHOLD = 32 * 1024 * 1024
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let freed blocks of up to 32 MB be used again rather than go back to the system; returns if it could.

    An update allocates and frees the same few tensors of some megabytes again and again. glibc gets each from
    the system anew, which clears it page by page: a tenth of the time of a training. The process keeps its
    largest size instead.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = (
        (M_MMAP_THRESHOLD, LARGEST_THRESHOLD),
        (M_TRIM_THRESHOLD, NEVER),
        (M_TOP_PAD, LARGEST_THRESHOLD),
    )
    return {int(mallopt(parameter, value)) for parameter, value in settings} == {1}
