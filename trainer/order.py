"""In which order records are read: a function of seed and epoch, and of nothing else.

The unit is a block, a run of records at a known byte offset of a shard. An epoch is a
permutation of all blocks; each reader takes every n-th of them, so that readers share an epoch
without talking to each other, whatever the number of shards.
"""

from __future__ import annotations

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


def dealt(order: np.ndarray, rank: int, num_readers: int) -> np.ndarray:
    """Returns the part of an epoch that reader `rank` of `num_readers` reads."""
    return order[rank::num_readers]


@dataclasses.dataclass(frozen=True)
class Start:
    """Where a reader begins: `blocks` of its part of `epoch` have been read already."""

    epoch: int = 0
    blocks: int = 0


def start_after(blocks: Blocks, records_read: int, seed: int, rank: int, num_readers: int) -> Start:
    """Returns where to go on after all readers together have read `records_read` records.

    Rounded down to a whole block, so that a block in the middle of which training stopped is
    read again rather than lost.
    """
    epoch, into_epoch = divmod(records_read, blocks.total_records)
    mine = dealt(epoch_order(len(blocks.records), seed, epoch), rank, num_readers)
    read = np.cumsum(blocks.records[mine])
    return Start(epoch, int(np.searchsorted(read, into_epoch // num_readers, side="right")))
