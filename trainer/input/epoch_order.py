"""In which order records are read: a function of seed and epoch, and of nothing else.

The unit is a block, a run of records at a known byte offset of a shard. An epoch is a
permutation of all blocks, which readers share without talking to each other, whatever the number of
shards.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable

import numpy as np

from pipeline import config, storage
from pipeline.records import manifest

# Bytes of records that are mixed with each other, as they are in the files. Twice that is held, for
# a moment.
_MIXED = 64 << 20
_KEPT = 3  # epochs whose order a schedule keeps


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Every block of a split, in the order of the manifest. All arrays have one entry a block."""

    paths: tuple[str, ...]
    shard: np.ndarray  # int64, index into paths
    offset: np.ndarray  # int64, bytes from the start of the shard
    records: np.ndarray  # int64
    excluded: np.ndarray | None = None  # bool, those that cannot be read
    identity: int = 0  # the same for the same records only
    bytes: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(1, np.int64))  # int64

    @property
    def longest(self) -> int:
        """Bytes of the longest block."""
        return int(self.bytes.max(initial=1))

    @property
    def due(self) -> np.ndarray:
        """Records of each block in an epoch, `[blocks]`: none of those that cannot be read."""
        return self.records if self.excluded is None else np.where(self.excluded, 0, self.records)

    @property
    def total_records(self) -> int:
        """Number of records in the split."""
        return int(self.records.sum())


def list_blocks(
    contents: manifest.Manifest, split: str, folder: str, *, excluded: Iterable[int] = ()
) -> Blocks:
    """Lists the blocks of a split of the records in `folder`. Raises `DataError` if it has none."""
    found = contents.split(split)
    paths = [storage.join(folder, shard.path) for shard in found.shards]
    return list_split_blocks(found, contents.block_records, paths, excluded=excluded)


def list_split_blocks(
    split: manifest.Split, block_records: int, paths: list[str], *, excluded: Iterable[int] = ()
) -> Blocks:
    """Lists the blocks of a split whose shards lie at `paths`; those `excluded` are never read."""
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
        np.isin(np.arange(len(records)), list(excluded)) if excluded else None,
        _compute_identity(split),
        np.concatenate(
            [np.empty(0, np.int64), *(_compute_block_bytes(s) for s in split.shards if s.blocks)]
        ),
    )


def _compute_block_bytes(shard: manifest.Shard) -> np.ndarray:
    return np.diff(np.array([*shard.blocks, shard.bytes], np.int64))


def _compute_identity(split: manifest.Split) -> int:
    """Returns a number of 60 bits that depends on every record and block, not on where they lie."""
    shards = [shard.model_dump(exclude={"path"}) for shard in split.shards]
    return int(config.digest({"shards": shards})[:15], 16)


def list_readable(blocks: Blocks) -> np.ndarray:
    """Returns the blocks that can be read, `[blocks, 3]` int64: shard, byte offset, records."""
    rows = np.stack([blocks.shard, blocks.offset, blocks.records], axis=1)
    return rows if blocks.excluded is None else rows[~blocks.excluded]


def compute_distance(num_blocks: int) -> int:
    """Returns how many blocks at least are read between one and its next turn, an epoch later."""
    return num_blocks // 5


def order_blocks(num_blocks: int, seed: int, epoch: int) -> np.ndarray:
    """Returns the block indices of one epoch, `[num_blocks]` int64.

    A permutation, but that the last blocks of the epoch before do not come first: what is still
    being read is not begun again (`compute_distance`), also if the epoch before is continued with
    near its end.
    """
    order = _permute(num_blocks, seed, epoch)
    return move_behind(order, _permute(num_blocks, seed, epoch - 1)) if epoch else order


def move_behind(order: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Returns `order` with the last blocks of `before`, which are read before it, not at first."""
    near = compute_distance(len(order))
    if near:
        late = np.zeros(len(order), bool)
        late[before[-2 * near :]] = True
        # Within the first three fifths, so that the last two are those of the permutation.
        head = order[: 3 * near]
        order[: 3 * near] = np.concatenate([head[~late[head]], head[late[head]]])
    return order


def _permute(num_blocks: int, seed: int, epoch: int) -> np.ndarray:
    """Philox is counter-based: epoch 1000 costs no more than epoch 0."""
    bits = np.random.Philox(key=[seed % 2**64, epoch % 2**64])
    return np.random.Generator(bits).permutation(num_blocks).astype(np.int64)


def open_blocks(blocks: Blocks, wanted: int, num_readers: int) -> int:
    """Returns how many blocks a reader mixes: `wanted`, or as many as fit into memory.

    A reader on its own may mix a whole epoch, which is a full shuffle. Of several, each mixes as
    many as are all read before any of them has its next turn, if processes keep pace. An epoch is
    cut evenly.
    """
    records = np.sort(blocks.due[blocks.due > 0])
    share = -(-len(records) // num_readers)
    most = max(1, min(wanted, share, _MIXED // blocks.longest))
    if num_readers > 1:
        # While the longest blocks are read, the others continue, at worst to the shortest ones.
        longest = np.cumsum(records[::-1])[:most]
        meanwhile = np.searchsorted(np.cumsum(records), longest) + 1
        fitting = int((num_readers * meanwhile <= compute_distance(len(records))).sum())
        most = max(1, fitting)
    windows = -(-share // most)
    return -(-share // windows)


@dataclasses.dataclass(frozen=True)
class BlockRange:
    """What is to be read of one block: its records of one epoch but the first `skip`, up to `until`
    or to the last."""

    block: int
    epoch: int
    skip: int
    until: int | None = None


class BlockSchedule:
    """Everything that is still to be read, as an endless list of block ranges.

    It begins with what the epoch under way has left, in that epoch's order, then has whole
    epochs. It is a function of the seed and of `applied`, the number of records of each block that
    have been trained on so far, `[blocks]`: nothing else is needed to resume.
    """

    def __init__(self, blocks: Blocks, seed: int, applied: np.ndarray) -> None:
        self._sizes = blocks.records
        # Of the blocks that can be read, as all below.
        self._blocks, self._seed = np.flatnonzero(blocks.due), seed
        self._records = blocks.records[self._blocks]
        self._applied = np.asarray(applied, np.int64)[self._blocks]
        epochs_applied = self._applied // self._records
        self._first_epoch = int(epochs_applied.min())
        # Epochs of which something is done, and the one behind them, have an order of their own.
        # Each later one is whole, and its order a function of seed and epoch.
        begun = int(epochs_applied.max()) - self._first_epoch
        self._own_epochs = begun + 1 if begun else 0
        self._epoch_before = np.empty(0, np.int64)
        self._orders: list[np.ndarray] = []
        self._starts = [0]
        self._whole: dict[int, np.ndarray] = {}  # the epochs that were asked for last

    def __getitem__(self, position: int) -> BlockRange:
        """Returns the block range at `position`, however far."""
        while position >= self._starts[-1] and len(self._orders) < self._own_epochs:
            self._lay_out_next()
        if position < self._starts[-1]:
            index = bisect.bisect_right(self._starts, position) - 1
            epoch = self._first_epoch + index
            block = int(self._orders[index][position - self._starts[index]])
        else:
            later, at = divmod(position - self._starts[-1], len(self._records))
            epoch = self._first_epoch + len(self._orders) + later
            block = int(self._order_epoch(epoch)[at])
        done = int(self._applied[block] - epoch * self._records[block])
        return BlockRange(int(self._blocks[block]), epoch, max(0, done))

    def end_of(self, epochs: int) -> int:
        """Returns the position behind the block ranges of the first `epochs` epochs, counted from
        the beginning of training."""
        count = max(0, epochs - self._first_epoch)
        while len(self._orders) < min(count, self._own_epochs):
            self._lay_out_next()
        own = min(count, self._own_epochs)
        return self._starts[own] + (count - own) * len(self._records)

    def _order_epoch(self, epoch: int) -> np.ndarray:
        """Returns the order of a whole epoch. Readers go from one to the next, and for a while
        ask for both; few are kept, as each has an entry a block."""
        order = self._whole.get(epoch)
        if order is None:
            order = order_blocks(len(self._records), self._seed, epoch).astype(np.int32)
            self._whole[epoch] = order
            for old in list(self._whole)[:-_KEPT]:
                self._whole.pop(old, None)
        return order

    def count_left(self, block_range: BlockRange) -> int:
        """Returns how many records are to be read of a block range."""
        end = (
            int(self._sizes[block_range.block]) if block_range.until is None else block_range.until
        )
        return end - block_range.skip

    def _lay_out_next(self) -> None:
        """Appends the next epoch of which something may be done, or that comes behind such."""
        epoch = self._first_epoch + len(self._orders)
        order = order_blocks(len(self._records), self._seed, epoch)
        # Any blocks may be left of the epoch before. If they are its last, this changes nothing.
        order = move_behind(order, self._epoch_before)
        is_left = self._applied[order] < (epoch + 1) * self._records[order]
        done, left = order[~is_left], order[is_left]
        self._epoch_before = np.concatenate([done, left])
        self._orders.append(left)
        self._starts.append(self._starts[-1] + len(left))


@dataclasses.dataclass(frozen=True)
class Epoch:
    """What has become of the `due` records of one epoch; the other numbers add up to it.

    Applied `once`, or `more` often; `never`, although the reading has gone past them; `skipped`
    because they cannot be read; `left` to be read.
    """

    epoch: int
    due: int
    once: int
    more: int
    never: int
    skipped: int
    left: int

    @property
    def exact(self) -> bool:
        """True if every record there is has been applied exactly once."""
        return self.once + self.skipped == self.due


def build_ledger(blocks: Blocks, applied: np.ndarray, reached: np.ndarray) -> list[Epoch]:
    """Returns what has been trained on, by epoch; processes that do not wait for each other may
    have begun one before the one before is complete.

    Both arrays are `[blocks]`, over all epochs: how often records of a block were applied, and how
    many of them its reading is past. Where they differ, the difference counts in the epoch that
    the block is in, as records applied more than once or never.

    It takes time for each block and each epoch, not for each block in each epoch.
    """
    records = blocks.records
    applied, reached = np.asarray(applied, np.int64), np.asarray(reached, np.int64)
    epochs = max(int((-(-reached // records)).max(initial=0)), int(applied.any()))
    more = _spread_over_epochs(np.maximum(applied - reached, 0), reached, records, epochs=epochs)
    never = _spread_over_epochs(np.maximum(reached - applied, 0), reached, records, epochs=epochs)
    due = blocks.total_records
    bad = np.zeros(len(records), bool) if blocks.excluded is None else blocks.excluded
    behind = _count_unread(reached[~bad], records[~bad], epochs)
    skipped = _count_unread(reached[bad], records[bad], epochs)
    return [
        Epoch(
            epoch,
            due,
            due - behind[epoch] - skipped[epoch] - more[epoch] - never[epoch],
            more[epoch],
            never[epoch],
            skipped[epoch],
            behind[epoch],
        )
        for epoch in range(epochs)
    ]


def _count_unread(reached: np.ndarray, records: np.ndarray, epochs: int) -> list[int]:
    """Returns how many records of each epoch the reading of blocks is not past."""
    epoch, past = np.divmod(reached, records)  # the one each block is in, and how far
    # Of whole numbers below 2**53, which sums of them as floats are exact for.
    under_way = np.bincount(epoch, records - past, minlength=epochs)[:epochs]
    begun = np.bincount(epoch + 1, records, minlength=epochs)[:epochs].cumsum()
    return [int(number) for number in under_way + begun]


def count_records_past(reached: np.ndarray, records: np.ndarray, epoch: int) -> np.ndarray:
    """Returns how many of the `records` of each block lie behind, in one epoch."""
    return np.clip(reached - epoch * records, 0, records)


def _spread_over_epochs(
    amounts: np.ndarray, reached: np.ndarray, records: np.ndarray, *, epochs: int
) -> list[int]:
    """Spreads the amounts of blocks over epochs, from the one each is in backwards: no more than
    it is past there."""
    found = [0] * epochs
    some = np.flatnonzero(amounts)
    rest, reached, records = amounts[some], reached[some], records[some]
    for epoch in reversed(range(epochs)):
        if not rest.any():
            break
        here = np.minimum(rest, count_records_past(reached, records, epoch))
        found[epoch], rest = int(here.sum()), rest - here
    return found
