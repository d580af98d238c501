"""The largest of several vectors, and its gradient, against NumPy; tables in parts too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer.features import embedding

IDS = [[2, 0, 2], [-1, -1, -1], [4, -1, -1], [-1, 1, -1]]


def _looked_up(combiner, ids, partitioner=None):
    """Returns the table, the vectors of rows of ids, and the gradient of their sum."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        source = tf.feature_column.categorical_column_with_identity("ids", 5)
        column = embedding.build_column(source, 3, combiner=combiner)
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


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("combiner", ["sum", "max"])
def test_several_columns_use_one_table(combiner, parts):
    """That of the first by name is not called like the table; a feature may have a slash."""
    partitioner = tf.compat.v1.fixed_size_partitioner(2) if parts == 2 else None
    single = np.array([4, 2, -1, 0])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        source = tf.feature_column.categorical_column_with_identity
        columns = [
            embedding.build_column(source("b", 5), 3, combiner="mean", table="b_embedding"),
            embedding.build_column(source("a/x", 5), 3, combiner=combiner, table="b_embedding"),
            embedding.build_column(source("c", 5), 3, combiner=combiner),
        ]
        x = {"a/x": tf.constant(IDS, tf.int64), "b": tf.constant(single[:, None], tf.int64)}
        x["c"] = x["b"]
        with tf.compat.v1.variable_scope("net", partitioner=partitioner):
            found = tf.compat.v1.feature_column.input_layer(x, columns)
        made = tf.compat.v1.trainable_variables()
        names = {variable.op.name.removesuffix("/part_0") for variable in made[::parts]}
        shared = [v for v in made if "/b_embedding/" in v.name]
        slices = tf.gradients(found[:, :6], shared)
        gradients = [tf.convert_to_tensor(gradient) for gradient in slices]
        session.run(tf.compat.v1.global_variables_initializer())
        table, found, gradients = session.run([shared, found, gradients])
    own = {f"net/input_layer/{name}_embedding/embedding_weights" for name in "bc"}
    assert names == own and len(made) == 2 * parts
    table, gradient = np.concatenate(table), np.concatenate(gradients)
    pooled = getattr(np, combiner)
    wanted = [
        pooled(table[[i for i in row if i >= 0]], axis=0) if max(row) >= 0 else 0 * table[0]
        for row in IDS
    ]
    np.testing.assert_allclose(found[:, :3], wanted, rtol=1e-6)
    np.testing.assert_allclose(found[:, 3:6], [*table[[4, 2]], 0 * table[0], table[0]])
    # Of both: row 4 is the only one of a list and of a single value.
    assert gradient[4].tolist() == [2, 2, 2] and gradient[3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn", "max"])
def test_no_ids_at_all_are_zeros(combiner):
    for ids in ([[-1], [-1]], [[], []]):
        _, found, _, _ = _looked_up(combiner, ids)
        assert found.tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("table", [None, "a_embedding"])
def test_one_id_a_row_gets_the_same_vectors(parts, table):
    """In both kinds of input layers, with the same variables and gradients."""
    partitioner = tf.compat.v1.fixed_size_partitioner(2) if parts == 2 else None
    found = []
    for one in (False, True):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            source = tf.feature_column.categorical_column_with_identity("ids", 5)
            column = embedding.build_column(source, 3, combiner="mean", table=table, one=one)
            given = {"ids": tf.constant([4, 0, 4, 2], tf.int64)}
            with tf.compat.v1.variable_scope("", partitioner=partitioner):
                x = tf.compat.v1.feature_column.input_layer(given, [column])
                y = tf.compat.v1.keras.layers.DenseFeatures([column])(given)
            made = tf.compat.v1.trainable_variables()
            for number, variable in enumerate(made):
                drawn = np.random.default_rng(number).normal(size=variable.shape)
                session.run(variable.assign(drawn))
            gradients = [tf.convert_to_tensor(g) for g in tf.gradients([x**2, y**3], made)]
            found.append(([v.name for v in made], *session.run([x, y, gradients])))
    plain, ours = found
    assert ours[0] == plain[0]
    for mine, theirs in zip(ours[1:3], plain[1:3], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    for mine, theirs in zip(ours[3], plain[3], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    assert ours[1].shape == (4, 3)
