"""What one reader of a shared schedule holds: block ranges assigned to it and not yet applied.

It keeps enough of them ahead of its pipeline, which never waits for one: a step that asked for
records that no reader has taken would wait for ever, as block ranges are taken between steps.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from trainer.input import epoch_order

# As many batches are held at least: the one under way, and those that are prefetched.
_BATCHES = 4


@dataclasses.dataclass(frozen=True)
class AssignmentSizes:
    """How many block ranges a reader has open at once, takes at a time, and holds at most."""

    open: int
    chunk: int
    width: int


def compute_sizes(records: np.ndarray, batch_size: int, open_blocks: int) -> AssignmentSizes:
    """Returns the sizes for blocks of `records`, `[blocks]`."""
    chunk = max(1, open_blocks // 4)
    # At worst the batches are made of the smallest blocks.
    epochs, rest = divmod(_BATCHES * batch_size, int(records.sum()))
    in_batches = epochs * len(records) + int(np.searchsorted(np.cumsum(np.sort(records)), rest)) + 1
    # After a resume, each block may be partly read, once.
    in_batches += min(len(records), _BATCHES * batch_size)
    # A window may be in batches, one is being read, and one waits.
    return AssignmentSizes(open_blocks, chunk, 3 * open_blocks + 3 * chunk + in_batches)


def can_take_turns(
    records: np.ndarray, batch_size: int, open_blocks: int, *, num_readers: int
) -> bool:
    """True if readers can wait for each other's blocks and never all wait at once.

    They do if what is left of all blocks, `[blocks]` records, does not make a batch for any of
    them. Blocks that a reader has not begun are whole; of those it has, the batches it is ahead and
    the blocks it mixes may be applied.
    """
    begun = (_BATCHES + 1) * batch_size + (open_blocks + 1) * int(records.max())
    return int(records.sum()) > num_readers * begun


class Assignments:
    """The block ranges of one session, by their position in the schedule.

    A block range waits until all earlier epochs of its block have been applied, by any reader: with
    two at a block, it would not be known how far it is. `in_turn` is false where each step waits
    for a batch of every reader, so that none gets ahead; and where there is too little to share
    (`can_take_turns`).
    """

    def __init__(
        self,
        schedule: epoch_order.BlockSchedule,
        records: np.ndarray,
        batch_size: int,
        *,
        size: AssignmentSizes,
        in_turn: bool = True,
        end: int | None = None,
    ) -> None:
        """`end` is the position behind the last epoch; `None` if training ends by steps alone."""
        self._schedule, self._records = schedule, records
        self._batch_size, self._size, self._in_turn = batch_size, size, in_turn
        self._end, self._exhausted = end, False
        self._waiting: dict[int, epoch_order.BlockRange] = {}
        self._ready: dict[int, epoch_order.BlockRange] = {}
        # Those of the ready ones that no pipeline has asked for.
        self._queue: collections.deque[epoch_order.BlockRange] = collections.deque()
        # Records that are ready and not applied.
        self._ahead = 0

    def add(self, positions: Iterable[int]) -> None:
        """Takes in block ranges, which wait for `release`, but none behind the last epoch."""
        for position in positions:
            if self._end is not None and position >= self._end:
                self._exhausted = True
            else:
                self._waiting[position] = self._schedule[position]

    def exhaust(self) -> None:
        """Takes nothing in any more: all of the last epoch has been assigned."""
        self._exhausted = True

    @property
    def exhausted(self) -> bool:
        """True if all of the last epoch has been assigned."""
        return self._exhausted

    def count_left(self, reached: np.ndarray) -> int:
        """Returns how many records are held and not yet applied; `reached` is that of
        `waiting_blocks`."""
        waiting = 0
        for block_range, far in zip(self._waiting.values(), reached, strict=True):
            records = int(self._records[block_range.block])
            waiting += records - min(records, max(0, int(far) - block_range.epoch * records))
        return self._ahead + waiting

    def read_on_alone(self, block_ranges: int) -> None:
        """Adds so many block ranges behind the last epoch, to fill its last batch with; once all
        that is left is held here. What this reader does one after the other need not wait."""
        assert self._end is not None
        self._in_turn = False
        beyond = range(self._end, self._end + block_ranges)
        self._end += block_ranges
        self.add(beyond)
        self._waiting = dict(sorted(self._waiting.items()))

    @property
    def waiting_blocks(self) -> list[int]:
        """The blocks of the block ranges that wait."""
        return [block_range.block for block_range in self._waiting.values()]

    def release(self, reached: np.ndarray) -> None:
        """Makes the block ranges ready whose turn it is; `reached` is that of `waiting_blocks`."""
        for (position, block_range), far in list(zip(self._waiting.items(), reached, strict=True)):
            records = int(self._records[block_range.block])
            skip = int(far) - block_range.epoch * records
            if skip < 0 and self._in_turn:
                continue
            del self._waiting[position]
            if skip < records:
                block_range = dataclasses.replace(block_range, skip=max(0, skip))
                self._ready[position] = block_range
                self._queue.append(block_range)
                self._ahead += records - block_range.skip

    def take_block_ranges(self) -> Iterator[epoch_order.BlockRange | None]:
        """Yields what is ready and then what becomes so, for one pipeline; `None` for nothing yet.

        Of several pipelines the last continues: a strategy drops the others.
        """
        queue = self._queue = collections.deque(self._ready.values())
        while True:
            yield queue.popleft() if queue else None

    def count_applied_batch(self) -> None:
        """Counts one step."""
        self._ahead -= self._batch_size

    @property
    def wants_more(self) -> bool:
        """True if there should be more before the next step."""
        # A window that is begun has as many block ranges as are waiting.
        return len(self._queue) < self._size.open or self._ahead < _BATCHES * self._batch_size

    @property
    def lacks_a_batch(self) -> bool:
        """True if the next step would wait for ever."""
        return self._ahead < self._batch_size

    @property
    def full(self) -> bool:
        """True if nothing can be taken, unless something has been applied."""
        return len(self._ready) + len(self._waiting) > self._size.width - self._size.chunk

    @property
    def positions(self) -> list[int]:
        """The positions of all that is held."""
        return [*self._ready, *self._waiting]

    @property
    def ready_blocks(self) -> list[int]:
        """The blocks of the block ranges that are ready."""
        return [block_range.block for block_range in self._ready.values()]

    def drop_applied(self, reached: np.ndarray) -> None:
        """Lets go of what has been applied whole; `reached` is that of `ready_blocks`."""
        for (position, block_range), far in list(zip(self._ready.items(), reached, strict=True)):
            if far >= (block_range.epoch + 1) * self._records[block_range.block]:
                del self._ready[position]
