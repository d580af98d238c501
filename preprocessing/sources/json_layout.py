"""Tells JSON lines from CSV and from other files of JSON, and says how to make lines of these."""

from __future__ import annotations

import ast
import json
import re

from pipeline import errors
from pipeline.source_table import SOURCES

_LINES = "source jsonl reads one object a line"
_ARRAY = re.compile(rb"\s*\[\s*[\[{]")
# An object whose member is a list of objects; the other members are single values.
_VALUE = rb'\s*(?:"(?:[^"\\]|\\.)*"|[-+.\w]+)\s*'
_ROWS = re.compile(
    rb'\s*\{\s*(?:"(?:[^"\\]|\\.)*"\s*:' + _VALUE + rb',\s*)*"((?:[^"\\]|\\.)*)"\s*:\s*\[\s*\{'
)
# The first line of an object over several lines ends behind a bracket, a colon or a comma.
_OPEN = re.compile(rb"\{(.*[\[{:,])?\s*")
_TRAILING = re.compile(rb",(\s*[}\]])")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def is_lines(head: bytes, path: str, *, one_row: bool = False) -> bool:
    """Tells if text that begins with `head` is JSON lines, and not CSV. Nothing else
    counts of `.csv` and `.tsv`. Raises `DataError` as `refuse` does."""
    if path.lower().endswith(SOURCES["csv"].suffixes):
        return False
    refuse(head, path, one_row=one_row)
    return head.lstrip()[:1] == b"{"


def refuse(head: bytes, path: str, *, one_row: bool = False) -> None:
    """Raises `DataError` for a file that begins with `head`, and is one JSON array, one object that
    holds the rows, or objects of several lines each. `one_row` tells that an object in one line may
    be a row, whatever it holds."""
    called_so = path.endswith(SOURCES["jsonl"].suffixes)
    if _ARRAY.match(head) or (called_so and head.lstrip()[:1] == b"["):
        raise errors.DataError(f"{path!r}: is one JSON array; {_LINES} (jq -c '.[]' makes these)")
    text = head.lstrip()
    if text[:1] != b"{":
        return
    first, _, rest = text.partition(b"\n")
    rows = _ROWS.match(text)
    several = not _is_object(first)
    if rows and (several or not (one_row or rest.strip())):
        name = json.loads(b'"' + rows[1] + b'"', strict=False)
        place = f".{name}" if _PLAIN_NAME.fullmatch(name) else f".[{json.dumps(name)}]"
        raise errors.DataError(
            f"{path!r}: is one JSON object, with rows in {name!r}; {_LINES} "
            f"(jq -c '{place}[]' makes these)"
        )
    if several and rest.strip() and rest.lstrip()[:1] != b"{" and _OPEN.fullmatch(first):
        raise errors.DataError(
            f"{path!r}: has JSON objects of several lines each; {_LINES} (jq -c . makes these)"
        )


def explain_no_object(line: bytes) -> str:
    """Returns why a line is not a JSON object, and what to do about it."""
    text = line.strip()
    if text.endswith(b",") and _is_object(text[:-1]):
        return "has a comma behind the object; remove it from each line (sed 's/, *$//' does)"
    if _is_object(_TRAILING.sub(rb"\1", text.rstrip(b","))):
        return "has a comma before a closing bracket, which JSON has not; remove it"
    if _is_python(text):
        return "is written as Python writes it, such as with single quotes; json.dumps writes JSON"
    try:
        json.loads(text, parse_int=str)
    except RecursionError:
        return "has too many brackets inside each other"
    except ValueError as error:
        found = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        place = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        return f"cannot be read as JSON: {found[:1].lower()}{found[1:]}{place}"
    return "is JSON, but no object"


def _is_python(text: bytes) -> bool:
    try:
        return isinstance(ast.literal_eval(text.decode(errors="replace").rstrip(",")), dict)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line, parse_int=str), dict)
    except (ValueError, RecursionError):
        return False
