"""Finds keys that rows of two splits have, where splits do not follow from keys alone.

A key stays in the split that is held out the most, and its rows in the others are rejected: a test
set is worth what it is only if nothing in it has been trained on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline import config
from pipeline.config.splits import SPLITS, SplitName
from preprocessing.rows import split
from preprocessing.shards import spill

# Orders of rows looked at together; it bounds memory whatever the number of rows.
WINDOW_ROWS = 1 << 22


def are_possible(data: config.Data) -> bool:
    """Tells if rows of one key may be in several splits: those of several inputs, or if something
    else than the key decides."""
    apart = len(data.inputs) > 1 or not set(data.split.columns) <= set(data.key)
    return bool(data.key) and apart and len(split.list_splits(data)) > 1


def find(segments: Sequence[tuple[SplitName, spill.Segment]]) -> dict[SplitName, np.ndarray]:
    """Returns the orders, and so the keys, that each split must not have: those of later splits."""
    windows = -(-sum(segment.records for _, segment in segments) // WINDOW_ROWS)
    found: dict[SplitName, list[np.ndarray]] = {}
    names, spilled = zip(*segments, strict=True)
    rows = list(zip(names, spill.read_all(spilled), strict=True))
    for window in range(windows):
        bounds = np.array([window, window + 1], object) * 2**64 // windows
        held_out = np.zeros(0, np.uint64)
        for name in reversed(SPLITS):
            parts = [slice_between(part.orders, *bounds) for of, part in rows if of == name]
            here = np.unique(np.concatenate(parts)) if parts else held_out[:0]
            found.setdefault(name, []).append(np.intersect1d(here, held_out))
            held_out = np.union1d(held_out, here)
        for _, part in rows:
            part.release()
    joined = {name: np.concatenate(parts) for name, parts in found.items()}
    return {name: parts for name, parts in joined.items() if len(parts)}


def slice_between(orders: np.ndarray, low: int, high: int) -> np.ndarray:
    """Returns those of the ascending `orders` from `low` to below `high`, which may be 2**64."""
    start = np.searchsorted(orders, np.uint64(low))
    end = len(orders) if high == 2**64 else np.searchsorted(orders, np.uint64(high))
    return orders[start:end]
