"""The one decorator an environment's author needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a scalar function over one environment with Numba.

    Under ``NUMBA_DISABLE_JIT=1`` the function stays plain Python and gives the same results. Write it so that
    Python's and Numba's arithmetic agree: keep physics in float64 (state fields ``f8``), and put float32 only
    where a value leaves the environment, in the observation.

    A kernel allocates nothing: no ``np.zeros``, no ``array[:] = array``; put scratch arrays into the state
    and loop over elements. Numba then need not count references to arrays (``_nrt=False``), which, with
    everything inlined, halves the time of a step.
    """
    # Division by zero gives inf or nan as in NumPy; the checks of Python's model would cost every division.
    decorate = numba.njit(nogil=True, error_model="numpy", _nrt=False, forceinline=True)
    compiled: Callable[..., Any] = decorate(function)
    return compiled
