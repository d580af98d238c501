"""A number apart from all others that usually stands for no value, such as -999."""

from __future__ import annotations

import re

import numpy as np

from preprocessing.schema_inference import traits
from preprocessing.schema_inference.profile import ColumnProfile

# Nines alone, of which people take as many as no value has; and what casts make of NaN.
_NINES = re.compile(r"-9|-?9[9.]*9(\.0+)?")
_CASTS = {-(2.0**15), -(2.0**31), -(2.0**63)}
# Different other values from which it must be apart.
_OTHERS = 3


def write_remark(name: str, found: ColumnProfile, *, csv: bool) -> list[str]:
    """Returns which number may stand for no value, and what to do; of CSV that can be set."""
    if found.kind not in ("int64", "float32") or found.lengths or not found.about.finite:
        return []
    # Cheap to ask, and true of hardly any column.
    known = (found.about.least, found.about.greatest)
    kind = np.float32 if found.kind == "float32" else int
    # With the digits of a float32, of which 9999.9 is one.
    ends = [float(text) for text in (str(kind(end or 0)) for end in known) if _is_usual(text)]
    if not ends:
        return []
    values, counts = traits.count_numbers(found)
    for end in ends:
        others = values[values != end]
        if len(others) >= _OTHERS and _is_apart(end, others):
            rows = int(counts[values == end].sum())
            counted = found.different is not None
            often = f"{rows:,} of {found.values:,} values" if counted else "values"
            text = _format_number(found, end)
            can = f", or add {text!r} to data.csv.missing" if csv else ""
            return [
                f"{name!r} has {often} {text}, apart from all others, which are from "
                f"{others.min():g} to {others.max():g}. If that stands for no value, leave it "
                f"empty in the raw data{can}"
            ]
    return []


def _is_usual(text: str) -> bool:
    return _NINES.fullmatch(text) is not None or float(text) in _CASTS


def _is_apart(end: float, others: np.ndarray) -> bool:
    """Tells if a number is farther from others than these are from each other, or below zero where
    they are not."""
    low, high = float(others.min()), float(others.max())
    return max(low - end, end - high) > high - low or end < 0 <= low


def _format_number(found: ColumnProfile, end: float) -> str:
    """Returns a number as it is written in the raw data, if that is known."""
    for text in found.list_texts():
        try:
            if float(text) == end:
                return text
        except ValueError:
            continue
    return f"{end:g}"
