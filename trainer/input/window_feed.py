"""From the position in the data to an input pipeline: which block ranges it reads next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from trainer.input import epoch_order, shuffle

# The features that tell the block of each record, which of its records it is, and how many records
# of the block have been read with it, since the first epoch began; models never see them.
BLOCK = "input/block"
RECORD = "input/record"
PLACE = "input/place"
# As `shuffle.MixingWindow` has them.
WINDOW = (
    tf.TensorSpec([None, 3], tf.int64),
    tf.TensorSpec([None], tf.int32),
    tf.TensorSpec([None, 3], tf.int32),
)
# A row is (shard, byte offset, records, records to skip, epoch, block, records to stop at).
_RECORDS, _EPOCH = 2, 4
# A row without records, which is read as nothing.
_NOTHING = np.zeros(7, np.int64)
_PAUSE = 0.002  # seconds
BlockRanges = Callable[[], Iterator[epoch_order.BlockRange | None]]


class Feed:
    """Hands block ranges to the input pipelines of this process.

    `begin` sets what is read: by all pipelines, if it comes before they are built, otherwise by the
    one that was started last. Sessions start theirs before any hook can say what is to be read, and
    strategies fill them at once, so a pipeline reads nothing until then. Strategies start more than
    one for a session and drop all but the last; what a dropped one was handed has not been applied,
    so each begins at the same place. Up to `open_blocks` block ranges are mixed, as `seed` says.
    """

    def __init__(self, blocks: epoch_order.Blocks, seed: int, open_blocks: int) -> None:
        self._blocks, self._seed, self._open_blocks = blocks, seed, open_blocks
        self._started = 0  # pipelines
        # Which of them reads, and what.
        self._begun: tuple[int, BlockRanges] | None = None

    def begin(self, block_ranges: BlockRanges) -> None:
        """Sets what is read from now on; `block_ranges` yields `None` for nothing yet."""
        self._begun = (self._started, block_ranges)

    def number_pipeline(self) -> tf.Tensor:
        """Returns the number of a pipeline, a scalar int64 that is new each time it is started."""
        if self._begun is not None:
            return tf.constant(self._started, tf.int64)
        return tf.numpy_function(self._start, [], tf.int64)

    def _start(self) -> np.int64:
        self._started += 1
        return np.int64(self._started)

    def _read_block_ranges(self, pipeline: int) -> Iterator[epoch_order.BlockRange | None]:
        while self._begun is None or self._begun[0] != pipeline:
            yield None
        yield from self._begun[1]()

    def read_rows(self, pipeline: int = 0) -> Iterator[np.ndarray]:
        """Yields a row of seven int64 a block range; one without records if there is no block range
        yet. Ends when another pipeline has been started."""
        b = self._blocks
        for p in self._read_block_ranges(pipeline):
            if pipeline != self._started:
                return
            if p is None:
                time.sleep(_PAUSE)
                yield _NOTHING
                continue
            where = (b.shard[p.block], b.offset[p.block], b.records[p.block])
            until = where[-1] if p.until is None else p.until
            yield np.array([*where, p.skip, p.epoch, p.block, until], np.int64)

    def read_windows(self, pipeline: int = 0) -> Iterator[shuffle.MixingWindow]:
        """Yields what is to be read next, mixed, for `tf.data.Dataset.from_generator`.

        A window ends with its epoch, so that it has no block twice. It never waits for block
        ranges: a pipeline that did would hold a thread that steps run in, and the block ranges come
        between steps. It hands out what there is, or nothing, and is asked again.
        """
        group: list[np.ndarray] = []
        for row in self.read_rows(int(pipeline)):
            if group and (not row[_RECORDS] or row[_EPOCH] != group[0][_EPOCH]):
                yield shuffle.build_window(group, self._seed)
                group = []
            elif not row[_RECORDS]:
                yield shuffle.build_window([], self._seed)
            if row[_RECORDS]:
                group.append(row)
            if len(group) == self._open_blocks:
                yield shuffle.build_window(group, self._seed)
                group = []
