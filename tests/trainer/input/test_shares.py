"""What readers that step together read: each its share, and the last epoch to its end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.input import epoch_order, shares, window_feed


def _blocks_of(records):
    zeros = np.zeros(len(records), np.int64)
    return epoch_order.Blocks(("a",), zeros, zeros, np.array(records))


BLOCKS = _blocks_of([8, 3, 8])


def test_readers_share_the_backlog():
    """Each block range is the next of one of them, of the one that has had the fewest records."""
    schedule = epoch_order.BlockSchedule(BLOCKS, 1, np.array([4, 0, 0]))
    dealt = [shares.assign(schedule, rank, 2) for rank in range(2)]
    had = [0, 0]
    for position in range(50):
        rank = had.index(min(had))
        block_range = next(dealt[rank])
        assert block_range == schedule[position]
        had[rank] += int(BLOCKS.records[block_range.block]) - block_range.skip


@pytest.mark.parametrize("readers", [2, 3])
def test_readers_that_step_together_stay_together(readers):
    """However uneven the blocks: no reader begins an epoch more than one before another."""
    records = np.array([8, 8, 8, 1] * 15)
    blocks = epoch_order.Blocks(("a",), np.zeros(60, np.int64), np.zeros(60, np.int64), records)
    schedule = epoch_order.BlockSchedule(blocks, 1, np.zeros(60))
    dealt = [shares.assign(schedule, rank, readers) for rank in range(readers)]
    under_way = [next(block_ranges) for block_ranges in dealt]
    left = [records[block_range.block] for block_range in under_way]
    while under_way[0].epoch < 200:
        assert len({block_range.block for block_range in under_way}) == readers
        step = min(left)
        left = [records_left - step for records_left in left]
        for rank in range(readers):
            if not left[rank]:
                under_way[rank] = next(dealt[rank])
                left[rank] = records[under_way[rank].block]
        epochs = [block_range.epoch for block_range in under_way]
        assert max(epochs) - min(epochs) <= 1


class _Reader:
    """The pipeline of one reader, without its files."""

    def __init__(self, blocks, schedule, rank, readers, number, end):
        feed = window_feed.Feed(blocks, 1, number)
        feed.begin(lambda: shares.assign(schedule, rank, readers, end=end))
        self.windows, self.read = feed.read_windows(), []

    def batch(self, size):
        while len(self.read) < size:
            self.read += next(self.windows).marks.tolist()
        found, self.read = self.read[:size], self.read[size:]
        return found


def _train(blocks, reached, readers, batch_size, epochs, wanted=4096):
    """Yields after each step how often each record was applied, until `epochs` are read, by place:
    an array for each block."""
    schedule = epoch_order.BlockSchedule(blocks, 1, reached)
    left = int(np.maximum(epochs * blocks.records - reached, 0).sum())
    end = shares.End(left, int(blocks.records.max()), batch_size)
    number = epoch_order.open_blocks(blocks, wanted, readers)
    made = [_Reader(blocks, schedule, rank, readers, number, end) for rank in range(readers)]
    applied = [np.zeros((epochs + 2) * records, np.int64) for records in blocks.records]
    for block, far in enumerate(reached.tolist()):
        applied[block][:far] = 1
    for _ in range(-(-left // (readers * batch_size))):
        for reader in made:
            for block, _, place in reader.batch(batch_size):
                applied[block][place - 1] += 1
        yield applied


MANY = st.lists(st.integers(1, 40), min_size=15, max_size=60)


@given(MANY, st.integers(2, 4), st.integers(1, 24), st.integers(1, 4), st.data())
@settings(max_examples=40, deadline=None)
def test_the_last_epoch_is_read_to_its_end_by_the_last_step(records, readers, size, epochs, data):
    """However uneven the blocks, and wherever training resumes."""
    blocks = _blocks_of(records)
    done = data.draw(st.integers(0, len(records)))
    first = epoch_order.order_blocks(len(records), 1, 0)[:done]
    reached = np.zeros(len(records), np.int64)
    reached[first] = blocks.records[first]
    *_, applied = [blocks.records, *_train(blocks, reached, readers, size, epochs)]
    if not (reached < epochs * blocks.records).any():
        return
    filled = 0
    for of_block, number in zip(applied, records, strict=True):
        assert (of_block[: epochs * number] == 1).all()
        filled += int(of_block[epochs * number :].sum())
    assert filled < readers * size


@given(MANY, st.integers(2, 4), st.integers(1, 24))
@settings(max_examples=8, deadline=None)
def test_after_each_step_a_block_is_read_up_to_one_place(records, readers, size):
    """What a checkpoint counts is a number, so nothing before it may be left out."""
    # Large epochs, in which readers keep apart by themselves.
    blocks = _blocks_of(records * 4)
    reached = np.zeros(len(records) * 4, np.int64)
    for applied in _train(blocks, reached, readers, size, 2, wanted=1):
        for of_block in applied:
            assert (np.diff(of_block) <= 0).all()


@pytest.mark.parametrize("readers", [2, 3])
def test_without_an_end_and_alone_there_is_nothing_but_block_ranges(readers):
    schedule = epoch_order.BlockSchedule(BLOCKS, 1, np.zeros(3, np.int64))
    end = shares.End(19, 8, 4)
    alone = shares.assign(schedule, 0, 1, end=end)
    assert [next(alone) for _ in range(9)] == [schedule[n] for n in range(9)]
    assert None not in itertools.islice(shares.assign(schedule, 1, readers), 50)


def test_as_many_readers_as_blocks_come_to_the_end():
    blocks = _blocks_of([40, 3, 17])
    for epochs in (1, 2, 3):
        *_, applied = _train(blocks, np.zeros(3, np.int64), 3, 7, epochs)
        for of_block, number in zip(applied, blocks.records, strict=True):
            assert (of_block[: epochs * number] == 1).all(), epochs
