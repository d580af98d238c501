"""What is counted with an update of all processes, and when."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

from trainer import optimizers
from trainer.exactly_once import counters, pending
from trainer.input import epoch_order


@pytest.fixture
def made():
    """The counts of four blocks, and what has been handed in, in batches of two records."""
    zeros = np.zeros(4, np.int64)
    with tf.Graph().as_default():
        counts = counters.Variables(
            epoch_order.Blocks(("a",), zeros, zeros, zeros + 10), apart=True
        )
        for variable in (counts.applied, counts.reached, counts.readers):
            tf.compat.v1.add_to_collection(
                tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, variable.initializer
            )
        made = pending.Pending(counts, 2)
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, made.reached.initializer
        )
        yield counts, made


def _put(counts, handed_in, rank, *batch, is_part=True):
    reads = counts.stack_reads(*(tf.constant(values, tf.int32) for values in batch), rank)
    return handed_in.hand_in(reads, tf.constant(is_part))


def test_what_is_handed_in_is_counted_once(made):
    counts, handed_in = made
    puts = [_put(counts, handed_in, 0, [1, 1], [1, 2]), _put(counts, handed_in, 2, [3, 1], [1, 3])]
    count = handed_in.count()
    with tf.compat.v1.train.MonitoredSession() as session:
        session.run(puts)
        assert session.run(counts.applied).tolist() == [0, 0, 0, 0]
        assert session.run(handed_in.reached).tolist() == [0, 3, 0, 1]
        for _ in range(2):
            session.run(count)
            assert session.run(counts.applied).tolist() == [0, 3, 0, 1]
        assert session.run(counts.reached).tolist() == [0, 3, 0, 1]
        assert session.run(counts.readers)[:3].tolist() == [2, 0, 2]


def test_records_of_gradients_that_are_dropped_were_read_and_not_applied(made):
    counts, handed_in = made
    puts = [
        _put(counts, handed_in, 0, [1, 1], [1, 2]),
        _put(counts, handed_in, 2, [1, 3], [3, 1], is_part=False),
    ]
    count = handed_in.count()
    with tf.compat.v1.train.MonitoredSession() as session:
        session.run(puts)
        session.run(count)
        assert session.run(counts.applied).tolist() == [0, 2, 0, 0]
        assert session.run(counts.reached).tolist() == [0, 3, 0, 1]
        assert session.run(counts.readers)[:3].tolist() == [2, 0, 2]


def test_a_synchronous_update_counts_before_any_process_continues(made):
    counts, handed_in = made
    reads = counts.stack_reads(tf.constant([1, 2]), tf.constant([1, 1]), 0)
    hand_in = functools.partial(handed_in.hand_in, reads)
    tf.compat.v1.add_to_collection(optimizers.WITH_GRADIENTS, hand_in)
    tf.compat.v1.add_to_collection(optimizers.WITH_UPDATE, handed_in.count)
    loss = tf.compat.v1.get_variable("w", initializer=0.0) * 1.0
    step = optimizers.train_op(loss, optimizers.Updates("sgd", 1.0, synchronize=(1, 1)))
    hooks = tf.compat.v1.get_collection_ref(optimizers.HOOKS)
    needed = list(hooks)
    hooks.clear()
    with tf.compat.v1.train.MonitoredSession(hooks=needed) as session:
        for made_steps in range(1, 4):
            session.run(step)
            assert session.run(counts.applied).tolist() == [0, made_steps, made_steps, 0]
