"""What each of several readers reads that make every step together: their shares of the schedule.

They share it by whole blocks, so one has a few records more of an epoch than another, and training
that ended there would leave some of them while others have begun the next epoch. So the last blocks
of the last epoch are shared by batches: each step takes the next records there are, a batch for
each reader. A block may then be read by several, but what a step applies comes before what the
next one does, so that the counts of a checkpoint are right at every step.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Iterator

from trainer.input.epoch_order import BlockRange, BlockSchedule


@dataclasses.dataclass(frozen=True)
class End:
    """The end of the last epoch: `left` records of the schedule come before it, in blocks of at
    most `largest`, and are read in batches of `batch_size`."""

    left: int
    largest: int
    batch_size: int


def assign(
    schedule: BlockSchedule, rank: int, num_readers: int, *, end: End | None = None
) -> Iterator[BlockRange | None]:
    """Yields the block ranges of one reader: each is whose records are the fewest so far. So
    readers share the schedule without talking, and stay together, however uneven the blocks.

    With `end` what comes before it is read in the same step by all; a `None` is where no record
    behind it may be mixed with those before. Without, and of a reader on its own, there are none.
    """
    had = [(0, reader) for reader in range(num_readers)]  # a heap
    left = 0 if end is None else end.left
    for position in itertools.count():
        block_range = schedule[position]
        size = schedule.count_left(block_range)
        if end is not None and num_readers > 1:
            # Enough for each to come as far as the one that has most, and a batch.
            if left - size < num_readers * (end.largest + end.batch_size):
                break
            left -= size
        records, reader = had[0]
        heapq.heapreplace(had, (records + size, reader))
        if reader == rank:
            yield block_range
    assert end is not None
    rest = _Rest(schedule, position)
    yield from _come_level(rest, sorted(had), rank, batch_size=end.batch_size)
    yield from _assign_by_batches(rest, rank, num_readers, batch_size=end.batch_size)


class _Rest:
    """What has not been assigned, of which parts of blocks are taken."""

    def __init__(self, schedule: BlockSchedule, position: int) -> None:
        self._schedule = schedule
        self._position = position
        # What is left of blocks that are read in part, and those behind of the same blocks.
        self._later: list[BlockRange] = []

    def take(self, records: int) -> tuple[BlockRange, int]:
        """Returns a block range of at most so many records, and how many it has."""
        block_range = self._later.pop(0) if self._later else self._take_next()
        first, rest = self._cut(block_range, records)
        if rest is not None:
            self._later.insert(0, rest)
        return first, self._count_records(first)

    def take_apart(self, records: int) -> tuple[BlockRange, int]:
        """As `take`, but of a block that no reader has a part of; the rest of it is taken last."""
        blocks = {block_range.block for block_range in self._later}
        while (block_range := self._take_next()).block in blocks:
            self._later.append(block_range)
        first, rest = self._cut(block_range, records)
        if rest is not None:
            self._later.append(rest)
        return first, self._count_records(first)

    def _take_next(self) -> BlockRange:
        self._position += 1
        return self._schedule[self._position - 1]

    def _count_records(self, block_range: BlockRange) -> int:
        return self._schedule.count_left(block_range)

    def _cut(self, block_range: BlockRange, records: int) -> tuple[BlockRange, BlockRange | None]:
        if self._count_records(block_range) <= records:
            return block_range, None
        at = block_range.skip + records
        return dataclasses.replace(block_range, until=at), dataclasses.replace(block_range, skip=at)


def _come_level(
    rest: _Rest, had: list[tuple[int, int]], rank: int, *, batch_size: int
) -> Iterator[BlockRange | None]:
    """Fills up what each has to as many whole batches."""
    level = -(-had[-1][0] // batch_size) * batch_size
    for records, reader in had:
        while records < level:
            block_range, size = rest.take_apart(level - records)
            records += size
            if reader == rank:
                yield block_range
    yield None


def _assign_by_batches(
    rest: _Rest, rank: int, num_readers: int, *, batch_size: int
) -> Iterator[BlockRange | None]:
    """Assigns a batch to each in turn, for ever."""
    for reader in itertools.cycle(range(num_readers)):
        room = batch_size
        while room:
            block_range, size = rest.take(room)
            room -= size
            if reader == rank:
                yield block_range
        if reader == rank:
            yield None
