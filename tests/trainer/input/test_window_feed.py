"""What pipelines are handed to read."""

import concurrent.futures

import numpy as np
import tensorflow as tf

from trainer.input import epoch_order, shares, window_feed


def _blocks():
    shards, offsets = np.array([0, 0, 1]), np.array([0, 400, 0])
    return epoch_order.Blocks(("a", "b"), shards, offsets, np.array([8, 3, 8]))


def _feed(block_ranges=None, open_blocks=2):
    feed = window_feed.Feed(_blocks(), 1, open_blocks)
    if block_ranges is not None:
        feed.begin(lambda: iter(block_ranges))
    return feed


def test_rows_say_where_a_block_range_lies_and_what_to_skip():
    feed = _feed([epoch_order.BlockRange(1, 4, 2), epoch_order.BlockRange(2, 5, 0)])
    assert [row.tolist() for row in feed.read_rows()] == [
        [0, 400, 3, 2, 4, 1, 3],
        [1, 0, 8, 0, 5, 2, 8],
    ]


def test_every_pipeline_begins_at_the_same_place():
    """A strategy drops all but the last; what the others were handed was not applied."""
    feed = _feed()
    schedule = epoch_order.BlockSchedule(_blocks(), 1, np.zeros(3))
    feed.begin(lambda: shares.assign(schedule, 0, 1))
    dropped, kept = feed.read_rows(), feed.read_rows()
    assert [next(dropped).tolist() for _ in range(5)] == [next(kept).tolist() for _ in range(5)]


def _pipeline(feed):
    """A pipeline of the blocks that are handed out, as sessions start one: by its initializer."""
    windows = tf.data.Dataset.from_generator(
        feed.read_windows, args=(feed.number_pipeline(),), output_signature=window_feed.WINDOW
    )
    blocks = windows.flat_map(lambda *w: tf.data.Dataset.from_tensor_slices(w[2][:, 0]))
    return tf.compat.v1.data.make_initializable_iterator(blocks.prefetch(2))


def test_a_pipeline_reads_what_is_begun_after_it_was_started():
    """Even if it already asks; none that was started before, of a session that was lost, does."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        feed = _feed(open_blocks=1)
        iterator = _pipeline(feed)
        first = iterator.get_next()
        for numbers in ((0, 1), (2, 0)):
            session.run(iterator.initializer)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                asked = pool.submit(session.run, first)
                block_ranges = [
                    epoch_order.BlockRange(block, 0, int(_blocks().records[block]) - 1)
                    for block in numbers
                ]
                feed.begin(block_ranges.__iter__)
                assert (asked.result(), session.run(first)) == numbers


def test_a_pipeline_that_was_dropped_takes_nothing():
    feed = _feed()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        number = feed.number_pipeline()
        lost = feed.read_rows(session.run(number))
        assert next(lost)[2] == 0
        kept = feed.read_rows(session.run(number))
        feed.begin(lambda: iter([epoch_order.BlockRange(0, 0, 0)]))
        assert list(lost) == []
        assert [row[2] for row in kept] == [8]


def test_a_row_without_records_stands_for_nothing_yet():
    feed = _feed([None, epoch_order.BlockRange(0, 0, 0), None])
    assert [row[2] for row in feed.read_rows()] == [0, 8, 0]


def _blocks_of(windows):
    return [sorted(set(window.marks[:, 0].tolist())) for window in windows]


def test_windows_are_of_so_many_block_ranges_and_of_one_epoch():
    block_ranges = [
        epoch_order.BlockRange(block, epoch, 0) for epoch in range(2) for block in range(3)
    ]
    assert _blocks_of(_feed([*block_ranges, None]).read_windows()) == [[0, 1], [2], [0, 1], [2]]
    assert _blocks_of(_feed([*block_ranges, None], 4).read_windows()) == [[0, 1, 2], [0, 1, 2]]
    assert _blocks_of(_feed(block_ranges, 1).read_windows()) == [[0], [1], [2], [0], [1], [2]]


def test_a_window_does_not_wait_for_block_ranges():
    """What there is is read; then nothing, as often as it is asked for."""
    block_ranges = [
        None,
        epoch_order.BlockRange(0, 0, 0),
        None,
        None,
        epoch_order.BlockRange(1, 0, 0),
        epoch_order.BlockRange(2, 0, 0),
    ]
    assert _blocks_of(_feed(block_ranges).read_windows()) == [[], [0], [], [1, 2]]
