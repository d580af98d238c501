"""Columns of numbers that order the rows as a label of numbers does, such as its logarithm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from pipeline import config
from preprocessing.arrow import cast
from preprocessing.schema_inference.profile import ColumnProfile
from preprocessing.sources import csv_numbers

# Fewer rows, and fewer different values, may have the same order by chance.
_LEAST_ROWS, _LEAST_DIFFERENT = 200, 20
# Of a label and of what is computed from it, one has at most so many times as many different values
# as the other: rounding makes some equal. A year and an amount that grows daily are no such pair.
_ROUNDED = 10
# Rows of the first batch that are looked at before all others: they rule out almost every column.
FIRST = 256


def find_monotone(
    batches: Iterable[pa.RecordBatch], label: str, columns: Mapping[str, ColumnProfile]
) -> list[str]:
    """Returns those of the `columns`, but for the label, that never fall, or never rise, as the
    label rises, over the rows of all `batches` in which neither is missing."""
    if not is_candidate(columns[label]):
        return []
    known = {n: _Pairs() for n, found in columns.items() if n != label and is_candidate(found)}
    for batch in batches:
        for part in (batch.slice(0, FIRST), batch.slice(FIRST)):
            labels = read_numbers(part.column(label), columns[label].csv)
            for name, pairs in list(known.items()):
                pairs.add(labels, read_numbers(part.column(name), columns[name].csv))
                if not (pairs.is_rising or pairs.is_falling):
                    del known[name]
        if not known:
            break
    return [name for name, pairs in known.items() if pairs.are_certain()]


def is_candidate(found: ColumnProfile) -> bool:
    """Tells if a column has single numbers, enough of them to show an order."""
    if found.kind not in ("int64", "float32") or found.lengths or found.listed:
        return False
    return found.values >= _LEAST_ROWS and found.count_of_different >= _LEAST_DIFFERENT


class _Pairs:
    """The labels and the values of a column in the rows read so far, and whether the values rise or
    fall with the labels within each part of these rows."""

    def __init__(self) -> None:
        self.is_rising = self.is_falling = True
        self._labels: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def add(self, labels: np.ndarray, values: np.ndarray) -> None:
        """Adds some rows; NaN is missing."""
        present = ~(np.isnan(labels) | np.isnan(values))
        self._labels.append(labels[present])
        self._values.append(values[present])
        self._compare(self._labels[-1], self._values[-1])

    def are_certain(self) -> bool:
        """Tells if the values rise or fall with the labels over all rows, and no chance does it."""
        labels, values = np.concatenate(self._labels), np.concatenate(self._values)
        counts = sorted((len(np.unique(labels)), len(np.unique(values))))
        if len(labels) < _LEAST_ROWS or counts[0] < _LEAST_DIFFERENT:
            return False
        self._compare(labels, values)
        return counts[1] <= _ROUNDED * counts[0] and (self.is_rising or self.is_falling)

    def _compare(self, labels: np.ndarray, values: np.ndarray) -> None:
        self.is_rising = self.is_rising and _rises(labels, values)
        self.is_falling = self.is_falling and _rises(labels, -values)


def _rises(labels: np.ndarray, values: np.ndarray) -> bool:
    """Tells if values never fall as labels rise; where labels are equal, values may differ."""
    ordered = values[np.lexsort((values, labels))]
    return bool((ordered[1:] >= ordered[:-1]).all())


def read_numbers(array: pa.Array, rules: config.Csv) -> np.ndarray:
    """Returns float64, NaN for what is missing or no number."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    array = cast.null_empty_texts(array, config.Column(type="float32"))
    present = array.is_valid().to_numpy(zero_copy_only=False)
    # Arrow may fail to cast a slice of texts that has nulls.
    array = array.drop_null()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = array.cast(pa.binary())
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array, _ = cast.cast(csv_numbers.normalize(array, rules), pa.string())
    made, _ = cast.cast(array, pa.float64())
    numbers = np.full(len(present), np.nan)
    numbers[present] = made.to_numpy(zero_copy_only=False)
    return numbers
