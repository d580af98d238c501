"""Which shard of its split a row goes to, and where in the shard: functions of its key alone,
or of its content where rows have no key.

Nothing depends on workers, bundles or the clock, so a retried or parallel run gives the same
bytes (docs/tensorflow-pitfalls.md#random-shards, #bundles-that-run-again).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from pipeline import config
from pipeline.config.splits import SPLITS, HashSplit, SplitName
from preprocessing.arrow import binary
from preprocessing.rows import hashing


@dataclasses.dataclass(frozen=True)
class RowPlacement:
    """Where each row of a batch goes; three arrays of the same length."""

    split: np.ndarray  # uint8, index into splits.SPLITS
    shard: np.ndarray  # uint32, below the number of shards of that split
    order: np.ndarray  # uint64, ascending within a shard


def count_shards(data: config.Data, split: SplitName) -> int:
    """Returns how many files a split is written to."""
    return data.shards.get(split, 1)


def place(keys: binary.Binary, splits: np.ndarray, data: config.Data) -> RowPlacement:
    """Decides on rows that go to the `splits`, given as their places in `SPLITS`."""
    salt = data.split.salt if isinstance(data.split, HashSplit) else ""
    seed = hashing.mix(np.array([data.seed % 2**64], np.uint64))
    order = hashing.mix(hashing.hash_keys(keys, salt, hashing.FOR_ORDER) ^ seed)
    # Mixed once more, so that being in the same shard says nothing about the order there.
    shards = np.array([count_shards(data, name) for name in SPLITS], np.uint64)
    return RowPlacement(splits, (hashing.mix(order) % shards[splits]).astype(np.uint32), order)
