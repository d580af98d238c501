"""Quantiles of any number of numbers, in little memory and within a stated error.

A histogram whose buckets are all numbers that share sign, exponent and the first bits of the
mantissa as float64: DDSketch (Masson, Rim, Lee 2019, "DDSketch: a fast and fully-mergeable quantile
sketch with relative-error guarantees") with its logarithm interpolated linearly between powers
of two. Counts only add up, so merging in any order gives the same sketch.
"""

from __future__ import annotations

import dataclasses

import numpy as np

_MANTISSA_BITS = 52
_KEPT_BITS = 10
_SHIFT = _MANTISSA_BITS - _KEPT_BITS
# A quantile is at most this share of itself too near to zero. Numbers of up to 11 binary digits,
# such as the integers to 2048, are exact.
RELATIVE_ERROR = 2.0**-_KEPT_BITS


def _nothing() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclasses.dataclass(frozen=True)
class Sketch:
    """Buckets that hold something, by ascending value, and how much each holds."""

    buckets: np.ndarray = dataclasses.field(default_factory=_nothing)
    counts: np.ndarray = dataclasses.field(default_factory=_nothing)

    def merged(self, other: Sketch) -> Sketch:
        """Returns that of both sets of numbers together."""
        return _summed(
            np.concatenate([self.buckets, other.buckets]),
            np.concatenate([self.counts, other.counts]),
        )

    def percentiles(self) -> np.ndarray:
        """Returns 101 numbers: the i-th is the least that at least i percent are not above.

        It is NumPy's `inverted_cdf` but for the error. Raises `IndexError` of nothing.
        """
        ends = np.cumsum(self.counts)
        ranks = (np.arange(101) * int(ends[-1]) + 99) // 100
        return _edges(self.buckets)[np.searchsorted(ends, ranks.clip(1))]


def of(values: np.ndarray, counts: np.ndarray) -> Sketch:
    """Returns the sketch of finite `values`, each occurring `counts` times."""
    exact = values.astype(np.float64)
    # Cutting bits off goes towards zero; without their signs numbers are ordered as their bits are.
    size = np.abs(exact).view(np.int64) >> _SHIFT
    return _summed(np.where(exact < 0, -size, size), counts)


def _summed(buckets: np.ndarray, counts: np.ndarray) -> Sketch:
    if len(buckets) == 0:
        return Sketch()
    order = np.argsort(buckets, kind="stable")
    sorted_, counts = buckets[order], counts[order]
    starts = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1]))
    return Sketch(sorted_[starts], np.add.reduceat(counts, starts))


def _edges(buckets: np.ndarray) -> np.ndarray:
    """Returns the number of each bucket that is nearest to zero."""
    return np.copysign((np.abs(buckets) << _SHIFT).view(np.float64), buckets)
