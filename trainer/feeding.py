"""From the position in the data to an input pipeline: which pieces of blocks it reads next."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from trainer import order

# (shard, byte offset, records, records to skip, epoch, block)
ROW = tf.TensorSpec([6], tf.int64)
# A row without records, which is read as nothing.
_NOTHING = np.zeros(6, np.int64)
_PAUSE = 0.002  # seconds


class Feed:
    """Hands pieces to the input pipelines of this process.

    `begin` sets what is read from the next pipeline on. Strategies start more than one pipeline for
    a session and drop all but the last; what a dropped one was handed has not been applied, so each
    begins at the same place.
    """

    def __init__(self, blocks: order.Blocks) -> None:
        self._blocks = blocks
        self._pieces: Callable[[], Iterator[order.Piece | None]] = lambda: iter(())

    def begin(self, pieces: Callable[[], Iterator[order.Piece | None]]) -> None:
        """Sets what pipelines started from now on read; `None` is for nothing yet."""
        self._pieces = pieces

    def rows(self) -> Iterator[np.ndarray]:
        """Yields rows as `ROW` has them, for `tf.data.Dataset.from_generator`.

        It never waits for pieces: a pipeline that did would hold a thread that steps run in, and
        the pieces come between steps. It hands out nothing instead, and is asked again.
        """
        b = self._blocks
        for p in self._pieces():
            if p is None:
                time.sleep(_PAUSE)
                yield _NOTHING
                continue
            where = (b.shard[p.block], b.offset[p.block], b.records[p.block])
            yield np.array([*where, p.skip, p.epoch, p.block], np.int64)


def dealt(backlog: order.Backlog, rank: int, num_readers: int) -> Iterator[order.Piece]:
    """Yields every `num_readers`-th piece: readers share the backlog without talking."""
    return (backlog[position] for position in itertools.count(rank, num_readers))
