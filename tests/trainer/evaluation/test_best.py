"""What wins."""

from __future__ import annotations

import math

import pytest

from trainer.evaluation.best import is_better

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("value", "best", "higher", "lower"),
    [
        (0.5, None, True, True),
        (0.6, 0.5, True, False),
        (0.4, 0.5, False, True),
        (0.5, 0.5, False, False),  # of two equals the older stays
        (NAN, None, False, False),  # NaN never wins
        (NAN, 0.5, False, False),
        (0.1, NAN, True, True),  # and never blocks
        (NAN, NAN, False, False),
        (INF, 0.5, False, False),  # nor does what is not finite
        (-INF, 0.5, False, False),
        (-INF, None, False, False),
        (0.1, INF, True, True),
        (0.1, -INF, True, True),
    ],
)
def test_table(value, best, higher, lower):
    assert is_better(value, best, higher_is_better=True) is higher
    assert is_better(value, best, higher_is_better=False) is lower


@pytest.mark.parametrize(
    ("value", "wins"), [(0.55, False), (0.625, False), (0.63, True), (0.4, False)]
)
def test_by_a_margin(value, wins):
    assert is_better(value, 0.5, higher_is_better=True, by=0.125) is wins
    assert is_better(1 - value, 0.5, higher_is_better=False, by=0.125) is wins
