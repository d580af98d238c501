"""Measured numbers as text."""

from __future__ import annotations

import math

import pytest

from pipeline.console import figures


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (635_000_000, "635.0 MB"),
        (12_345_600_000, "12,345.6 MB"),
    ],
)
def test_sizes_of_small_files_are_not_zero(count, text):
    assert figures.size(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (0.0, "0.0000"),
        (-0.0, "0.0000"),
        (-1.25, "-1.2500"),
        (0.0012, "0.0012"),
        (0.00002436, "2.436e-05"),
        (-3e-9, "-3e-09"),
        (123_456.789, "123456.7890"),
        (2.4491e11, "2.449e+11"),
        (math.nan, "undefined"),
        (math.inf, "inf"),
    ],
)
def test_numbers_of_any_size(value, text):
    assert figures.figure(value) == text


def test_more_decimals_and_intervals():
    assert figures.figure(0.5, 5) == "0.50000" and figures.figure(1.23456789e-7, 5) == "1.2346e-07"
    assert figures.interval(2e-7, 0.5) == "[2e-07, 0.5000]"
    assert figures.interval(0.2, 1.0, few=True) == "too few records"
    assert figures.interval(1.0, 1.0, few=True, alike=True) == "unknown: all alike"
