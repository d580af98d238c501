"""Columns of lists: texts that are lists with a separator, and the feature made of a list."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.config.column_config import JSON
from preprocessing.arrow import lists
from preprocessing.schema_inference import outliers, traits
from preprocessing.schema_inference.profile import ColumnProfile

# In this order, the ones that are rarest in ordinary text first.
_SEPARATORS = ("|", ";", ",")
# One value in so many must hold it; the longest list must have so many items, and items must occur
# so often on average in the different texts.
_ONE_IN, _LONGEST, _REPEATED = 20, 3, 2
# More different items are hashed: so many buckets each, a power of two, but not more than the last.
_VOCABULARY, _PER_ITEM, _MOST_BUCKETS = 10_000, 5, 2**18
_WIDEST = 16
# What NaN becomes as a whole number.
_LEAST = -(2**63)


def find_separator(found: ColumnProfile) -> str | None:
    """Returns what stands between the items of texts, if these are lists: of different lengths, of
    items that occur again, without spaces around what separates them; of arrays of JSON `json`."""
    if found.kind != "string" or found.lengths or found.as_dates.form:
        return None
    counts = {text: n for text, n in found.count_texts() if text}
    arrays = [text for text in counts if not lists.is_null(text)]
    if arrays and all(text.startswith("[") for text in arrays):
        _, no_arrays = lists.parse_json(pa.array(arrays, pa.string()))
        if not no_arrays.any():
            return JSON
    there = {text: n for text, n in counts.items() if text not in found.tokens}
    return next((one for one in _SEPARATORS if _is_separator(one, there)), None)


def _is_separator(mark: str, counts: Mapping[str, int]) -> bool:
    parts = [text.split(mark) for text in counts]
    having = sum(n for text, n in counts.items() if mark in text)
    rare = having * _ONE_IN < sum(counts.values())
    if rare or max(map(len, parts), default=0) < _LONGEST:
        return False
    items = collections.Counter(item for part in parts for item in part)
    if any(not item or item != item.strip() or item.startswith('"') for item in items):
        return False
    if mark == "," and all(map(traits.is_number_or_amount, counts)):
        return False  # numbers with groups of digits look so, too
    different_lengths = len(set(map(len, parts))) > 1
    return different_lengths and items.total() >= _REPEATED * len(items)


def suggest_rules(found: ColumnProfile) -> dict[str, Any]:
    """Returns the keys of a column that is a list."""
    # Tomorrow's rows may have longer ones.
    made: dict[str, Any] = {"list": True, "max_items": max(1, *found.lengths)}
    made["on_longer"] = "truncate"
    if found.separator not in ("", "|"):
        made["separator"] = found.separator
    about = found.about
    # No item may be equal to what stands for none.
    if found.kind == "int64" and (about.least or 0) < 0:
        least, greatest = int(about.least or 0), int(about.greatest or 0)
        made["default"] = least - 1 if least > _LEAST else greatest + 1
    elif found.kind == "string" and about.least == 0:
        made["default"] = "(none)"
    return made


def suggest_count(name: str, found: ColumnProfile) -> dict[str, list[Any]]:
    """Returns a feature of how many items there are, by name, if that differs. A pooled list has no
    statistics in the manifest, so mean and deviation are those of all rows."""
    if len(found.lengths) < 2:
        return {}
    lengths, rows = np.array(list(found.lengths)), np.array(list(found.lengths.values()))
    mean = float(np.average(lengths, weights=rows))
    deviation = float(np.average((lengths - mean) ** 2, weights=rows)) ** 0.5
    farthest = mean + outliers.FAR * deviation
    clip = [{"clip": {"max": float(f"{farthest:.3g}")}}] if lengths.max() > farthest else []
    scaling = {"mean": float(f"{mean:.3g}"), "deviation": float(f"{deviation:.3g}")}
    return {f"{name}_count": [{"pool": {"by": "count"}}, *clip, {"z_score": scaling}]}


def suggest_feature(found: ColumnProfile) -> tuple[list[Any], dict[str, Any] | None, str]:
    """Returns the steps of a list, its embedding if it has ids, and a note about it."""
    longest = max(found.lengths)
    note = f"lists of {min(found.lengths):,} to {longest:,} items; of a longer one the first stay"
    if found.kind == "float32":
        return [{"pool": {"by": "mean"}}], None, note
    different = found.count_of_different
    size = min(_WIDEST, math.ceil(2 * max(different, 1) ** 0.25))
    embedding = {"size": size, "combiner": "mean"}
    if found.different is not None and different <= _VOCABULARY:
        return ["vocabulary"], embedding, note
    buckets = min(2 ** math.ceil(math.log2(_PER_ITEM * different)), _MOST_BUCKETS)
    return [{"hash": {"buckets": buckets}}], embedding, note
