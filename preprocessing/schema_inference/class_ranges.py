"""Columns of numbers of which each class has a range of its own, such as a score that was cut into
the classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from preprocessing.schema_inference import monotone
from preprocessing.schema_inference.profile import ColumnProfile

# The logarithm of how likely what is seen may be by chance, of a column.
UNLIKELY = math.log(1e-6)


def find(
    batches: Iterable[pa.RecordBatch], label: str, columns: Mapping[str, ColumnProfile]
) -> list[str]:
    """Returns those of the `columns`, but for the label, whose ranges by class do not meet in the
    rows of all `batches`, by more than chance."""
    known = {
        name: _Ranges()
        for name, found in columns.items()
        if name != label and monotone.is_candidate(found)
    }
    for batch in batches:
        for part in (batch.slice(0, monotone.FIRST), batch.slice(monotone.FIRST)):
            for name, ranges in list(known.items()):
                values = monotone.read_numbers(part.column(name), columns[name].csv)
                ranges.add(part.column(label), values)
                if not ranges.are_apart():
                    del known[name]
        if not known:
            break
    return [name for name, ranges in known.items() if ranges.are_certain()]


def compute_share_of_order(counts: Sequence[int]) -> float:
    """Returns the logarithm of the share that one order has of all orders of labels which occur so
    often."""
    return sum(math.lgamma(count + 1) for count in counts) - math.lgamma(sum(counts) + 1)


class _Ranges:
    """Of each class, the smallest and the largest value of a column, and how often it has one."""

    def __init__(self) -> None:
        self._of: dict[object, tuple[float, float, int]] = {}

    def add(self, labels: pa.Array, values: np.ndarray) -> None:
        """Adds some rows; a null among the labels, and NaN, are missing."""
        if pa.types.is_dictionary(labels.type):
            labels = labels.dictionary_decode()
        table = pa.table({"label": labels, "value": pa.array(values, from_pandas=True)}).drop_null()
        parts = [("value", how) for how in ("min", "max", "count")]
        for row in table.group_by("label").aggregate(parts).to_pylist():
            low, high, count = self._of.get(row["label"], (math.inf, -math.inf, 0))
            self._of[row["label"]] = (
                min(low, row["value_min"]),
                max(high, row["value_max"]),
                count + row["value_count"],
            )

    def are_apart(self) -> bool:
        """Tells if no range meets another in the rows so far."""
        ordered = sorted(self._of.values())
        return all(one[1] < other[0] for one, other in itertools.pairwise(ordered))

    def are_certain(self) -> bool:
        """Tells if that is too unlikely for chance: of all orders of the rows, few have each class
        in one piece."""
        counts = [count for _, _, count in self._of.values()]
        likely = math.lgamma(len(counts) + 1) + compute_share_of_order(counts)
        return len(counts) > 1 and likely < UNLIKELY
