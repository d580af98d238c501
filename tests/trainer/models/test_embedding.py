"""The largest of several vectors, and its gradient, against NumPy; tables in parts too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer.models import embedding

IDS = [[2, 0, 2], [-1, -1, -1], [4, -1, -1], [-1, 1, -1]]


def _looked_up(combiner, ids, partitioner=None):
    """Returns the table, the vectors of rows of ids, and the gradient of their sum."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        source = tf.feature_column.categorical_column_with_identity("ids", 5)
        column = embedding.column(source, 3, combiner)
        with tf.compat.v1.variable_scope("", partitioner=partitioner):
            x = {"ids": tf.constant(ids, tf.int64, shape=[len(ids), len(ids[0])])}
            found = tf.compat.v1.feature_column.input_layer(x, [column])
        parts = tf.compat.v1.trainable_variables()
        gradients = [tf.convert_to_tensor(g) for g in tf.gradients(found, parts)]
        session.run(tf.compat.v1.global_variables_initializer())
        table, found, gradients = session.run([parts, found, gradients])
        return np.concatenate(table), found, np.concatenate(gradients), len(parts)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_largest_of_each_component(parts):
    partitioner = tf.compat.v1.fixed_size_partitioner(2) if parts == 2 else None
    table, found, gradient, made = _looked_up("max", IDS, partitioner)
    assert made == parts
    wanted = [table[[2, 0]].max(axis=0), np.zeros(3), table[4], table[1]]
    np.testing.assert_array_equal(found, np.array(wanted))
    assert gradient[3].tolist() == [0, 0, 0]
    assert gradient[4].tolist() == gradient[1].tolist() == [1, 1, 1]
    assert (gradient[2] + gradient[0]).tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn", "max"])
def test_no_ids_at_all_are_zeros(combiner):
    for ids in ([[-1], [-1]], [[], []]):
        _, found, _, _ = _looked_up(combiner, ids)
        assert found.tolist() == [[0, 0, 0]] * 2
