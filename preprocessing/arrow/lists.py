"""Lists of any length as Arrow arrays: how long each is, and which rows hold an item."""

from __future__ import annotations

import ast
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_QUOTE = '"'
# Leaves numbers as they are written: a column says what they become.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
# A list as Python prints it, and so pandas in a cell: quotes are single ones. Of its items only
# texts are evaluated, with the escapes that Python prints; numbers are written as in JSON.
_SPACE = " \t\r\n"
_ESCAPE = r"\\(?:[\\'\"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_PRINTED_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_PRINTED_ITEM = re.compile(
    rf"""[{_SPACE}]*('(?:[^'\\\x00-\x1f]|{_ESCAPE})*'|"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"|"""
    rf"{_PRINTED_NUMBER}|None|True|False)[{_SPACE}]*(,|$)"
)


def count_items(array: pa.Array) -> np.ndarray:
    """Returns the number of items of each row as int64 `[rows]`, 0 where there is no list."""
    found = pc.list_value_length(array).fill_null(0)
    return found.to_numpy(zero_copy_only=False).astype(np.int64)


def build(items: pa.Array, sizes: np.ndarray, there: np.ndarray) -> pa.ListArray:
    """Returns lists of `sizes` `[rows]` items each, one after the other; null where none is
    `there` `[rows]`."""
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    mask = None if there.all() else pa.array(~there)
    return pa.ListArray.from_arrays(pa.array(ends), items, mask=mask)


def is_there(array: pa.Array) -> np.ndarray:
    """Returns `[rows]` bool, where a value is."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def find_rows_with(items: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns `[rows]` bool, which rows hold one of the chosen `items` `[items]` bool."""
    found = np.zeros(len(sizes), bool)
    found[np.repeat(np.arange(len(sizes)), sizes)[items]] = True
    return found


def sum_items(sizes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the sums `[rows]` of `sizes` `[items]` over the `counts` `[rows]` items of each."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    last = np.cumsum(counts)
    return ends[last] - ends[last - counts]


def parse_json(texts: pa.Array, *, nan: bool = True) -> tuple[pa.ListArray, np.ndarray]:
    """Returns the items of arrays of JSON as texts, numbers as they are written, none of an empty
    text and a null of the text `null`; and `[rows]` bool, which texts are no array of single
    values. Lists as Python prints them are taken, too: `['a', 'b']`. NaN and infinite numbers are
    values if `nan`: of a column of text they are none. Items are bytes if one has half of a
    surrogate pair, which is no text: it is encoded so that no cast to text takes it."""
    written = [None if is_null(text) else text for text in texts.to_pylist()]
    decoder = _DECODER if nan else _STRICT_DECODER
    found = [None if text is None else _parse_items(text, decoder) for text in written]
    bad = [text is not None and items is None for text, items in zip(written, found, strict=True)]
    return _build_texts(found), np.array(bad, bool)


def _build_texts(found: list[list[str | None] | None]) -> pa.ListArray:
    """Returns lists of texts; of bytes if an item has half of a surrogate pair."""
    try:
        return pa.array(found, pa.list_(pa.string()))
    except UnicodeEncodeError:
        rows = [None if items is None else [*map(_encode, items)] for items in found]
        return pa.array(rows, pa.list_(pa.binary()))


def _encode(item: str | None) -> bytes | None:
    return None if item is None else item.encode(errors="surrogatepass")


def is_null(text: str | None) -> bool:
    """Tells if a text is the null of JSON, as programs write a list that is missing."""
    return text is not None and text.strip(_SPACE) == "null"


def _refuse_constant(name: str) -> str:
    raise ValueError(f"JSON has no {name}")


_STRICT_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)


def _parse_items(text: str, decoder: json.JSONDecoder) -> list[str | None] | None:
    """Returns the items of an array of JSON, `None` if the text is something else."""
    if not text:
        return []
    try:
        found = decoder.decode(text)
    except (ValueError, RecursionError):
        return _parse_printed_list(text.strip(_SPACE))
    if not isinstance(found, list) or any(isinstance(item, list | dict) for item in found):
        return None
    return [str(item).lower() if isinstance(item, bool) else item for item in found]


def _parse_printed_list(text: str) -> list[str | None] | None:
    """Returns the items of a list as Python prints it, `None` if the text is something else."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    inside, items, at = text[1:-1], list[str | None](), 0
    while found := _PRINTED_ITEM.match(inside, at):
        try:
            items.append(_evaluate_item(found[1]))
        except SyntaxError:  # an invalid escape
            return None
        at = found.end()
        if not found[2]:
            return items
    return None


def _evaluate_item(item: str) -> str | None:
    if item == "None":
        return None
    if item in ("True", "False"):
        return item.lower()
    if item[0] not in "'\"":
        return item
    # Two escapes may make one character, as in JSON.
    return _join_surrogates(str(ast.literal_eval(item)))


def _join_surrogates(text: str) -> str:
    """Returns a text whose surrogate pairs are the characters that they stand for."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def split_texts(texts: pa.Array, separator: str) -> tuple[pa.ListArray, np.ndarray]:
    """Returns the texts between separators, none of an empty text; and `[rows]` bool, where a
    separator is inside quotes: an item opens a quote and does not close it."""
    parts = pc.split_pattern(texts, separator)
    sizes, there = count_items(parts), is_there(parts)
    items = parts.flatten()
    empty = pc.equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False)
    if empty.any():
        items = items.filter(pa.array(~np.repeat(empty, sizes)))
        sizes = np.where(empty, 0, sizes)
    bad = np.zeros(len(sizes), bool)
    opened = pc.starts_with(items, _QUOTE).to_numpy(zero_copy_only=False)
    if opened.any():
        closed = pc.and_(pc.ends_with(items, _QUOTE), pc.greater(pc.utf8_length(items), 1))
        bad = find_rows_with(opened & ~closed.to_numpy(zero_copy_only=False), sizes)
    return build(items, sizes, there), bad


def shorten(
    array: pa.ListArray, most: int, *, last: bool = False
) -> tuple[pa.ListArray, np.ndarray]:
    """Returns lists of the first `most` items, or of the last, and `[rows]` bool, which had
    more."""
    sizes = count_items(array)
    longer = sizes > most
    if not longer.any():
        return array, longer
    kept = array.flatten().filter(pa.array(find_kept(sizes, most, last=last)))
    return build(kept, np.minimum(sizes, most), is_there(array)), longer


def find_kept(sizes: np.ndarray, most: int, *, last: bool = False) -> np.ndarray:
    """Returns `[items]` bool, which items of lists of `sizes` `[rows]` are among the first `most`
    of their row, or the last."""
    places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if last:
        places = np.repeat(sizes, sizes) - 1 - places
    return np.asarray(places < most)
