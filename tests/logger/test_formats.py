from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffertoolkit.logger import formats

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0.00"),
        (3.14159, "3.14"),
        (-0.012345, "-0.0123"),
        (0.5, "0.500"),
        (42.25, "42.2"),
        (491.6, "492"),
        (123456.7, "123,457"),
        (0.00225, "0.00225"),
        (8.333e-5, "8.33e-05"),
        (1.5e9, "1.50e+09"),
        (182, "182"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_numbers(value, text):
    assert formats.number(value) == text


@given(finite)
def test_a_number_keeps_three_digits_and_stays_short(value):
    text = formats.number(value)
    assert len(text) <= 11
    assert float(text.replace(",", "")) == pytest.approx(value, rel=6e-3, abs=1e-30)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (999.7, "1.0k"), (21_340, "21.3k"), (212_345, "212k"), (3.4e6, "3.4M"),
     (999_999, "1.0M"), (2.5e9, "2.5G"), (7e12, "7T"), (math.nan, "-")],
)  # fmt: skip
def test_counts(value, text):
    assert formats.compact(value) == text


@given(st.floats(0, 9.9e14))
def test_a_count_has_at_most_five_characters(value):
    assert len(formats.compact(value)) <= 5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (math.inf, "-"),
        (-1, "-"),
        (9.9, "0:09"),
        (754, "12:34"),
        (3723, "1:02:03"),
        (183_840, "2d 03:04"),
    ],
)
def test_durations(seconds, text):
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (math.nan, "-"), (812.3, "812 MB"), (3500, "3.4 GB")]
)
def test_memory(value, text):
    assert formats.memory(value) == text


def test_a_hundred_percent_means_done():
    assert formats.percent(0.9999) == "99%"
    assert formats.percent(1.0) == "100%"
    assert formats.percent(0.29) == "29%"


def test_a_chart_of_one_line_follows_the_values():
    assert formats.chart([0, 1, 2, 3, 4, 5, 6, 7], 8, 1) == ["▁▂▃▄▅▆▇█"]
    assert formats.chart([7, 0], 8, 1) == ["█▁"]
    assert formats.chart([5, 5, 5], 8, 1) == ["▁▁▁"]
    assert formats.chart([], 8, 2) == ["", ""]
    assert formats.chart([1, math.nan, 2], 8, 1) == ["▁█"]


def test_a_chart_averages_what_does_not_fit():
    assert formats.columns([0, 2, 4, 6], 2) == [1, 5]


def test_a_tall_chart_is_filled_from_below():
    assert formats.chart([0, 8, 15], 3, 2) == ["  ▁█"[1:], "▁██"]


@given(st.lists(finite, max_size=50), st.integers(1, 30), st.integers(1, 6))
def test_a_chart_has_its_size_and_its_extremes(values, width, height):
    lines = formats.chart(values, width, height)
    assert len(lines) == height
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) == min(width, len(values))
    means = formats.columns(values, width)
    if means and max(means) > min(means):
        assert lines[0][means.index(max(means))] == "█"
        column = "".join(line[means.index(min(means))] for line in lines)
        assert column == " " * (height - 1) + "▁"
