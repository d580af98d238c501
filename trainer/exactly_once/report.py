"""What a checkpoint says has been read: for `run.json`, for summaries, and for people."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from pipeline import config
from pipeline.cluster import topology
from pipeline.runs import losses
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import saved_counts
from trainer.input import epoch_order

_COLUMNS = ("epoch", "due", "once", "more", "never", "skipped", "left")
_WIDTH = 11
# From so many consecutive epochs with equal counts on, one line stands for most of them.
_ALIKE = 4
# The newest epochs, which files list one by one. A small data set soon has thousands.
_SINGLY = 1000
# Shards, and blocks of each, that are named at most.
_SHARDS, _BLOCKS = 10, 5


@dataclasses.dataclass(frozen=True)
class RecordUsage:
    """What has been read by the global step of a checkpoint: per epoch, and by each process.
    `dropped` records of these were not applied, as their gradients came late."""

    step: int
    epochs: list[epoch_order.Epoch]
    readers: dict[str, int]
    dropped: int = 0

    @property
    def rows(self) -> list[dict[str, int]]:
        """The epochs, for JSON; of very many the first ones are one row, with their sums."""
        return self.list_newest(_SINGLY)

    def list_newest(self, singly: int) -> list[dict[str, int]]:
        """Returns `singly` rows of the newest epochs after one with the sums of those before."""
        first, newest = self.epochs[:-singly], self.epochs[-singly:]
        if first:
            sums = {name: sum(getattr(epoch, name) for epoch in first) for name in _COLUMNS[1:]}
            newest = [epoch_order.Epoch(first[-1].epoch, **sums), *newest]
        return [dict(vars(epoch)) for epoch in newest]


def account(
    checkpoint: str, blocks: epoch_order.Blocks
) -> tuple[RecordUsage, saved_counts.SavedCounts]:
    """Returns what a checkpoint says. Raises `DataError` if it is of other records."""
    counts = saved_counts.read_counts(checkpoint, blocks)
    ranks = np.flatnonzero(counts.readers).tolist()
    readers = {_name_reader(rank): int(counts.readers[rank]) for rank in ranks}
    dropped = max(0, int(counts.readers.sum() - counts.applied.sum()))
    # Of which epochs those were that were dropped is not known.
    read = np.maximum(counts.applied, counts.reached) if dropped else counts.applied
    epochs = epoch_order.build_ledger(blocks, read, counts.reached)
    step = checkpoint_files.read_step(checkpoint)
    return RecordUsage(step, epochs, readers, dropped), counts


def _name_reader(rank: int) -> str:
    return f"{topology.WORKER}-{rank - 1}" if rank else f"{topology.CHIEF}-0"


def format_epoch(epoch: epoch_order.Epoch, cluster: config.Cluster) -> str:
    """Says what has become of an epoch."""
    backup = cluster.backup_workers
    done = "handed out" if backup else "applied"
    parts = [f"{epoch.once:,} of {epoch.due:,} records {done} once"]
    for number, what in (
        (epoch.more, "more than once"),
        (epoch.never, "never"),
        (epoch.skipped, "skipped as unreadable"),
        (epoch.left, "left unread"),
    ):
        parts += [f"{number:,} {what}"] if number else []
    late = f"; late gradients are dropped (cluster.backup_workers={backup})" if backup else ""
    return f"epoch {epoch.epoch}: {', '.join(parts)}{late}"


def format_table(found: RecordUsage, dropped: str | None = None) -> Iterator[str]:
    """Yields the account as text, a line an epoch and one for all; of many epochs in a row that
    say the same, the first and the last. `dropped` is what `describe_dropped` says."""
    yield "".join(f"{name:>{_WIDTH}}" for name in _COLUMNS)
    rows = [[getattr(epoch, name) for name in _COLUMNS] for epoch in found.epochs]
    for _, alike in itertools.groupby(rows, key=lambda row: row[1:]):
        first, *between = alike
        yield _format_cells(first)
        if len(between) >= _ALIKE - 1:
            exact = first[1] == first[2] and not any(first[3:])
            what = "all exactly once" if exact else "all the same"
            yield f"{'...':>{_WIDTH}}{'':{_WIDTH - 3}}{len(between) - 1:,} more, {what}"
            between = between[-1:]
        yield from map(_format_cells, between)
    total = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    yield f"{'all':>{_WIDTH}}" + _format_cells(total or [0] * len(_COLUMNS[1:]))
    shares = ", ".join(f"{name} {records:,}" for name, records in found.readers.items())
    done = "handed out to" if dropped else "applied by"
    yield f"{done} {shares}" if shares else "nothing has been applied yet"


def _format_cells(numbers: list[int]) -> str:
    return "".join(f"{number:>{_WIDTH},}" for number in numbers)


def describe_dropped(cluster: config.Cluster, dropped: int) -> str | None:
    """Returns what has become of gradients that came late, of so many records; `None` if each step
    waits for all."""
    if not cluster.backup_workers:
        return None
    used = topology.replicas_in_step(cluster)
    return (
        f"{dropped:,} of the records handed out were not applied: each step applied the first "
        f"{used} of {used + cluster.backup_workers} gradients and dropped the rest "
        f"(cluster.backup_workers={cluster.backup_workers})"
    )


def list_not_counted(found: losses.Losses) -> Iterator[str]:
    """Yields what the ledger cannot show of a run with such losses, in launches whose processes
    stepped each by itself, or may have."""
    what = [
        f"{count:,} {one if count == 1 else several}"
        for count, one, several in (
            (found.restarts, "restart", "restarts"),
            (
                found.cut_off,
                "earlier launch that was cut off",
                "earlier launches that were cut off",
            ),
        )
        if count
    ]
    what += ["launches that run.json does not tell of"] if found.unrecorded else []
    if what:
        yield (
            f"{' and '.join(what)}: a process that was killed may have applied its batch in flight "
            "without counting it; a chief or ps, those of all processes since a save began. Then "
            "these were applied twice"
        )
    if found.fell_back:
        often = "once" if found.fell_back == 1 else f"{found.fell_back:,} times"
        yield (
            f"training fell back to an older checkpoint {often}: one that was saved while others "
            "stepped may hold batches that it does not count, and then these were applied twice"
        )


def find_troubles(
    blocks: epoch_order.Blocks, counts: saved_counts.SavedCounts, dropped: str | None = None
) -> Iterator[str]:
    """Yields which shards and blocks are not exactly once in what has been read of them, and which
    have more than an epoch less behind them than others; a bounded number of lines. The last is
    what `describe_dropped` says."""
    excess, epochs = counts.applied - counts.reached, counts.reached // blocks.records
    left_out = 0
    if dropped:
        # What is missing of a block may have been dropped, but was handed out to a reader.
        excess = np.maximum(excess, 0)
        left_out = int(counts.reached.sum() + excess.sum() - counts.readers.sum())
    behind = epochs < epochs.max(initial=0) - 1
    if blocks.excluded is not None:
        behind &= ~blocks.excluded
    shards = np.unique(blocks.shard[(excess != 0) | behind]).tolist()
    done = "handed out" if dropped else "applied"
    if not shards and left_out <= 0:
        yield f"every record that has been read was {done} exactly once"
    for shard in shards[:_SHARDS]:
        of_shard = np.flatnonzero(blocks.shard == shard)
        wrong = of_shard[(excess != 0)[of_shard] | behind[of_shard]]
        named = [
            f"block {block} at byte {blocks.offset[block]}: "
            f"{_describe_error(excess[block], epochs[block], done)}"
            for block in wrong[:_BLOCKS]
        ]
        more = [f"{len(wrong) - _BLOCKS:,} more blocks"] if len(wrong) > _BLOCKS else []
        yield f"{blocks.paths[shard]}: {'; '.join([*named, *more])}"
    if len(shards) > _SHARDS:
        yield f"{len(shards) - _SHARDS:,} more shards"
    if left_out > 0:
        yield f"{left_out:,} records left out; of which blocks is not known"
    if dropped:
        yield dropped


def _describe_error(excess: int, epochs: int, done: str) -> str:
    if not excess:
        return f"epoch {epochs} not read to its end"
    return f"{abs(excess):,} records {f'{done} again' if excess > 0 else 'left out'}"
