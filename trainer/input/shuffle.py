"""Mixes the records of several blocks as a full shuffle does, and keeps each block's own order.

The ledger counts the records of a block by how far its reading is, so they must come in one order.
A random order of each block, and a random order of whose turn it is, make a uniform permutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_WHOSE_TURN = 0  # where blocks have their number plus one


class MixingWindow(NamedTuple):
    """Pieces of blocks that are read at once and come out mixed.

    `where` says for each block its shard, byte offset and records, `[blocks, 3]` int64. Of all
    their records, one block after the other, those to be used are `chosen`, `[used]` int32, in
    the order of use; `marks` are the block of each, its number in that and its place, `[used, 3]`
    int32.
    """

    where: np.ndarray
    chosen: np.ndarray
    marks: np.ndarray


def build_window(rows: Sequence[np.ndarray], seed: int) -> MixingWindow:
    """Mixes what rows of `window_feed.Feed.read_rows` say, all of one epoch and each of another
    block.

    None at all make a window without records.
    """
    table = np.array(rows, np.int64).reshape(-1, 7)
    records, skip, epoch, block, until = table[:, 2:].T
    orders = [_shuffle_block(row, seed) for row in table[:, 2:]]
    used = until - skip
    block_range = np.repeat(np.arange(len(table)), used)
    number = np.concatenate([np.empty(0, np.int64), *orders])
    nth = np.arange(len(block_range)) - (np.cumsum(used) - used)[block_range]
    place = (epoch * records + skip + 1)[block_range] + nth
    marks = np.stack([block[block_range], number, place], axis=1).astype(np.int32)
    first = np.cumsum(records) - records
    turns = _choose_turns(block_range, seed, table)
    return MixingWindow(
        table[:, :3], (first[block_range] + number)[turns].astype(np.int32), marks[turns]
    )


def _shuffle_block(row: np.ndarray, seed: int) -> np.ndarray:
    """Returns the numbers of a block's records in the order of this epoch, those to be used."""
    records, skip, epoch, block, until = row
    return _build_generator(seed, epoch, block + 1, which=0).permutation(int(records))[skip:until]


def _choose_turns(block_range: np.ndarray, seed: int, table: np.ndarray) -> np.ndarray:
    """Returns which record comes when: a random one of those that are next in their block
    ranges."""
    if not len(block_range):
        return block_range
    epoch, block = table[0, 4:6]
    # A few bits are sorted faster.
    small = block_range.astype(np.min_scalar_type(len(table)))
    mixed = _build_generator(seed, epoch, _WHOSE_TURN, which=block).permutation(small)
    turns = np.empty_like(block_range)
    turns[np.argsort(mixed, kind="stable")] = np.arange(len(block_range))
    return turns


def _build_generator(seed: int, epoch: int, block: int, *, which: int) -> np.random.Generator:
    key, counter = [seed % 2**64, int(epoch)], [0, 0, int(which), int(block)]
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
