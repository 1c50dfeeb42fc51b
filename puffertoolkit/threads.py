"""How many threads Torch and the environments' kernels use, decided once for a process."""

from __future__ import annotations

import os
import sys


def share_cores() -> None:
    """Make idle OpenMP threads give their core away soon. Call it before Torch is imported.

    GNU OpenMP lets idle threads spin, by default for milliseconds. Alone on a machine a longer spin than this
    gains some ten percent; but where another process wants the same cores, spinning threads hold up the one
    that has work: on two cores, one of them busy elsewhere, training was 1.6 to 4 times as fast with this.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def available_cpus() -> int:
    """How many CPUs this process may use, which in a container can be fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_threads(num_threads: int) -> int:
    """Give Torch `num_threads` threads (0: one per core this process may use); returns the number.

    Call it before the first environment is made: where Torch was imported first, the kernels share its pool.
    """
    import torch

    chosen = num_threads or available_cpus()
    torch.set_num_threads(chosen)
    return chosen


def settle_threads(num_threads: int) -> None:
    """Give Torch its `num_threads` once more, after Numba has started its own threads.

    Where the two share OpenMP, the start sets the number of both, and the number decides on the order of
    Torch's sums. Without this a run's numbers would depend on which of the two is first to work.
    """
    import torch

    if "numba" in sys.modules:
        sys.modules["numba"].get_num_threads()
    torch.set_num_threads(num_threads)
