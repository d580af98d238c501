"""Quantiles of any number of numbers, in little memory and as exact as that memory allows.

A histogram whose buckets are all numbers that share sign, exponent and the first bits of the
mantissa as float64: DDSketch (Masson, Rim, Lee 2019, "DDSketch: a fast and fully-mergeable quantile
sketch with relative-error guarantees") with its logarithm interpolated linearly between powers
of two. How many bits are kept follows from the numbers: as many as give no more than `MOST_BUCKETS`
buckets. So numbers that are narrow and far from zero, such as the seconds of one day, are told
apart to a few thousandths of their range. A part never keeps fewer bits than the whole does, so
merging in any order gives the same sketch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

_MANTISSA_BITS = 52
# 16 bytes each. Fewer different numbers than this are exact.
MOST_BUCKETS = 2**14


def _build_empty() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclasses.dataclass(frozen=True)
class Sketch:
    """Buckets that hold something, by ascending value, and how much each holds; `cut` is how many
    of the last bits of each number are left out."""

    buckets: np.ndarray = dataclasses.field(default_factory=_build_empty)
    counts: np.ndarray = dataclasses.field(default_factory=_build_empty)
    cut: int = 0

    @property
    def kept_bits(self) -> int:
        """The bits of the mantissa that are kept: a quantile is at most 2**-kept_bits of itself too
        near to zero, and exact with all 52."""
        return _MANTISSA_BITS - self.cut

    def subtract(self, other: Sketch) -> Sketch:
        """Returns this sketch without the numbers of `other`, which were counted in it."""
        less = Sketch(_drop_bits(other.buckets, self.cut - other.cut), -other.counts)
        buckets = np.concatenate([self.buckets, less.buckets])
        return Sketch(*_sum_equal(buckets, np.concatenate([self.counts, less.counts])), self.cut)

    def compute_percentiles(self) -> np.ndarray:
        """Returns the percentiles 0 to 100: the i-th is the smallest number that is not below at
        least i percent of all.

        It is NumPy's `inverted_cdf` but for the error. Raises `IndexError` if the sketch is empty.
        """
        ends = np.cumsum(self.counts)
        ranks = (np.arange(101) * int(ends[-1]) + 99) // 100
        return self._values[np.searchsorted(ends, ranks.clip(1))]

    def count_bins(self, edges: np.ndarray) -> np.ndarray:
        """Returns how many numbers are in each bin between `edges`; the last includes its end."""
        found, _ = np.histogram(self._values, edges, weights=self.counts)
        return found.astype(np.int64)

    @property
    def _values(self) -> np.ndarray:
        """For each bucket, its number nearest to zero."""
        return np.copysign((np.abs(self.buckets) << self.cut).view(np.float64), self.buckets)


def build(values: np.ndarray, counts: np.ndarray) -> Sketch:
    """Returns the sketch of finite `values`, each occurring `counts` times."""
    exact = values.astype(np.float64)
    # Without their signs numbers are ordered as their bits are.
    size = np.abs(exact).view(np.int64)
    return _fit(*_sum_equal(np.where(exact < 0, -size, size), counts), 0)


def merge(sketches: Sequence[Sketch]) -> Sketch:
    """Returns the sketch of all the numbers together."""
    cut = max(one.cut for one in sketches)
    parts = [_drop_bits(one.buckets, cut - one.cut) for one in sketches]
    counts = np.concatenate([one.counts for one in sketches])
    return _fit(*_sum_equal(np.concatenate(parts), counts), cut)


def _drop_bits(buckets: np.ndarray, bits: int) -> np.ndarray:
    """Drops the lowest `bits` of buckets, which rounds towards zero."""
    return np.sign(buckets) * (np.abs(buckets) >> bits) if bits else buckets


def _sum_equal(buckets: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(buckets):
        return _build_empty(), _build_empty()
    if not (buckets[1:] >= buckets[:-1]).all():
        order = np.argsort(buckets, kind="stable")
        buckets, counts = buckets[order], counts[order]
    starts = np.flatnonzero(np.append(True, buckets[1:] != buckets[:-1]))
    return buckets[starts], np.add.reduceat(counts, starts)


def _fit(buckets: np.ndarray, counts: np.ndarray, cut: int) -> Sketch:
    """Drops just enough bits to fit into `MOST_BUCKETS`; `buckets` ascend."""
    if len(buckets) <= MOST_BUCKETS:
        return Sketch(buckets, counts, cut)
    enough, too_few = _MANTISSA_BITS + 11 - cut, 0
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        number = 1 + int(np.count_nonzero(np.diff(_drop_bits(buckets, middle))))
        enough, too_few = (middle, too_few) if number <= MOST_BUCKETS else (enough, middle)
    return Sketch(*_sum_equal(_drop_bits(buckets, enough), counts), cut + enough)
