"""What a reader holds: enough, and no more than it has room for."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.exactly_once import assignments
from trainer.input import epoch_order, window_feed

BATCH, OPEN = 8, 4


def _blocks(records):
    zeros = np.zeros(len(records), np.int64)
    return epoch_order.Blocks(("a",), zeros, zeros, np.array(records))


def _holdings(records=(8,) * 20, in_turn=True):
    blocks = _blocks(records)
    schedule = epoch_order.BlockSchedule(blocks, 1, np.zeros(len(records), np.int64))
    size = assignments.compute_sizes(blocks.records, BATCH, OPEN)
    made = assignments.Assignments(schedule, blocks.records, BATCH, size=size, in_turn=in_turn)
    return made, schedule


def _add(held, positions, reached=None):
    held.add(positions)
    reached = np.zeros(40, np.int64) if reached is None else reached
    held.release(reached[held.waiting_blocks])


def test_before_it_begins_it_holds_what_is_mixed_first():
    held, schedule = _holdings()
    positions = itertools.count()
    while held.wants_more:
        _add(held, [next(positions)])
    assert held.positions == [0, 1, 2, 3]
    block_ranges = held.take_block_ranges()
    assert [next(block_ranges) for _ in range(5)] == [*(schedule[n] for n in range(4)), None]
    _add(held, [7])
    assert [next(block_ranges), next(block_ranges)] == [schedule[7], None]


def test_the_last_of_several_pipelines_continues():
    held, schedule = _holdings()
    _add(held, [0, 1])
    dropped, kept = held.take_block_ranges(), held.take_block_ranges()
    assert [next(dropped) for _ in range(3)] == [schedule[0], schedule[1], None]
    assert [next(kept) for _ in range(3)] == [schedule[0], schedule[1], None]
    _add(held, [2])
    assert [next(dropped), next(kept)] == [None, schedule[2]]


def test_it_wants_more_when_little_is_waiting_or_left_to_apply():
    held, schedule = _holdings()
    _add(held, range(5))
    assert not held.wants_more
    block_ranges = held.take_block_ranges()
    assert [next(block_ranges) for _ in range(2)] == [schedule[0], schedule[1]]
    assert held.wants_more, "fewer are ready than are mixed"
    _add(held, [5])
    assert not held.wants_more
    held.count_applied_batch()
    held.count_applied_batch()
    assert not held.wants_more
    held.count_applied_batch()
    assert held.wants_more, "fewer than four batches are left"
    held.count_applied_batch()
    held.count_applied_batch()
    assert not held.lacks_a_batch
    held.count_applied_batch()
    assert held.lacks_a_batch


def test_blocks_that_others_have_begun_are_continued():
    held, schedule = _holdings()
    blocks = [schedule[n].block for n in range(3)]
    reached = np.zeros(20, np.int64)
    reached[blocks[0]], reached[blocks[1]] = 8, 3
    _add(held, range(3), reached)
    assert held.positions == [1, 2]
    block_ranges = held.take_block_ranges()
    assert next(block_ranges) == epoch_order.BlockRange(blocks[1], 0, 3)
    assert next(block_ranges) == epoch_order.BlockRange(blocks[2], 0, 0)


def test_a_block_waits_until_its_epoch_before_is_done():
    """Another reader reads it, slowly."""
    held, schedule = _holdings()
    second = schedule[20]
    reached = np.full(40, 8)
    reached[second.block] = 7
    _add(held, [20, 21], reached)
    assert held.positions == [21, 20]
    assert held.waiting_blocks == [second.block]
    block_ranges = held.take_block_ranges()
    assert [next(block_ranges), next(block_ranges)] == [schedule[21], None]
    held.release(np.array([8]))
    assert [next(block_ranges), next(block_ranges)] == [second, None]


def test_in_synchronous_modes_nothing_waits():
    """Its reader would wait for this one to make the step."""
    held, schedule = _holdings(in_turn=False)
    _add(held, [20])
    assert held.waiting_blocks == []
    assert next(held.take_block_ranges()) == schedule[20]


def test_what_has_been_applied_whole_is_let_go():
    held, _ = _holdings()
    _add(held, [0, 1, 2])
    held.drop_applied(np.array([8, 7, 16]))
    assert held.positions == [1]
    assert len(held.ready_blocks) == 1


@pytest.mark.parametrize("nearly_done", [False, True])
@pytest.mark.parametrize("open_blocks", [1, 3, 16])
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
@settings(max_examples=40)
def test_there_is_always_room_for_the_next_batch(open_blocks, nearly_done, records):
    """Whatever the blocks: a step that lacks records would wait for ever.

    The pipeline here mixes what it can, reads ahead, and applies a batch a step. The last of each
    block come last, so that as many are begun and not done as can be.
    """
    blocks = _blocks(records)
    size = assignments.compute_sizes(blocks.records, BATCH, open_blocks)
    reached = blocks.records - 1 if nearly_done else np.zeros(len(records), np.int64)
    schedule = epoch_order.BlockSchedule(blocks, 1, reached)
    held = assignments.Assignments(schedule, blocks.records, BATCH, size=size, in_turn=False)
    positions, read = itertools.count(), []
    window: list[int] = []

    def refill():
        while held.wants_more:
            if held.full:
                held.drop_applied(reached[held.ready_blocks])
            assert not held.full
            _add(held, [next(positions)], reached)

    refill()
    block_ranges = held.take_block_ranges()
    for _ in range(60):
        while len(read) < 3 * BATCH:
            if not window:
                mixed = [
                    block_range
                    for _ in range(open_blocks)
                    if (block_range := next(block_ranges)) is not None
                ]
                left = [
                    int(blocks.records[block_range.block]) - block_range.skip
                    for block_range in mixed
                ]
                early = [[p.block] * (n - 1) for p, n in zip(mixed, left, strict=True)]
                window = [*itertools.chain(*early), *(block_range.block for block_range in mixed)]
            if not window:
                break
            read.append(window.pop(0))
        assert len(read) >= BATCH
        for block in read[:BATCH]:
            reached[block] += 1
        del read[:BATCH]
        held.count_applied_batch()
        refill()


class _Reader:
    """One of several readers of a schedule, with a pipeline that reads ahead of its steps."""

    def __init__(self, shared, blocks, number, in_turn, epochs=None):
        self.shared, schedule = (
            shared,
            epoch_order.BlockSchedule(blocks, 1, np.zeros(len(blocks.records))),
        )
        size = assignments.compute_sizes(blocks.records, BATCH, number)
        self.held = assignments.Assignments(
            schedule,
            blocks.records,
            BATCH,
            size=size,
            in_turn=in_turn,
            end=None if epochs is None else schedule.end_of(epochs),
        )
        self.chunk, self.read, self.gave_up = size.chunk, [], False
        feed = window_feed.Feed(blocks, 1, number)
        feed.begin(self.held.take_block_ranges)
        self.windows = feed.read_windows()

    def may_step(self):
        """Takes what it needs; false if it has to wait for others."""
        held, shared = self.held, self.shared
        while held.wants_more:
            if held.full:
                held.drop_applied(shared.reached[held.ready_blocks])
            if held.exhausted:
                return not held.lacks_a_batch
            if held.full:
                held.release(shared.reached[held.waiting_blocks])
                return not held.lacks_a_batch
            held.add(next(shared.positions) for _ in range(self.chunk))
            held.release(shared.reached[held.waiting_blocks])
        return True

    def step(self):
        while len(self.read) < 3 * BATCH and len(marks := next(self.windows).marks):
            self.read += marks.tolist()
        for block, _, place in self.read[:BATCH]:
            assert place == self.shared.reached[block] + 1 or not self.shared.in_turn
            self.shared.reached[block] = max(place, self.shared.reached[block])
            self.shared.applied[block] += 1
        assert len(self.read) >= BATCH
        del self.read[:BATCH]
        self.held.count_applied_batch()


class _Shared:
    def __init__(self, blocks, readers, epochs=None):
        number = epoch_order.open_blocks(blocks, 4096, 3 * readers)
        self.in_turn = assignments.can_take_turns(
            blocks.records, BATCH, number, num_readers=readers
        )
        self.positions = itertools.count()
        self.reached, self.applied = np.zeros((2, len(blocks.records)), np.int64)
        self.readers = [_Reader(self, blocks, number, self.in_turn, epochs) for _ in range(readers)]


@given(
    st.lists(st.integers(1, 40), min_size=3, max_size=60),
    st.integers(2, 3),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60)
def test_however_slow_some_are_there_is_always_one_that_need_not_wait(records, readers, random):
    """And readers that take turns continue behind what any of them has applied."""
    blocks = _blocks(records)
    shared = _Shared(blocks, readers)
    for _ in range(150):
        slow = shared.readers[random.randrange(readers)]
        ways = sorted(shared.readers, key=lambda one: random.random() + (one is slow))
        turn = next((one for one in ways if one.may_step()), None)
        assert turn is not None, "all wait for each other"
        turn.step()
    if shared.in_turn:
        assert (shared.applied == shared.reached).all()


@given(
    st.lists(st.integers(1, 40), min_size=3, max_size=60),
    st.integers(2, 3),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_the_last_epoch_is_read_to_its_end(records, readers, epochs, random):
    """Who has not enough of it for a batch gives it to the first, who also fills the last batch."""
    blocks = _blocks(records)
    shared = _Shared(blocks, readers, epochs)
    due = epochs * blocks.records
    first, *others = shared.readers
    steps = -(-int(due.sum()) // BATCH)
    for _ in range(steps):
        while not (able := [r for r in shared.readers if not r.gave_up and r.may_step()]):
            for other in others:
                if not other.gave_up:
                    first.held.add(other.held.positions)
                    other.gave_up = True
            first.held.release(shared.reached[first.held.waiting_blocks])
            if not first.may_step():
                held = first.held.count_left(shared.reached[first.held.waiting_blocks])
                # With little to share, blocks may be begun again before they are read.
                assert held >= due.sum() - shared.reached.sum() or not shared.in_turn
                first.held.read_on_alone(first.chunk)
                first.held.release(shared.reached[first.held.waiting_blocks])
        random.choice(able).step()
    if shared.in_turn:
        assert (shared.reached >= due).all()
        assert (shared.applied == shared.reached).all()
    assert shared.applied.sum() == steps * BATCH


def test_turns_are_taken_where_there_is_enough_to_share():
    assert assignments.can_take_turns(np.array([256] * 235), 128, 1, num_readers=2)
    assert not assignments.can_take_turns(np.array([256] * 3), 32, 1, num_readers=2)
