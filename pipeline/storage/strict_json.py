"""The JSON of all files written here, which every reader takes.

JSON has no numbers that are not finite; Python would write them as `NaN` and `Infinity` all the
same, which other readers refuse. Here they are the texts "NaN", "Infinity" and "-Infinity", as in
the JSON of protocol buffers, and numbers again when they are read.
"""

from __future__ import annotations

import json
import math
from typing import Any

_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# No number that is used has as many digits; Python refuses to read one of some thousand.
_TOO_LONG = 300
_PLAIN = json.JSONEncoder(allow_nan=False)


def dumps(value: Any, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Returns `value` as JSON. Raises `TypeError` for what JSON does not have."""
    # What the encoder makes of a number, ten times as fast: manifests of wide tables have many.
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    encoder = _PLAIN
    if indent is not None or sort_keys:
        encoder = json.JSONEncoder(indent=indent, sort_keys=sort_keys, allow_nan=False)
    try:
        return encoder.encode(value)
    except ValueError:  # a number that is not finite; or a circle, which fails again
        return encoder.encode(_replace_numbers(value))


def loads(text: str) -> Any:
    """Returns what `dumps` was given. Raises `json.JSONDecodeError` for what is not JSON."""
    found = json.loads(text)
    # For large files without such a text, walking through all that was read would take most of the
    # time.
    return restore_numbers(found) if any(f'"{number}"' in text for number in _NUMBERS) else found


def parse_whole(text: str) -> int | str:
    """Returns a whole number, as `json.loads` needs it for `parse_int`, of JSON that people write.
    One of more digits than any may have stays a text, so that the check of its value names it."""
    return int(text) if len(text) < _TOO_LONG else text


def _replace_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_numbers(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def restore_numbers(value: Any) -> Any:
    """Returns parsed JSON with the numbers that `dumps` wrote as texts."""
    if isinstance(value, dict):
        return {key: restore_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restore_numbers(item) for item in value]
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
