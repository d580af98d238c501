"""Gradients of some rows of a table, averaged over processes that ask for others."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer import optimizers

ROWS = 6
# Rows that processes ask for: in no order, some of them by several, some twice by one, or none.
ASKED = ([4, 1, 4, 0], [5, 1, 0, 3, 3], [], [3, 5])


def _values(rows):
    return np.random.default_rng(len(rows)).normal(size=(len(rows), 2)).astype(np.float32)


def _table(rows):
    table = np.zeros((ROWS, 2), np.float32)
    np.add.at(table, rows, _values(rows))
    return table


def _of_type(graph, kind):
    (found,) = (op for op in graph.get_operations() if op.type == kind)
    return found


# More gradients than a step waits for may have come when they are taken.
@pytest.mark.parametrize(("waited_for", "come"), [(2, 2), (4, 4), (2, 4), (1, 1)])
def test_rows_are_averaged_over_all_processes_not_over_those_that_have_them(waited_for, come):
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable("table", [ROWS, 2])
        optimizer = optimizers.optimizer(
            optimizers.Updates("sgd", 1.0, synchronize=(waited_for, waited_for))
        )
        step = tf.compat.v1.train.get_or_create_global_step()
        rows = tf.compat.v1.placeholder(tf.int64, [None])
        values = tf.compat.v1.placeholder(tf.float32, [None, 2])
        gradient = tf.IndexedSlices(values, rows, tf.constant([ROWS, 2], tf.int64))
        optimizer.apply_gradients([(gradient, table)], global_step=step)
        hand_in = _of_type(graph, "SparseAccumulatorApplyGradient")
        update = _of_type(graph, "ResourceScatterAdd")
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(optimizer.local_step_init_op)
        before = session.run(table)
        for asked in ASKED[:come]:
            session.run(hand_in, {rows: asked, values: _values(asked)})
        session.run(update)
        expected = sum(map(_table, ASKED[:come])) / come
        np.testing.assert_allclose(before - session.run(table), expected, atol=1e-6)


def test_tensorflow_s_own_accumulator_is_left_as_it_is():
    with tf.Graph().as_default() as graph:
        tf.compat.v1.SparseConditionalAccumulator(tf.float32)
        (made,) = (op for op in graph.get_operations() if "Accumulator" in op.type)
        assert made.get_attr("reduction_type") == b"MEAN"
