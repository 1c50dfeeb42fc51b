"""Which threads the kernels run on, decided in one place."""

from __future__ import annotations

import os

import numba

# OpenMP starts a parallel step in about 2 µs where Numba's own work queue takes 100. On Linux a process that
# imported Torch first shares Torch's OpenMP pool with the kernels, so that the two do not fight for the
# cores.
numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]


def available() -> int:
    """How many threads this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, int(numba.config.NUMBA_NUM_THREADS))


def use(num_threads: int) -> None:
    """Set the number of threads of the kernels called next from this thread."""
    if numba.get_num_threads() != num_threads:
        numba.set_num_threads(num_threads)
