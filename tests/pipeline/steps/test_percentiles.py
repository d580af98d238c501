"""What percentiles of a column tell."""

from __future__ import annotations

import pytest

from pipeline.steps import percentiles

EVEN = tuple(float(n) for n in range(101))


def test_moments_are_those_of_values_between_the_percentiles():
    mean, variance = percentiles.moments(EVEN)
    assert mean == pytest.approx(50)
    assert variance == pytest.approx(100**2 / 12), "of values that are spread evenly"


def test_values_that_differ_by_rounding_alone_have_no_variance():
    assert percentiles.moments((0.3, 0.1 + 0.2)) == (0.3, 0.0)
    assert not percentiles.are_same((0.3, 0.3001))


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.25, 2), (0.5, 3), (0.75, 6), (1, 9)])
def test_a_quantile_is_between_its_neighbours(share, value):
    assert percentiles.quantile_at((1.0, 3.0, 9.0), share) == value


def test_a_line_is_told_from_what_leaves_it():
    line = tuple(3 * x - 7 for x in EVEN)
    assert percentiles.are_on_line(EVEN, line)
    assert percentiles.leave_line(EVEN, line, 3)[0] == 0
    bent = tuple(max(x, 20) for x in EVEN)
    assert not percentiles.are_on_line(EVEN, bent)
    left, slope, rest = percentiles.leave_line(EVEN, bent, 1)
    assert (left, slope) == (20, 1)
    assert rest[0] == 20 and set(rest[20:]) == {0}
