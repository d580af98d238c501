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
from pipeline.config.column_config import JSON
from preprocessing.arrow import arrow_types, lists, nulls, number_texts

# Whole numbers as they are written where a column has gaps: 16777217.0; and with a sign: +5
_POINT = r"^([+-]?\d+)\.0*$"
_PLUS = r"^\+(\d+)$"
# How booleans are written.
_BOOLEANS = (("False", "True"), ("FALSE", "TRUE"), ("false", "true"))
# A reason code, and which rows it applies to.
Fault: TypeAlias = tuple[str, np.ndarray]
# What Arrow reads as a number has digits, signs, a point, hexadecimal digits, x, inf or nan.
_NO_NUMBER = r"[^0-9+.a-fxintyA-FXINTY-]"


def convert(array: pa.Array, column: config.Column) -> tuple[pa.Array, list[Fault]]:
    """Returns `array` with the type of `arrow_types.arrow_type`; values of another become null.

    Faults are `encoding` (text that is not UTF-8, or holds a NUL), `overflow` (a number too large),
    `finite` (NaN or an infinite number, of which no text is made) and `type`, also of lists in
    which a value is missing. Text is read as Arrow does: no plain
    spaces, digits in ASCII, 1e3 for floats only, but 5.0 and +5 are whole numbers, and spaces that
    do not break are no part of a number; to floats, whole numbers are rounded like text. Booleans
    become the texts that are allowed, or true and false. A list is
    null if one of its items is at fault; its faults may also be `quotes` (a separator is inside
    quotes), `json` (a text is no array of single values) and `item` (one that is equal to what
    stands for none). An item that `on_longer` will cut off is not at fault, and may be null here.
    """
    target = arrow_types.arrow_type(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    array = _drop_views(array)
    if column.list:
        return _convert_lists(array, column)
    if array.type == target and not (pa.types.is_string(target) or pa.types.is_nested(target)):
        return array, []
    faults: list[Fault] = []
    if pa.types.is_boolean(array.type) and target == pa.string():
        array = _write_booleans(array, column)
    if column.is_image:
        return _cast_and_note(array, target, "type", faults=faults), faults
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = _cast_and_note(array, pa.string(), "encoding", faults=faults)
    array = _normalize_numbers(array, target)
    made = _cast_and_note(array, target, "type", faults=faults)
    if column.type == "string":
        made = _refuse_texts_of_nan(array, made, faults)
    if column.shape:
        return _refuse_holes(made, column, faults), faults
    if target == pa.string():
        return _refuse_nul(made, faults), faults
    if column.type == "float32":
        made = _refuse_overflow(array, made, faults)
    return made, faults


def null_empty_texts(array: pa.Array, column: config.Column) -> pa.Array:
    """Returns what is to be one number or date each, of texts with nulls for empty ones: many
    programs write "" where there is no value."""
    taken = column.type in ("int64", "float32") or column.dates is not None
    if column.list or column.shape or not taken:
        return array
    empty = find_empty_texts(array)
    return array if empty is None else nulls.put_null(array, empty)


def find_empty_texts(array: pa.Array) -> pa.Array | None:
    """Tells of each text if it is empty; of others, and if none is, returns `None`."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if not (_is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return None
    if kind != array.type:
        array = array.dictionary_decode()
    found = pc.equal(pc.binary_length(array), 0)
    return found if pc.any(found).as_py() else None


def _write_booleans(array: pa.Array, column: config.Column) -> pa.Array:
    written = next(
        (words for words in _BOOLEANS if set(words) & set(column.allowed)), _BOOLEANS[-1]
    )
    return pc.if_else(array, written[1], written[0])


def _convert_lists(array: pa.Array, column: config.Column) -> tuple[pa.Array, list[Fault]]:
    target, faults = arrow_types.arrow_type(column), list[Fault]()
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = _cast_and_note(array, pa.string(), "encoding", faults=faults)
    if _is_text(array.type) and column.separator == JSON:
        array, no_array = lists.parse_json(array, nan=column.type != "string")
        faults.append(("json", no_array))
    elif _is_text(array.type):
        array, quoted = lists.split_texts(array, column.separator)
        faults.append(("quotes", quoted))
    elif not _is_list(array.type):
        wrong = lists.is_there(array)
        return pa.nulls(len(array), target), [("type", wrong)] if wrong.any() else []
    sizes, there, raw = lists.count_items(array), lists.is_there(array), array.flatten()
    items, found = convert(raw, column.item)
    found.append(("type", ~lists.is_there(raw)))
    if column.type == "float32":
        found.append(("finite", _find_not_finite(items)))
    found.append(("item", _find_stand_ins(items, column)))
    if column.on_longer != "reject" and sizes.max(initial=0) > (column.max_items or 0):
        last = column.on_longer == "keep_last"
        kept = lists.find_kept(sizes, column.max_items or 0, last=last)
        found = [(reason, bad & kept) for reason, bad in found]
    faults += [(reason, lists.find_rows_with(bad, sizes)) for reason, bad in found]
    faults = [(reason, bad) for reason, bad in faults if bad.any()]
    for _, bad in faults:
        there = there & ~bad
    items = items.filter(pa.array(np.repeat(there, sizes)))
    return lists.build(items, np.where(there, sizes, 0), there), faults


def _drop_views(array: pa.Array) -> pa.Array:
    """Returns texts, bytes and lists as arrays for which Arrow can compute everything."""
    known, kind = pa.types, array.type
    if known.is_list_view(kind) or known.is_large_list_view(kind):
        return array.cast(pa.large_list(kind.value_type))
    if known.is_string_view(kind):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if known.is_binary_view(kind) else array


def _is_list(kind: pa.DataType) -> bool:
    known = pa.types
    return known.is_list(kind) or known.is_large_list(kind) or known.is_fixed_size_list(kind)


def _find_stand_ins(items: pa.Array, column: config.Column) -> np.ndarray:
    """Tells of each item if it is what stands for none."""
    # NaN, which is equal to nothing, is not finite either.
    return _to_flags(pc.equal(items, pa.scalar(column.stands_for_missing).cast(items.type)))


def _find_not_finite(numbers: pa.Array) -> np.ndarray:
    return _to_flags(pc.invert(pc.is_finite(numbers)))


def _to_flags(found: pa.Array) -> np.ndarray:
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def fits(array: pa.Array, column: config.Column) -> bool:
    """Tells if all values have the type of a plain column; does not look for those without."""
    try:
        if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
            array = cast_all(array, pa.string())
        target = arrow_types.arrow_type(column)
        cast_all(_normalize_numbers(array, target), target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _normalize_numbers(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns texts that are to be numbers as Arrow reads them."""
    if not _is_text(array.type) or not (
        pa.types.is_integer(target) or pa.types.is_floating(target)
    ):
        return array
    array = number_texts.normalize(array)
    return _normalize_whole_numbers(array) if target == pa.int64() else array


def _normalize_whole_numbers(texts: pa.Array) -> pa.Array:
    """Returns whole numbers as Arrow reads them; float32 takes all of these as they are."""
    # Looking for a character is many times as quick as replacing by a pattern.
    for mark, pattern in ((".", _POINT), ("+", _PLUS)):
        if pc.any(pc.match_substring(texts, mark)).as_py():
            texts = pc.replace_substring_regex(texts, pattern, r"\1")
    return texts


def cast(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, np.ndarray | None]:
    """Casts `array`; values for which that fails become null. Also says which, if any."""
    try:
        return cast_all(array, target), None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        bad = _find_bad_rows(array, target)
    # Where no value at all can be cast, there may not even be a cast for nulls.
    nothing = not (lists.is_there(array) & ~bad).any()
    made = pa.nulls(len(array), target) if nothing else cast_all(nulls.put_null(array, bad), target)
    return made, bad


def cast_all(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Casts all values or none. Whole numbers of more digits than a float has are no reason."""
    nested = pa.types.is_nested(target)
    element = target.value_type if nested else target
    given = array.type.value_type if _is_list(array.type) else array.type
    if pa.types.is_decimal(given) and pa.types.is_floating(element):
        # Arrow computes float32 of decimals in float32, which rounds more than once.
        wide = pa.list_(pa.float64(), target.list_size) if nested else pa.float64()
        array = array.cast(wide, safe=False)
    return array.cast(target, safe=not pa.types.is_floating(element))


def _cast_and_note(
    array: pa.Array, target: pa.DataType, reason: str, *, faults: list[Fault]
) -> pa.Array:
    """Casts `array` and notes in `faults` what that fails for."""
    made, bad = cast(array, target)
    if bad is not None:
        faults.append((reason, bad))
    return made


def _find_bad_rows(array: pa.Array, target: pa.DataType) -> np.ndarray:
    there = lists.is_there(array)
    try:
        cast_all(array.slice(0, 0), target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # whatever the values are
        return there
    if pa.types.is_nested(array.type) or pa.types.is_float16(array.type):
        return _find_bad_values(array, target) & there
    different = array.dictionary_encode()
    text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    number = pa.types.is_integer(target) or pa.types.is_floating(target)
    look = _find_bad_texts if text and number else _find_bad_values
    bad = np.append(look(different.dictionary, target), False)
    # Nulls point behind the last of the different values.
    return bad[different.indices.fill_null(len(bad) - 1).to_numpy()]


def _find_bad_texts(array: pa.Array, target: pa.DataType) -> np.ndarray:
    """As `_find_bad_values`, of texts: those with characters that no number has, at once."""
    strange = pc.match_substring_regex(array, _NO_NUMBER).to_numpy(zero_copy_only=False)
    bad = strange.copy()
    bad[~strange] = _find_bad_values(array.filter(pa.array(~strange)), target)
    return bad


def _find_bad_values(array: pa.Array, target: pa.DataType) -> np.ndarray:
    try:
        cast_all(array, target)
        return np.zeros(len(array), bool)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(array) < 2:
            return np.ones(len(array), bool)
    half = len(array) // 2
    parts = (array.slice(0, half), array.slice(half))
    return np.concatenate([_find_bad_values(part, target) for part in parts])


def _refuse_nul(array: pa.Array, faults: list[Fault]) -> pa.Array:
    found = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    if found.all():
        return array
    bad = pc.match_substring(array, "\0").fill_null(False).to_numpy(zero_copy_only=False)
    if not bad.any():
        return array
    faults.append(("encoding", bad))
    return nulls.put_null(array, bad)


def _refuse_overflow(raw: pa.Array, made: pa.Array, faults: list[Fault]) -> pa.Array:
    """Refuses numbers that float32 cannot hold; what says infinity is taken by its word."""
    endless = pc.is_inf(made).fill_null(False)
    if not pc.any(endless).as_py():
        return made
    if pa.types.is_floating(raw.type):
        said = pc.is_inf(raw)
    else:
        said = pc.match_substring_regex(raw.cast(pa.string()), "(?i)inf")
    bad = pc.and_not(endless, said.fill_null(True)).to_numpy(zero_copy_only=False)
    faults.append(("overflow", bad))
    return nulls.put_null(made, bad)


def _refuse_texts_of_nan(raw: pa.Array, made: pa.Array, faults: list[Fault]) -> pa.Array:
    """Refuses texts, and lists of these, that were `raw` numbers, if one of these is NaN or
    infinite: it would be a text like others."""
    numbers = raw.flatten() if _is_list(raw.type) else raw
    if not pa.types.is_floating(numbers.type):
        return made
    bad = _find_not_finite(numbers)
    if _is_list(raw.type):
        bad = lists.find_rows_with(bad, lists.count_items(raw))
    if not bad.any():
        return made
    faults.append(("finite", bad))
    return nulls.put_null(made, bad)


def _refuse_holes(array: pa.Array, column: config.Column, faults: list[Fault]) -> pa.Array:
    """Refuses lists in which a value is missing."""
    values = array.flatten()
    if not values.null_count:
        return array
    bad = array.is_valid().to_numpy(zero_copy_only=False)
    there = values.is_valid().to_numpy(zero_copy_only=False)
    bad[bad] = ~there.reshape(-1, column.size).all(axis=1)
    faults.append(("type", bad))
    return nulls.put_null(array, bad)
