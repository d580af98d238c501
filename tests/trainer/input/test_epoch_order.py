"""The order of reading, held for any number of blocks, readers, seeds and epochs."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.records import manifest
from trainer.input import epoch_order, shares

SEEDS = st.integers(0, 2**63)
EPOCHS = st.integers(0, 10**6)
# As preprocessing makes them: all blocks of a shard are full but its last.
BLOCK = 8
SHARDS = st.lists(st.integers(1, 5 * BLOCK), min_size=1, max_size=6)
# Blocks that cannot be read; the first one can.
EXCLUDED = st.sets(st.integers(1, 29))


def _split(shard_records: list[int]) -> manifest.Split:
    shards = tuple(
        manifest.Shard(
            path=f"shard-{index}",
            records=records,
            bytes=records * 10,
            crc32c="",
            blocks=tuple(range(0, records * 10, BLOCK * 10)),
        )
        for index, records in enumerate(shard_records)
    )
    return manifest.Split(records=sum(shard_records), shards=shards)


def _blocks(shard_records: list[int], excluded: Iterable[int] = ()) -> epoch_order.Blocks:
    paths = [f"folder/shard-{index}" for index in range(len(shard_records))]
    return epoch_order.list_split_blocks(_split(shard_records), BLOCK, paths, excluded=excluded)


def test_blocks_are_those_of_the_manifest():
    blocks = _blocks([20, 8, 3])
    assert blocks.paths == ("folder/shard-0", "folder/shard-1", "folder/shard-2")
    assert blocks.shard.tolist() == [0, 0, 0, 1, 2]
    assert blocks.offset.tolist() == [0, 80, 160, 0, 0]
    assert blocks.records.tolist() == [8, 8, 4, 8, 3]
    assert blocks.total_records == 31


def test_an_empty_shard_has_no_blocks():
    assert _blocks([8, 0, 3]).shard.tolist() == [0, 2]


def test_blocks_are_known_by_their_records_and_not_by_where_they_lie():
    split = _split([20, 8, 3])
    elsewhere = [shard.model_copy(update={"path": "else"}) for shard in split.shards]
    altered = [*split.shards[:2], split.shards[2].model_copy(update={"crc32c": "other"})]
    same, moved, other = (
        epoch_order.list_split_blocks(
            split.model_copy(update={"shards": tuple(shards)}), BLOCK, ["a"] * 3
        )
        for shards in (split.shards, elsewhere, altered)
    )
    assert same.identity == moved.identity != other.identity
    assert 0 < same.identity < 2**60


@given(st.integers(1, 200), SEEDS, EPOCHS)
def test_each_epoch_is_a_permutation(blocks, seed, epoch):
    found = epoch_order.order_blocks(blocks, seed, epoch)
    assert found.dtype == np.int64
    assert sorted(found.tolist()) == list(range(blocks))
    assert found.tolist() == epoch_order.order_blocks(blocks, seed, epoch).tolist()


def test_order_changes_with_epoch_and_seed_only():
    orders = {
        tuple(epoch_order.order_blocks(50, seed, epoch))
        for seed in range(20)
        for epoch in range(20)
    }
    assert len(orders) == 400


def test_order_is_the_same_on_every_version():
    """A run that is resumed after an upgrade must keep the order."""
    assert epoch_order.order_blocks(10, 1, 0).tolist() == [6, 0, 7, 9, 4, 1, 8, 5, 2, 3]
    assert epoch_order.order_blocks(10, 1, 1).tolist() == [7, 0, 9, 1, 2, 3, 4, 6, 8, 5]


def _read(blocks, seed, applied, block_ranges):
    """Applies the first `block_ranges` of the schedule, whole, and returns the counts after."""
    schedule = epoch_order.BlockSchedule(blocks, seed, applied)
    counts = np.array(applied, np.int64)
    for position in range(block_ranges):
        block_range = schedule[position]
        counts[block_range.block] += blocks.records[block_range.block] - block_range.skip
    return counts


@given(SHARDS, SEEDS, st.integers(0, 60))
def test_a_backlog_begins_with_whole_epochs_in_their_order(shards, seed, position):
    blocks = _blocks(shards)
    epoch, at = divmod(position, len(blocks.records))
    block = epoch_order.order_blocks(len(blocks.records), seed, epoch)[at]
    schedule = epoch_order.BlockSchedule(blocks, seed, np.zeros(len(blocks.records)))
    assert schedule[position] == epoch_order.BlockRange(block, epoch, 0)


@given(SHARDS, SEEDS, st.data())
def test_what_is_left_of_an_epoch_completes_it(shards, seed, data):
    """From any counts: everything left of the epoch comes first, and nothing else of it."""
    blocks = _blocks(shards)
    epochs = data.draw(st.integers(0, 2))
    part = [data.draw(st.integers(0, int(n))) for n in blocks.records]
    applied = epochs * blocks.records + np.array(part)
    first = int((applied // blocks.records).min())
    left = int((applied < (first + 1) * blocks.records).sum())
    counts = _read(blocks, seed, applied, left)
    assert (counts == np.maximum(applied, (first + 1) * blocks.records)).all()


@given(SHARDS, SEEDS, st.integers(0, 40), st.integers(0, 40), EXCLUDED)
@example([1, 9, 25, 25, 25, 33], 1, 13, 14, set())
def test_stopping_in_between_changes_nothing(shards, seed, before, after, excluded):
    blocks = _blocks(shards, excluded)
    nothing = np.zeros(len(blocks.records), np.int64)
    at_once = epoch_order.BlockSchedule(blocks, seed, nothing)
    gone_on = epoch_order.BlockSchedule(blocks, seed, _read(blocks, seed, nothing, before))
    for position in range(after):
        assert gone_on[position] == at_once[before + position]


def _chained(blocks, seed, applied, laps):
    """The blocks of the next epochs, each laid out behind the one before, as all once were."""
    number = len(blocks.records)
    epoch = int((applied // blocks.records).min())
    before, found = np.empty(0, np.int64), []
    for lap in range(epoch, epoch + laps):
        expected = epoch_order.move_behind(epoch_order.order_blocks(number, seed, lap), before)
        is_left = applied[expected] < (lap + 1) * blocks.records[expected]
        before = np.concatenate([expected[~is_left], expected[is_left]])
        found += [(int(block), lap) for block in expected[is_left]]
    return found


@given(SHARDS, SEEDS, st.data())
def test_the_order_of_an_epoch_does_not_depend_on_what_was_asked_for_before(shards, seed, data):
    blocks = _blocks(shards)
    applied = np.array([data.draw(st.integers(0, 3 * int(n))) for n in blocks.records])
    expected = _chained(blocks, seed, applied, 8)
    asked = data.draw(st.lists(st.integers(0, len(expected) - 1)))
    schedule = epoch_order.BlockSchedule(blocks, seed, applied)
    for position in (*asked, *range(len(expected)), *asked):
        block_range = schedule[position]
        assert (block_range.block, block_range.epoch) == expected[position]


def test_memory_does_not_grow_with_the_epochs():
    number = 10_000
    zeros = np.zeros(number, np.int64)
    schedule = epoch_order.BlockSchedule(
        epoch_order.Blocks(("a",), zeros, zeros, zeros + 8), 1, zeros
    )
    tracemalloc.start()
    try:
        for epoch in range(100):
            schedule[epoch * number]
        assert tracemalloc.get_traced_memory()[0] < 10 * 8 * number
    finally:
        tracemalloc.stop()


@given(SHARDS, SEEDS, EXCLUDED, st.data())
def test_blocks_that_cannot_be_read_are_as_if_there_were_none(shards, seed, excluded, data):
    blocks = _blocks(shards, excluded)
    kept = np.array([n for n in range(len(blocks.records)) if n not in excluded])
    others = dataclasses.replace(
        blocks,
        excluded=None,
        **{name: getattr(blocks, name)[kept] for name in ("shard", "offset", "records")},
    )
    applied = np.array([data.draw(st.integers(0, 2 * int(n))) for n in blocks.records])
    found = epoch_order.BlockSchedule(blocks, seed, applied)
    expected = epoch_order.BlockSchedule(others, seed, applied[kept])
    for position in range(3 * len(kept)):
        block_range = expected[position]
        assert found[position] == dataclasses.replace(block_range, block=kept[block_range.block])
    for readers in (1, 2):
        assert epoch_order.open_blocks(blocks, 16, readers) == epoch_order.open_blocks(
            others, 16, readers
        )


@given(SHARDS, SEEDS, st.integers(0, 60))
def test_the_ledger_of_what_was_read_in_order_is_exact(shards, seed, block_ranges):
    blocks = _blocks(shards)
    read = _read(blocks, seed, np.zeros(len(blocks.records), np.int64), block_ranges)
    rows = epoch_order.build_ledger(blocks, read, read)
    assert sum(row.once for row in rows) == read.sum()
    assert [row.epoch for row in rows] == list(range(-(-block_ranges // len(blocks.records))))
    assert all(row.once + row.left == row.due == blocks.total_records for row in rows)
    assert all(row.more == row.never == row.skipped == 0 for row in rows)
    assert all(row.exact for row in rows[:-1])


@given(SHARDS, st.data())
def test_every_record_due_is_in_one_column_of_the_ledger(shards, data):
    """Whatever the counts say."""
    blocks = _blocks(shards)
    reached = np.array([data.draw(st.integers(0, 3 * int(n))) for n in blocks.records])
    applied = np.array([data.draw(st.integers(0, 3 * int(n))) for n in blocks.records])
    rows = epoch_order.build_ledger(blocks, applied, reached)
    assert all(r.once + r.more + r.never + r.skipped + r.left == r.due for r in rows)
    assert all(min(r.once, r.more, r.never, r.skipped, r.left) >= 0 for r in rows)
    assert sum(row.left for row in rows) == len(rows) * blocks.total_records - reached.sum()


@given(SHARDS, st.sets(st.integers(0, 3)), st.data())
def test_the_ledger_is_that_of_looking_at_each_block_in_each_epoch(shards, excluded, data):
    blocks = _blocks(shards, excluded)
    reached = np.array([data.draw(st.integers(0, 5 * int(n))) for n in blocks.records])
    applied = reached + np.array([data.draw(st.integers(-7, 7)) for _ in reached])
    bad = ~blocks.due.astype(bool)
    for row in epoch_order.build_ledger(blocks, np.maximum(applied, 0), reached):
        past = np.clip(reached - row.epoch * blocks.records, 0, blocks.records)
        unread = blocks.records - past
        assert (row.left, row.skipped) == (unread[~bad].sum(), unread[bad].sum())
        assert row.once + row.more + row.never == past.sum()


def test_a_ledger_of_many_blocks_and_epochs_looks_at_each_block_a_few_times(monkeypatch):
    """Two of a million blocks have been read again, in the tenth of a thousand epochs."""
    records = np.full(1_000_000, 256)
    blocks = epoch_order.Blocks(("a",), records * 0, records * 0, records)
    reached = records * 999 + np.arange(1_000_000) % 256
    applied = reached + np.where(np.arange(1_000_000) < 2, 5, 0)
    looked = []
    past = epoch_order.count_records_past
    monkeypatch.setattr(
        epoch_order,
        "count_records_past",
        lambda *given: (looked.append(given[0].size), past(*given))[1],
    )
    rows = epoch_order.build_ledger(blocks, applied, reached)
    assert len(rows) == 1000
    assert sum(row.more for row in rows) == 10
    assert sum(looked) <= 2 * 1000


@pytest.mark.parametrize(
    ("applied", "reached", "row"),
    [
        # The first block is in its third epoch; three of its records there were read twice.
        ((31, 12, 8), (28, 12, 8), epoch_order.Epoch(2, 32, 1, 3, 0, 0, 28)),
        # Of the last block two were left out.
        ((12, 12, 6), (12, 12, 8), epoch_order.Epoch(0, 32, 30, 0, 2, 0, 0)),
        # Five of the second: three it is past in the second epoch, and two in the first.
        ((12, 10, 8), (12, 15, 8), epoch_order.Epoch(1, 32, 0, 0, 3, 0, 29)),
        ((12, 10, 8), (12, 15, 8), epoch_order.Epoch(0, 32, 30, 0, 2, 0, 0)),
    ],
)
def test_the_ledger_books_what_was_read_again_or_left_out(applied, reached, row):
    blocks = epoch_order.Blocks(("a",), np.zeros(3), np.zeros(3), np.array([12, 12, 8]))
    assert epoch_order.build_ledger(blocks, np.array(applied), np.array(reached))[row.epoch] == row


@given(st.integers(1, 200), SEEDS, st.integers(0, 10**6))
def test_a_block_has_its_next_turn_much_later(blocks, seed, epoch):
    both = [
        *epoch_order.order_blocks(blocks, seed, epoch),
        *epoch_order.order_blocks(blocks, seed, epoch + 1),
    ]
    turns = {block: [at for at, b in enumerate(both) if b == block] for block in range(blocks)}
    assert all(
        second - first >= epoch_order.compute_distance(blocks) for first, second in turns.values()
    )


@given(SHARDS, SEEDS, st.data())
def test_blocks_stay_apart_when_an_epoch_is_resumed(shards, seed, data):
    """What was read until then are the first blocks of the epoch, the newest of them in part."""
    blocks = _blocks(shards)
    number = len(blocks.records)
    fresh = epoch_order.order_blocks(number, seed, 0)
    begun = data.draw(st.integers(0, number))
    whole = max(0, begun - epoch_order.compute_distance(number))
    applied = np.zeros(number, np.int64)
    applied[fresh[:whole]] = blocks.records[fresh[:whole]]
    schedule = epoch_order.BlockSchedule(blocks, seed, applied)
    ahead = [schedule[position].block for position in range(2 * number)]
    for position in range(number):
        assert (
            ahead[position]
            not in ahead[position + 1 : position + epoch_order.compute_distance(number)]
        )


@given(st.integers(1, 200), SEEDS, st.data())
def test_blocks_stay_apart_whichever_are_left_of_an_epoch(number, seed, data):
    """A reader that mixed all of them leaves a part of any."""
    blocks = _blocks([8 * number])
    done = np.array([data.draw(st.booleans()) for _ in range(number)])
    schedule = epoch_order.BlockSchedule(blocks, seed, np.where(done, 8, 0))
    left = number - int(done.sum()) or number
    ahead = [schedule[position].block for position in range(left + number)]
    for position in range(left):
        assert (
            ahead[position]
            not in ahead[position + 1 : position + epoch_order.compute_distance(number)]
        )


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=60), st.integers(1, 3), st.integers(1, 20)
)
def test_readers_that_keep_pace_have_each_block_open_once(records, readers, wanted):
    """Each takes its share of the block ranges, and mixes some; any may be the last to be read."""
    zeros = np.zeros(len(records), np.int64)
    blocks = epoch_order.Blocks(("a",), zeros, zeros, np.array(records))
    number = epoch_order.open_blocks(blocks, wanted, readers)
    assert 1 <= number <= wanted
    if number == 1 or readers == 1:
        return  # as few as can be; or one after the other
    schedule = epoch_order.BlockSchedule(blocks, 1, zeros)
    block_ranges = [_windows(schedule, rank, readers, number) for rank in range(readers)]
    opened: list[dict[int, int]] = [{} for _ in range(readers)]
    for _ in range(60):
        for rank in range(readers):
            if not opened[rank]:
                window = next(block_ranges[rank])
                assert not {b for of_one in opened for b in of_one} & set(window)
                opened[rank] = {block: records[block] for block in window}
        # As many records as complete a window; all of its blocks are open until then.
        step = min(sum(of_one.values()) for of_one in opened)
        for of_one in opened:
            _apply(of_one, step)


def _windows(schedule, rank, readers, number):
    """What a reader mixes at once, `number` blocks at most, of one epoch."""
    window: list[epoch_order.BlockRange] = []
    for block_range in shares.assign(schedule, rank, readers):
        if window and (len(window) == number or block_range.epoch != window[0].epoch):
            yield [p.block for p in window]
            window = []
        window.append(block_range)


def _apply(opened, records):
    """Counts records off, all blocks staying open as long as there are any."""
    if records == sum(opened.values()):
        opened.clear()
    while records:
        block = max(opened, key=opened.get)
        opened[block] -= 1
        records -= 1


def test_as_many_blocks_are_mixed_as_wanted_if_there_are_enough():
    blocks = _blocks([8 * 300])
    assert [epoch_order.open_blocks(blocks, 16, readers) for readers in (1, 2, 10, 100)] == [
        16,
        15,
        6,
        1,
    ]
    assert epoch_order.open_blocks(blocks, 4, 2) == 4


def test_a_reader_on_its_own_mixes_an_epoch_or_even_parts_of_it():
    assert epoch_order.open_blocks(_blocks([8 * 300]), 4096, 1) == 300
    assert epoch_order.open_blocks(_blocks([8 * 300]), 299, 1) == 150
    assert epoch_order.open_blocks(_blocks([8 * 300]), 140, 1) == 100


def test_no_more_is_mixed_than_fits_into_memory():
    blocks = _blocks([8 * 300])
    assert blocks.longest == 80
    large = dataclasses.replace(blocks, bytes=np.array([80, 1 << 20]))
    assert epoch_order.open_blocks(large, 4096, 1) == 60  # five times, of at most 64 MiB
    huge = dataclasses.replace(blocks, bytes=np.array([1 << 30]))
    assert epoch_order.open_blocks(huge, 4096, 1) == 1


def test_a_thousand_workers_and_a_million_blocks_are_planned_at_once():
    """10^9 records; the order of a far epoch costs no more than that of the first."""
    records = np.full(1_000_000, 1000, np.int64)
    zeros = np.zeros(len(records), np.int64)
    blocks = epoch_order.Blocks(("a",), zeros, zeros, records)
    schedule = epoch_order.BlockSchedule(blocks, 1, 5000 * records)
    assert schedule[999].epoch == 5000
    assert schedule[1_000_999].epoch == 5001
