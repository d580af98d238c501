"""From the position in the data to an input pipeline: which pieces of blocks it reads next."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from trainer import order

# (shard, byte offset, records, records to skip, epoch, block)
ROW = tf.TensorSpec([6], tf.int64)


class Feed:
    """Hands pieces to the input pipelines of this process.

    `begin` sets what is read from the next pipeline on. It never waits: a pipeline that did would
    hold a thread that steps run in. Strategies start more than one pipeline for a session and drop
    all but the last; what a dropped one was handed has not been applied, so each begins at the
    same place.
    """

    def __init__(self, blocks: order.Blocks) -> None:
        self._blocks = blocks
        self._pieces: Callable[[], Iterator[order.Piece]] = lambda: iter(())

    def begin(self, pieces: Callable[[], Iterator[order.Piece]]) -> None:
        """Sets what pipelines started from now on read."""
        self._pieces = pieces

    def rows(self) -> Iterator[np.ndarray]:
        """Yields rows as `ROW` has them, for `tf.data.Dataset.from_generator`."""
        b = self._blocks
        for p in self._pieces():
            where = (b.shard[p.block], b.offset[p.block], b.records[p.block])
            yield np.array([*where, p.skip, p.epoch, p.block], np.int64)


def dealt(backlog: order.Backlog, rank: int, num_readers: int) -> Iterator[order.Piece]:
    """Yields every `num_readers`-th piece: readers share the backlog without talking."""
    return (backlog[position] for position in itertools.count(rank, num_readers))
