"""Reads lines of JSON that pyarrow refuses: the values that can be had, and which of them has not
the type of its column."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
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
