"""Gives columns the types that the config declares, and finds the values that do not have them.

The quick way is one Arrow cast of the whole column. Only if it fails are the culprits looked for,
among the column's different values, by halving: what Arrow cannot cast alone is bad.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from preprocessing import schema

# A reason code, and which rows it applies to.
Fault: TypeAlias = tuple[str, np.ndarray]


def convert(array: pa.Array, column: config.Column) -> tuple[pa.Array, list[Fault]]:
    """Returns `array` with the type of `schema.arrow_type`; what does not have it becomes null.

    Faults are `encoding` (text that is not UTF-8, or holds a NUL), `overflow` (a number too large)
    and `type`. Text is read as Arrow does: no spaces, digits in plain ASCII, 1e3 for floats only.
    """
    target = schema.arrow_type(column)
    if array.type == target and not pa.types.is_string(target):
        return array, []
    faults: list[Fault] = []
    if column.is_image:
        return _cast(array, target, "type", faults), faults
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = _cast(array, pa.string(), "encoding", faults)
    if array.type == pa.string() == target:
        return _without_nul(array, faults), faults
    made = _cast(array, target, "type", faults)
    if column.type == "float32" and pa.types.is_string(array.type):
        made = _without_overflow(array, made, faults)
    return made, faults


def cast(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, np.ndarray | None]:
    """Casts `array`; values for which that fails become null. Also says which, if any."""
    try:
        return array.cast(target), None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        bad = _bad_rows(array, target)
    kept = pc.if_else(pa.array(bad), pa.scalar(None, array.type), array)
    # Where no value at all can be cast, there may not even be a cast for nulls.
    nothing = kept.null_count == len(array)
    return (pa.nulls(len(array), target) if nothing else kept.cast(target)), bad


def _cast(array: pa.Array, target: pa.DataType, reason: str, faults: list[Fault]) -> pa.Array:
    """Casts `array` and notes in `faults` what that fails for."""
    made, bad = cast(array, target)
    if bad is not None:
        faults.append((reason, bad))
    return made


def _bad_rows(array: pa.Array, target: pa.DataType) -> np.ndarray:
    if pa.types.is_nested(array.type):
        return _bad_values(array, target)
    different = array.dictionary_encode()
    bad = np.append(_bad_values(different.dictionary, target), False)
    # Nulls point behind the last of the different values.
    return bad[different.indices.fill_null(len(bad) - 1).to_numpy()]


def _bad_values(array: pa.Array, target: pa.DataType) -> np.ndarray:
    try:
        array.cast(target)
        return np.zeros(len(array), bool)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(array) == 1:
            return np.ones(1, bool)
    half = len(array) // 2
    parts = (array.slice(0, half), array.slice(half))
    return np.concatenate([_bad_values(part, target) for part in parts])


def _without_nul(array: pa.Array, faults: list[Fault]) -> pa.Array:
    found = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    if found.all():
        return array
    bad = pc.match_substring(array, "\0").fill_null(False).to_numpy(zero_copy_only=False)
    if not bad.any():
        return array
    faults.append(("encoding", bad))
    return pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), array)


def _without_overflow(text: pa.Array, made: pa.Array, faults: list[Fault]) -> pa.Array:
    """Refuses digits that float32 cannot hold; text that says infinity is taken by its word."""
    endless = pc.is_inf(made).fill_null(False)
    if not pc.any(endless).as_py():
        return made
    said = pc.match_substring_regex(text, "(?i)inf").fill_null(True)
    bad = pc.and_not(endless, said).to_numpy(zero_copy_only=False)
    faults.append(("overflow", bad))
    return pc.if_else(pa.array(bad), pa.scalar(None, made.type), made)
