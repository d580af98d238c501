"""How many different values there are, of any number of them, in 32 KiB.

The least of their hashes are kept: if the `_KEPT` least of 2^64 reach to h, there are about
`_KEPT` * 2^64 / h in all (Bar-Yossef et al. 2002, "Counting distinct elements in a data stream").
Neither order nor repetition of values matters. The standard error is 1.6 %.

Which hashes are kept does not depend on how often values occur, and one that is kept at the end was
so from its first occurrence on: the kept values are a random sample with exact counts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from preprocessing.rows import hashing

_KEPT = 4096


class Distinct:
    """Counts up to 4,096 different values exactly, and estimates how many more there are."""

    def __init__(self) -> None:
        self._least = np.zeros(0, np.uint64)
        self._times = np.zeros(0, np.int64)

    def see(self, values: pa.Array, times: np.ndarray | None = None) -> None:
        """Takes in values, none of them null, of a type that can be written as text. Each occurs
        once, or so many `times`."""
        if not (pa.types.is_binary(values.type) or pa.types.is_string(values.type)):
            values = values.cast(pa.string())
        self._see(hashing.hash_keys(values.cast(pa.binary()), "distinct", hashing.FOR_ORDER), times)

    def see_numbers(self, numbers: np.ndarray) -> None:
        """Takes in float32 or float64 without NaN, ten times as fast as by their text."""
        bits = (numbers + 0.0).view(f"u{numbers.itemsize}")  # 0.0 for -0.0
        self._see(_mix(bits.astype(np.uint64)))

    def _see(self, hashes: np.ndarray, times: np.ndarray | None = None) -> None:
        times = np.ones(len(hashes), np.int64) if times is None else times
        if len(self._least) == _KEPT:
            near = hashes <= self._least[-1]
            hashes, times = hashes[near], times[near]
        least, places = np.unique(np.append(self._least, hashes), return_inverse=True)
        added = np.bincount(places, np.append(self._times, times), len(least))
        self._least, self._times = least[:_KEPT], added[:_KEPT].astype(np.int64)

    @property
    def count(self) -> int:
        """How many there are, about."""
        if len(self._least) < _KEPT:
            return len(self._least)
        return round((_KEPT - 1) * 2.0**64 / float(self._least[-1]))

    def count_rows_of_rare(self, below: int) -> float:
        """How many rows have a value that occurs less than `below` times, about. No value weighs
        much in that, as the share of the most frequent would."""
        if not len(self._least):
            return 0.0
        rare = self._times[self._times < below].sum()
        return float(rare) * self.count / len(self._least)


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Returns a hash of each uint64 (Steele et al. 2014, "Fast splittable pseudorandom number
    generators": splitmix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
