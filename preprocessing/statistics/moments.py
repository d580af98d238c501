"""Count, sum, sum of squares, least and greatest of a column, without any rounding.

Numbers are added up as whole multiples of the least positive float32, in Python's unbounded
integers, so mean and variance are those of exact arithmetic, rounded once, and partial results
may be merged in any order and grouping with the same outcome to the last bit.
"""

from __future__ import annotations

import dataclasses
import fractions

import numpy as np

# 2**-149 is the least positive float32; all others are multiples of it.
_UNIT_BITS = 149
_MANTISSA_BITS, _HALF_BITS = 23, 12


@dataclasses.dataclass(frozen=True)
class Moments:
    """Of some numbers. `total` is in units of 2**-149, `squares` in units of 2**-298."""

    count: int = 0
    total: int = 0
    squares: int = 0
    least: float | int | None = None
    greatest: float | int | None = None

    def merge(self, other: Moments) -> Moments:
        """Returns those of both sets of numbers together."""
        if not self.count or not other.count:
            return other if other.count else self
        assert None not in (self.least, self.greatest, other.least, other.greatest)
        return Moments(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            min(self.least, other.least),  # type: ignore[type-var]
            max(self.greatest, other.greatest),  # type: ignore[type-var]
        )

    def subtract(self, other: Moments) -> Moments:
        """Returns those without numbers that are among these, of each of which one stays."""
        count = self.count - other.count
        total, squares = self.total - other.total, self.squares - other.squares
        return Moments(count, total, squares, self.least, self.greatest)

    @property
    def mean(self) -> float | None:
        """The mean, `None` of nothing."""
        if not self.count:
            return None
        return _round_to_float(fractions.Fraction(self.total, self.count << _UNIT_BITS))

    @property
    def variance(self) -> float | None:
        """The mean of squared distances from the mean (NumPy's `ddof=0`), `None` of nothing."""
        if not self.count:
            return None
        above = self.squares * self.count - self.total * self.total
        return _round_to_float(fractions.Fraction(above, self.count**2 << 2 * _UNIT_BITS))


def compute(values: np.ndarray, counts: np.ndarray) -> Moments:
    """Returns the moments of finite `values`, int64 or float32, each occurring `counts` times.

    There must be fewer than 2**29 in all: the caller works in batches.
    """
    if not len(values):
        return Moments()
    number = int(counts.sum())
    assert number < 1 << 29, "sums of float64 would no longer be exact"
    total, squares = (_sum_floats if values.dtype == np.float32 else _sum_integers)(values, counts)
    return Moments(number, total, squares, values.min().item(), values.max().item())


def _sum_integers(values: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if largest**2 * int(counts.sum()) < 1 << 63:
        weighted = values * counts
        total, squares = int(weighted.sum()), int(np.dot(weighted, values))
    else:
        exact = values.astype(object)
        weighted = exact * counts.astype(object)
        total, squares = int(weighted.sum()), int(np.dot(weighted, exact))
    return total << _UNIT_BITS, squares << 2 * _UNIT_BITS


def _sum_floats(values: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
    """Adds up mantissas by exponent: 24 bits each, or two halves of 12 for the squares."""
    bits = values.view(np.uint32)
    exponents = ((bits >> _MANTISSA_BITS) & 0xFF).astype(np.int64)
    mantissas = (bits & 0x7FFFFF).astype(np.int64) | ((exponents > 0).astype(np.int64) << 23)
    # Subnormal numbers have exponent 0 but the scale of exponent 1.
    exponents = np.maximum(exponents, 1) - 1
    high, low = mantissas >> _HALF_BITS, mantissas & (1 << _HALF_BITS) - 1
    signed = np.where(bits >> 31, -mantissas, mantissas)
    sums = _sum_by_exponent(exponents, counts, signed, high * high, high * low, low * low)
    total = squares = 0
    for exponent, (linear, upper, middle, lower) in sums:
        total += linear << exponent
        squares += (upper << 24) + (middle << 13) + lower << 2 * exponent
    return total, squares


def _sum_by_exponent(
    exponents: np.ndarray, counts: np.ndarray, *parts: np.ndarray
) -> list[tuple[int, list[int]]]:
    """Sums each part, below 2**24 a value, for each exponent that occurs."""
    sums = [np.bincount(exponents, part * counts, 255) for part in parts]
    occurring = np.unique(exponents)
    return [(int(e), [int(column[e]) for column in sums]) for e in occurring]


def _round_to_float(exact: fractions.Fraction) -> float:
    return exact.numerator / exact.denominator
