"""In which order records are read: a function of seed and epoch, and of nothing else.

The unit is a block, a run of records at a known byte offset of a shard. An epoch is a
permutation of all blocks; each reader takes every n-th of them, so that readers share an epoch
without talking to each other, whatever the number of shards.
"""

from __future__ import annotations

import bisect
import dataclasses

import numpy as np

from pipeline import manifest


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Every block of a split, in the order of the manifest. All arrays have one entry a block."""

    paths: tuple[str, ...]
    shard: np.ndarray  # int64, index into paths
    offset: np.ndarray  # int64, bytes from the start of the shard
    records: np.ndarray  # int64

    @property
    def total_records(self) -> int:
        """Number of records in the split."""
        return int(self.records.sum())


def blocks_of(split: manifest.Split, block_records: int, paths: list[str]) -> Blocks:
    """Lists the blocks of a split whose shards lie at `paths`."""
    shard = [index for index, s in enumerate(split.shards) for _ in s.blocks]
    offset = [at for s in split.shards for at in s.blocks]
    records = [
        min(block_records, s.records - block_records * n)
        for s in split.shards
        for n in range(len(s.blocks))
    ]
    return Blocks(
        tuple(paths),
        np.array(shard, np.int64),
        np.array(offset, np.int64),
        np.array(records, np.int64),
    )


def epoch_order(num_blocks: int, seed: int, epoch: int) -> np.ndarray:
    """Returns the block indices of one epoch, `[num_blocks]` int64.

    Philox is counter-based: the order of epoch 1000 costs no more than that of epoch 0.
    """
    bits = np.random.Philox(key=[seed % 2**64, epoch % 2**64])
    return np.random.Generator(bits).permutation(num_blocks).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class Piece:
    """What is to be read of one block: all its records of one epoch but the first `skip`."""

    block: int
    epoch: int
    skip: int


class Backlog:
    """Everything that is still to be read, as an endless list of pieces.

    It begins with what the epoch under way has left, in that epoch's order, and goes on with whole
    epochs. It is a function of the seed and of `applied`, the number of records of each block that
    have been trained on so far, `[blocks]`: nothing else need be remembered to go on.
    """

    def __init__(self, blocks: Blocks, seed: int, applied: np.ndarray) -> None:
        self._records, self._seed = blocks.records, seed
        self._applied = np.asarray(applied, np.int64)
        done = self._applied // self._records
        self._first_epoch = int(done.min())
        self._laps: list[np.ndarray] = []
        self._starts = [0]

    def __getitem__(self, position: int) -> Piece:
        """Returns the piece at `position`, however far."""
        while position >= self._starts[-1]:
            self._lay_out_next()
        lap = bisect.bisect_right(self._starts, position) - 1
        block = int(self._laps[lap][position - self._starts[lap]])
        epoch = self._first_epoch + lap
        done = int(self._applied[block] - epoch * self._records[block])
        return Piece(block, epoch, max(0, done))

    def _lay_out_next(self) -> None:
        """Appends the next epoch that has anything left."""
        epoch = self._first_epoch + len(self._laps)
        order = epoch_order(len(self._records), self._seed, epoch)
        left = order[self._applied[order] < (epoch + 1) * self._records[order]]
        self._laps.append(left)
        self._starts.append(self._starts[-1] + len(left))


@dataclasses.dataclass(frozen=True)
class Epoch:
    """How many of the `due` records of one epoch have been applied, and how many are left."""

    epoch: int
    due: int
    applied: int
    left: int


def ledger(blocks: Blocks, applied: np.ndarray) -> list[Epoch]:
    """Returns what has been trained on, by epoch; processes that do not wait for each other may
    have begun one before the one before is complete. `applied` is `[blocks]`, over all epochs."""
    records, applied = blocks.records, np.asarray(applied, np.int64)
    rows = []
    for epoch in range(int((-(-applied // records)).max(initial=0))):
        got = int(np.clip(applied - epoch * records, 0, records).sum())
        rows.append(Epoch(epoch, blocks.total_records, got, blocks.total_records - got))
    return rows
