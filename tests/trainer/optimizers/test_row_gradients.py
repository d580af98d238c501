"""Gradients of some rows of a table, averaged over processes that ask for others."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from trainer import optimizers

ROWS = 6
# Rows that two processes ask for: in no order, some of them by both, some twice by one.
ASKED = ([4, 1, 4, 0], [5, 1, 0, 3, 3])


def _values(rows):
    return np.random.default_rng(len(rows)).normal(size=(len(rows), 2)).astype(np.float32)


def _gradient(rows):
    ids, shape = tf.constant(rows, tf.int64), tf.constant([ROWS, 2], tf.int64)
    return tf.IndexedSlices(tf.constant(_values(rows)), ids, shape)


def _table(rows):
    table = np.zeros((ROWS, 2), np.float32)
    np.add.at(table, rows, _values(rows))
    return table


def _of_type(graph, kind):
    (found,) = (op for op in graph.get_operations() if op.type == kind)
    return found


def test_rows_are_averaged_over_all_processes_not_over_those_that_have_them():
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable("table", [ROWS, 2])
        how = optimizers.Updates("sgd", 1.0, synchronize=(2, 2))
        mine, others = map(_gradient, ASKED)
        optimizer = optimizers.optimizer(how)
        step = tf.compat.v1.train.get_or_create_global_step()
        optimizer.apply_gradients([(mine, table)], global_step=step)
        handed_in = _of_type(graph, "SparseAccumulatorApplyGradient")
        again = tf.raw_ops.SparseAccumulatorApplyGradient(
            handle=handed_in.inputs[0],
            local_step=tf.constant(0, tf.int64),
            gradient_indices=others.indices,
            gradient_values=others.values,
            gradient_shape=others.dense_shape,
            has_known_shape=True,
        )
        update = _of_type(graph, "ResourceScatterAdd")
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(optimizer.local_step_init_op)
        before = session.run(table)
        session.run([handed_in, again])
        session.run(update)
        expected = sum(map(_table, ASKED)) / 2
        np.testing.assert_allclose(before - session.run(table), expected, atol=1e-6)


def test_tensorflow_s_own_accumulator_is_left_as_it_is():
    with tf.Graph().as_default() as graph:
        tf.compat.v1.SparseConditionalAccumulator(tf.float32)
        (made,) = (op for op in graph.get_operations() if "Accumulator" in op.type)
        assert made.get_attr("reduction_type") == b"MEAN"
