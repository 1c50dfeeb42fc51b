"""Confidence intervals of a mean."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt


def mean_interval(values: npt.NDArray[np.float64], confidence: float) -> tuple[float, float | None]:
    """Mean of independent values (n,), and half the width of its Student-t confidence interval.

    The half width is None for a single value, which tells nothing about the spread.
    """
    mean = float(values.mean())
    if len(values) < 2:
        return mean, None
    standard_error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean, t_quantile(0.5 + confidence / 2, len(values) - 1) * standard_error


def t_quantile(p: float, degrees: int) -> float:
    """Quantile of Student's t distribution.

    Exact for 1 and 2 degrees of freedom; else the expansion around the normal quantile (Abramowitz and Stegun
    1964, 26.7.5), good to three digits from 3 degrees of freedom on at the usual levels.
    """
    if degrees == 1:
        return math.tan(math.pi * (p - 0.5))
    if degrees == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    z = NormalDist().inv_cdf(p)
    n = float(degrees)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / n**k for k, term in enumerate(terms))
