"""Reads lines of JSON that pyarrow refuses: the values that can be had, which of them has not the
type of its column, and the line without items that need not have it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipeline import config

_WHOLE = re.compile(r"(-?[0-9]+)(?:\.0+)?")
# What pyarrow says of a value: the kinds that it expected and found.
_FOUND = re.compile(r"changed from \w+ to (\w+)")
_NOUNS = {
    "null": "a null",
    "boolean": "a boolean",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_ALLOWED = {"int64": "an int64", "float32": "a float32", "string": "a string"}
# No int64 has more characters.
_LONGEST = 20


# float32 and float64 have all whole numbers up to these.
_EXACT = 2**53


def read_values(text: bytes, names: Collection[str]) -> dict[str, Any] | None:
    """Returns the values of a line for the columns `names`, in their order and without those that
    it lacks; `None` if it is no JSON object, or has a key twice."""
    try:
        row = json.loads(text, parse_float=_read_float, object_pairs_hook=_build_object)
    except (ValueError, RecursionError):
        return None
    return {name: row[name] for name in names if name in row} if isinstance(row, dict) else None


def _read_float(text: str) -> int | float:
    """Returns a number that is written with a point; a whole one of more digits than floats have as
    it is, as columns of text and of int64 have them."""
    number = float(text)
    whole = _WHOLE.fullmatch(text) if abs(number) >= _EXACT else None
    return int(whole[1]) if whole else number


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


_SPACES = re.compile(r"[ \t\n\r]*")
# A text, or a number outside of one.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)')
# Numbers beyond double have so many digits before the point, or such an exponent.
_MAY_BE_TOO_LARGE = re.compile(rb"(?<![0-9])[0-9]{200}|[eE]\+?[0-9]{3}")
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def hold_too_large(lines: bytes) -> bool:
    """Returns whether a number in JSON lines, outside of texts, is beyond double."""
    if not _MAY_BE_TOO_LARGE.search(lines):
        return False
    text = lines.decode(errors="surrogateescape")
    return any(_is_too_large(found[1]) for found in _TOKEN.finditer(text))


def _is_too_large(number: str | None) -> bool:
    return number is not None and math.isinf(float(number))


def blank_unread(line: bytes, columns: Mapping[str, config.Column]) -> bytes:
    """Returns a line with null for what is not read: items of its lists that `on_longer` will cut
    off, which may be anything, and numbers beyond double in other members than the columns. All
    else stays as it is written, right or wrong."""
    text = line.decode(errors="surrogateescape")
    try:
        spans = list(_find_unread(text, columns))
    except (ValueError, TypeError, IndexError, RecursionError):  # it is no JSON, or ends early
        return line
    for start, end in reversed(spans):
        text = f"{text[:start]}null{text[end:]}"
    return text.encode(errors="surrogateescape")


def _find_unread(text: str, columns: Mapping[str, config.Column]) -> Iterator[tuple[int, int]]:
    """Yields where each of the items and numbers begins and ends."""
    start = _skip_spaces(text, 0)
    if text[start] != "{":
        return
    for name, first, end in _locate_values(text, start):
        column = columns.get(name)
        if column is None:
            numbers = _TOKEN.finditer(text, first, end)
            yield from (one.span() for one in numbers if _is_too_large(one[1]))
            continue
        if column.on_longer == "reject" or text[first] != "[":
            continue
        items = [(begin, behind) for _, begin, behind in _locate_values(text, first)]
        most = column.max_items or 0
        last = column.on_longer == "keep_last"
        yield from items[: max(0, len(items) - most)] if last else items[most:]


def _locate_values(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yields for each value of the object or array at `start` its name, empty in an array, and
    where it begins and ends. Raises `ValueError` or `IndexError` if it is not as JSON has it, but
    does not look at commas and colons."""
    at, named = _skip_spaces(text, start + 1), text[start] == "{"
    while text[at] not in "]}":
        name = ""
        if named:
            name, at = _DECODER.raw_decode(text, at)
            at = _skip_spaces(text, _skip_spaces(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield name, at, end
        at = _skip_spaces(text, end)
        if text[at] == ",":
            at = _skip_spaces(text, at + 1)


def _skip_spaces(text: str, at: int) -> int:
    found = _SPACES.match(text, at)
    return found.end() if found else at


class _WrittenNumber(str):
    """A number as it is written."""


def describe_fault(text: bytes, name: str, *, column: config.Column, why: str) -> str:
    """Returns which value of column `name` has which wrong type, to stand behind the name; `text`
    is the line and `why` what pyarrow says of it. Shows no value: it may be sensitive."""
    try:
        row = json.loads(
            text,
            parse_int=_WrittenNumber,
            parse_float=_WrittenNumber,
            parse_constant=_WrittenNumber,
        )
        value = row[name]
    except (ValueError, RecursionError, KeyError, TypeError):
        kinds = _FOUND.search(why)
        noun = _NOUNS.get(kinds[1], "a value") if kinds else "a value"
        return f"has {noun}, not {_ALLOWED[column.type]}"
    listed = bool(column.list or column.shape)
    if not listed or not isinstance(value, list):
        allowed = f"a list of {column.type}" if listed else _ALLOWED[column.type]
        return _describe(value, "", allowed=allowed)
    mixed = any(_find_kind(item) == "string" for item in value)
    fits = [_fits(item, column.type, mixed=mixed) for item in value]
    if all(fits):
        return f"has an item that is not {_ALLOWED[column.type]}"
    at = fits.index(False)
    found = _describe(value[at], f" as item {at + 1}", allowed=_ALLOWED[column.type])
    if mixed and column.type == "string" and isinstance(value[at], _WrittenNumber):
        return f"{found}; a list has strings or whole numbers, not both"
    return found


def describe_too_large(
    text: bytes, columns: Mapping[str, config.Column]
) -> tuple[str, str, str] | None:
    """Returns the first column of a line that has a number beyond double, the reason of the letter,
    and what is wrong, without the value; `None` if no column has one, or the line is no JSON."""
    try:
        row = json.loads(
            text,
            parse_int=_WrittenNumber,
            parse_float=_WrittenNumber,
            parse_constant=str,
            object_pairs_hook=_build_object,
        )
    except (ValueError, RecursionError):
        return None
    for name, value in row.items() if isinstance(row, dict) else ():
        items = value if isinstance(value, list) else [value]
        large = [isinstance(item, _WrittenNumber) and _is_too_large(item) for item in items]
        if name not in columns or not any(large):
            continue
        column, is_list = columns[name], isinstance(value, list)
        if column.type != "float32" or is_list != bool(column.list or column.shape):
            return name, "type", describe_fault(text, name, column=column, why="")
        place = f" as item {large.index(True) + 1}" if is_list else ""
        return name, "overflow", f"has a number{place} that is too large for float32"
    return None


def _describe(value: object, place: str, *, allowed: str) -> str:
    if isinstance(value, _WrittenNumber) and allowed == "an int64":
        if "e" in value.lower():
            return f"has a number with an exponent{place}, which is not an int64; write its digits"
        return f"has a number{place} that is not an int64"
    return f"has {_NOUNS[_find_kind(value)]}{place}, not {allowed}"


def _find_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "number" if isinstance(value, _WrittenNumber) else "string"


def _fits(item: object, kind: str, *, mixed: bool) -> bool:
    """Tells if an item is what a column of a type takes, whole numbers as text only if the list is
    not `mixed`; nulls are looked for elsewhere."""
    if item is None:
        return True
    if isinstance(item, bool):
        return kind != "string"
    if not isinstance(item, _WrittenNumber):
        return kind == "string" and isinstance(item, str)
    if kind == "string":
        return not mixed and _WHOLE.fullmatch(item) is not None
    return kind == "float32" or _is_int64(item)


def _is_int64(number: str) -> bool:
    whole = _WHOLE.fullmatch(number)
    if not whole or len(whole[1]) > _LONGEST:
        return False
    return -(2**63) <= int(whole[1]) < 2**63
