"""The number of different values, judged by the number there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.statistics.distinct import Distinct


@pytest.mark.parametrize("count", [1, 4095, 50_000, 400_000])
def test_counts(count):
    found = Distinct()
    values = pa.array(range(7, 7 + count))
    found.see(values)
    found.see(values.slice(0, count // 2))  # repetition changes nothing
    assert found.count == pytest.approx(count, rel=0.0 if count < 4096 else 0.08)


def test_order_does_not_matter():
    parts = [pa.array([f"v{i}" for i in range(n, 30_000, 3)]) for n in range(3)]
    ways = []
    for order in (parts, parts[::-1]):
        found = Distinct()
        for part in order:
            found.see(part)
        ways.append(found.count)
    assert ways[0] == ways[1]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("different", [3, 4000, 200_000])
def test_numbers_are_counted_by_their_bits(kind, different):
    numbers = np.random.default_rng(different).normal(size=different).astype(kind)
    truth = len(np.unique(numbers)) + 1
    counted = Distinct()
    for part in (numbers, np.array([0.0, -0.0], kind), numbers[::-1].copy()):
        counted.see_numbers(part)
    assert counted.count == truth if truth < 4096 else abs(counted.count / truth - 1) < 0.05


def test_rows_of_rare_values():
    """However much the frequent ones weigh, in any number of parts."""
    values = np.concatenate([np.repeat(np.arange(3), 50_000), np.arange(10, 60_010)])
    values = np.concatenate([values, np.arange(100, 20_100)])  # which then occur twice
    np.random.default_rng(3).shuffle(values)
    found = Distinct()
    for part in np.array_split(values, 7):
        unique, times = np.unique(part, return_counts=True)
        found.see(pa.array(unique), times)
    assert found.count_rows_of_rare(2) == pytest.approx(40_000, rel=0.08)
    assert found.count_rows_of_rare(3) == pytest.approx(80_000, rel=0.08)
    few = Distinct()
    few.see(pa.array([1, 2, 3, 3]))
    assert (
        few.count_rows_of_rare(2),
        few.count_rows_of_rare(3),
        Distinct().count_rows_of_rare(2),
    ) == (2, 4, 0)
