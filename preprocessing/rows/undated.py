"""Values that the step `date` cannot read, of which it makes -1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from pipeline.config.date_rules import Unruled
from preprocessing.arrow import date_texts
from preprocessing.rows.validate import REDACTED

# By column: how many values, and the least of them as text.
Counts: TypeAlias = Mapping[str, tuple[int, str]]


def count(batch: pa.RecordBatch, forms: Unruled, columns: Mapping[str, config.Column]) -> Counts:
    """Counts the values that no form of their column can read. Missing values, and what stands for
    them, are not counted."""
    found = {}
    for name in forms.keys() & set(batch.schema.names):
        array = batch.column(name)
        if columns[name].list or columns[name].shape:
            array = array.flatten()
        stand_in = pa.scalar(columns[name].stands_for_missing).cast(array.type)
        values = array.filter(pc.not_equal(array, stand_in))  # drops nulls, too
        bad = np.all([date_texts.find_unreadable(form, values) for form in forms[name]], axis=0)
        if bad.any():
            least = pc.min(values.filter(pa.array(bad)).cast(pa.string())).as_py()
            shown = REDACTED if columns[name].sensitive else repr(least)
            found[name] = (int(bad.sum()), shown)
    return found


def merge(one: Counts, other: Counts) -> Counts:
    """Returns the counts of both."""
    total = dict(one)
    for name, (number, least) in other.items():
        before, known = total.get(name, (0, least))
        total[name] = (before + number, min(known, least))
    return total


def format_warnings(counts: Counts, forms: Unruled) -> Iterator[str]:
    """Yields a warning for each column."""
    for name, (number, least) in sorted(counts.items()):
        form = " or ".join(forms[name])
        are = "value is no date" if number == 1 else "values are no dates"
        yield (
            f"column {name!r}: {number:,} {are} in the form {form}, such as {least}. The step "
            f"date makes -1 of that: correct it, or write data.columns.{name}.dates to refuse "
            "such rows"
        )
