"""Confidence intervals against the published table of Student's t, and against coverage by simulation."""

import numpy as np
import pytest

from puffertoolkit.modes.interval import mean_interval, t_quantile


@pytest.mark.parametrize(
    ("p", "degrees", "wanted"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 5, 2.571),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.975, 100, 1.984),
        (0.95, 4, 2.132),
        (0.995, 10, 3.169),
        (0.995, 60, 2.660),
    ],
)
def test_quantiles_of_the_table(p, degrees, wanted):
    assert t_quantile(p, degrees) == pytest.approx(wanted, rel=2e-3)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_covers_the_true_mean_as_often_as_it_says(confidence):
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(4000):
        mean, half = mean_interval(rng.normal(3.0, 2.0, 8), confidence)
        inside += abs(mean - 3.0) <= half
    assert inside / 4000 == pytest.approx(confidence, abs=0.015)


def test_one_value_has_a_mean_but_no_interval():
    assert mean_interval(np.array([2.5]), 0.95) == (2.5, None)
