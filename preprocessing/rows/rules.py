"""What values of the right type must be like: present, in range, of a length, one of a list."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from pipeline.console.figures import bound
from pipeline.steps import date_forms
from preprocessing.arrow import arrow_types, date_texts, image_values, lists, nulls
from preprocessing.arrow.cast import Fault

# How many allowed values an error lists.
_LISTED = 8


def find_broken(array: pa.Array, column: config.Column) -> list[Fault]:
    """Returns the reasons `range`, `length`, `image`, `allowed` and `date`, and their rows, if any.

    `array` has the type of `arrow_types.arrow_type`. Rows without a value break none of these
    rules. A list also breaks `items` if it is too long, and the others if one of its items does.
    """
    if column.list:
        sizes = lists.count_items(array)
        of_items = find_broken(array.flatten(), column.item)
        found = [(reason, lists.find_rows_with(bad, sizes)) for reason, bad in of_items]
        longer = sizes > (column.max_items or 0)
        return [("items", longer), *found] if longer.any() else found
    found = []
    if column.min is not None or column.max is not None:
        found.append(("range", _find_out_of_range(array, column)))
    if column.min_length or column.max_length:
        found.append(("length", _find_bad_lengths(array, column)))
    if column.type == "image":
        found.append(("image", image_values.find_undecodable(array)))
    if column.allowed:
        found.append(("allowed", _find_not_allowed(array, column)))
    if column.dates is not None:
        bad = pa.array(date_texts.find_unreadable(column.dates, _flatten(array, column)))
        found.append(("date", _reduce_to_rows(bad, array, column)))
    return [(reason, rows) for reason, rows in found if rows.any()]


def null_nan(array: pa.Array, column: config.Column) -> tuple[pa.Array, np.ndarray]:
    """Returns single numbers with nulls for NaN, which means a missing value in every source, and
    `[rows]` bool, where NaN was. Other columns stay as they are."""
    if column.type != "float32" or column.list or column.shape:
        return array, np.zeros(len(array), bool)
    found = pc.is_nan(array).fill_null(False)
    rows = found.to_numpy(zero_copy_only=False)
    return nulls.put_null(array, found) if rows.any() else array, rows


def find_not_finite(array: pa.Array, column: config.Column, *, label: bool) -> list[Fault]:
    """Returns the reason `finite` and its rows, if any.

    Infinite numbers stay where a limit of the column is infinite, too, but no label can be learned
    that is. NaN stays in arrays whose missing values are NaN to the trainer.
    """
    if column.type != "float32" or column.list:
        return []
    there = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = arrow_types.extract_numbers(array.drop_null() if array.null_count else array, column)
    good = np.isfinite(numbers)
    if good.all():
        return []
    for limit in () if label else (column.min, column.max):
        if limit is not None and math.isinf(limit):
            good |= numbers == limit
    stand_in = column.stands_for_missing
    if column.missing == "allow" and stand_in != stand_in:
        good |= np.isnan(numbers)
    bad = np.zeros(len(array), bool)
    bad[there] = ~good.all(axis=1)
    return [("finite", bad)] if bad.any() else []


def describe_problem(
    reason: str, value: object, column: config.Column, *, label: bool = False
) -> str:
    """Says what is wrong with a value of a column, to stand behind its name; of a `label`, too."""
    if reason == "missing":
        return f"is {value!r}, which means a missing value" if value else "has no value"
    if reason == "range":
        return f"is {value}, {_describe_range(column)}"
    if reason == "length":
        return f"is {value!r}, {_describe_length(column)}"
    if reason == "allowed":
        more = ", ..." if len(column.allowed) > _LISTED else ""
        shown = f"the boolean {value}" if isinstance(value, bool) else repr(value)
        return f"is {shown}, not one of {', '.join(map(str, column.allowed[:_LISTED]))}{more}"
    if reason == "date":
        form = column.dates or "iso"
        such = date_forms.EXAMPLES[form]
        return f"is {value!r}, no day of the calendar in the form {form}, such as {such}"
    if reason == "encoding":
        return f"is {value!r}, not UTF-8 text without NUL"
    if reason == "image":
        return f"is {value}, no PNG or JPEG that can be decoded"
    if reason == "finite":
        if column.list or column.shape:
            return f"is {value!r}, not a finite number, which each item of a list must be"
        if column.type == "string":
            return (
                f"is {value!r}, not a finite number, of which no text is made; correct it or leave "
                "it empty"
            )
        if label:
            allow = "the label must be one: correct it, or leave it empty and set missing: drop"
            return f"is {value!r}, not a finite number; {allow}"
        allow = "infinite values of a feature are allowed by min: -.inf and max: .inf"
        return f"is {value!r}, not a finite number; {allow}"
    if reason == "time":
        such = "2013-12-01 or 2013-12-01T06:00:00Z"
        return f"is {value!r}, no time such as {such}; set the column's dates for another form"
    if reason == "split":
        return f"is {value!r}, which data.split.values gives no split"
    if reason == "items":
        return f"is {value!r}, allowed are {column.max_items} items; see max_items and on_longer"
    if reason == "lengths":
        return f"is {value!r}, and needs one item for each of {column.same_length_as!r}"
    if reason == "item":
        stand_in = column.stands_for_missing
        instead = "if it is an item, give the column another default"
        return f"is {value!r}, with an item {stand_in!r}, which stands for none; {instead}"
    if reason == "quotes":
        opens = "with an item that opens a quote and does not close it"
        return f"is {value!r}, {opens}: quotes keep no {column.separator!r} together; see separator"
    if reason == "json":
        return f"is {value!r}, no JSON array of single values, such as [1, 2]"
    kind = f"{column.type} of {list(column.shape)}" if column.shape else column.type
    kind = f"a list of {column.type}" if column.list else kind
    return f"is {value!r}, {'too large for' if reason == 'overflow' else 'not'} {kind}"


def _find_out_of_range(array: pa.Array, column: config.Column) -> np.ndarray:
    missing = array.null_count
    present = ~array.is_null().to_numpy(zero_copy_only=False) if missing else slice(None)
    numbers = arrow_types.extract_numbers(array.drop_null() if missing else array, column)
    good = np.ones(numbers.shape, bool)
    # Written so that a NaN, for which every comparison is false, is outside.
    low, high = column.min, column.max
    if np.issubdtype(numbers.dtype, np.integer):
        # As integers: between two floats about 2^60 are hundreds of them.
        low, high = _round_limit(low, math.ceil), _round_limit(high, math.floor)
    if low is not None:
        good &= numbers >= low
    if high is not None:
        good &= numbers <= high
    bad = np.zeros(len(array), bool)
    bad[present] = ~good.all(axis=1)
    return bad


def _round_limit(limit: float | None, towards: Callable[[float], int]) -> float | None:
    return limit if limit is None or not math.isfinite(limit) else towards(limit)


def _find_bad_lengths(array: pa.Array, column: config.Column) -> np.ndarray:
    lengths = pc.utf8_length(_flatten(array, column))
    bad = pc.less(lengths, column.min_length)
    if column.max_length is not None:
        bad = pc.or_(bad, pc.greater(lengths, column.max_length))
    return _reduce_to_rows(bad, array, column)


def _find_not_allowed(array: pa.Array, column: config.Column) -> np.ndarray:
    flat = _flatten(array, column)
    listed = pc.is_in(flat, pa.array(column.allowed).cast(flat.type), skip_nulls=False)
    return _reduce_to_rows(pc.and_(pc.invert(listed), flat.is_valid()), array, column)


def _flatten(array: pa.Array, column: config.Column) -> pa.Array:
    """Returns all values; of a list that is missing, too, as many as others have."""
    if not column.shape:
        return array
    start = array.offset * column.size
    return array.values.slice(start, len(array) * column.size)


def _reduce_to_rows(bad: pa.Array, array: pa.Array, column: config.Column) -> np.ndarray:
    flat = bad.fill_null(False).to_numpy(zero_copy_only=False)
    found = flat.reshape(len(array), column.size).any(axis=1)
    return found & array.is_valid().to_numpy(zero_copy_only=False) if column.shape else found


def _describe_range(column: config.Column) -> str:
    low, high = (None if limit is None else bound(limit) for limit in (column.min, column.max))
    if high is None:
        return f"allowed is {low} or more"
    return f"allowed is {high} or less" if low is None else f"allowed is {low} to {high}"


def _describe_length(column: config.Column) -> str:
    if column.max_length is None:
        return f"allowed are {column.min_length} characters or more"
    return f"allowed are {column.min_length} to {column.max_length} characters"
