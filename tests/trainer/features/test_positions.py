"""Vectors of places in lists, against NumPy: in both kinds of input layers, in parts too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer.features import embedding, positions
from trainer.features.positions import Positions

v1 = tf.compat.v1
IDS = [[2, 0, 2, 1], [-1, -1, -1, -1], [4, 3, -1, -1], [1, -1, -1, -1]]
WEIGHTS = [[0.5, 2, 0, 1], [0, 0, 0, 0], [1, 3, 0, 0], [0, 0, 0, 0]]


def _given(weighted):
    ids = np.array(IDS)
    places = np.argwhere(ids >= 0)
    sparse = tf.SparseTensor(places, tf.constant(ids[ids >= 0], tf.int64), ids.shape)
    weights = np.array(WEIGHTS, np.float32)[ids >= 0]
    return {
        "ids": sparse if weighted else tf.constant(ids, tf.int64),
        "by": tf.SparseTensor(places, tf.constant(weights), ids.shape),
    }


def _wanted(table, places, combiner, *, weighted, each):
    found = []
    for row, own in zip(IDS, WEIGHTS, strict=True):
        ids = [n for n in row if n >= 0]
        by = np.array(own[: len(ids)] if weighted else np.ones(len(ids)))
        total = by @ (table[ids] + places[np.arange(len(ids)) // each])
        norm = {"sum": 1, "mean": by.sum(), "sqrtn": np.sqrt(np.square(by).sum())}[combiner]
        found.append(total / norm if norm else total * 0)
    return np.array(found)


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn"])
def test_they_are_combined_as_those_of_ids(combiner, weighted, parts, each):
    partitioner = v1.fixed_size_partitioner(2) if parts == 2 else None
    with tf.Graph().as_default(), v1.Session() as session:
        ids = tf.feature_column.categorical_column_with_identity("ids", 5)
        ids = embedding.weight_ids(ids, "by") if weighted else ids
        plain = embedding.build_column(ids, 3, combiner=combiner, table="item_embedding")
        column = positions.add_positions(plain, Positions(4, each))
        with v1.variable_scope("", partitioner=partitioner):
            x = v1.feature_column.input_layer(_given(weighted), [column])
            y = v1.keras.layers.DenseFeatures([column])(_given(weighted))
        made = v1.trainable_variables()
        of_layer = made[: len(made) // 2]
        names = {v.op.name.partition("/part_")[0] for v in of_layer}
        assert names == {
            "input_layer/item_embedding/embedding_weights",
            "input_layer/ids_embedding/position_weights",
        }
        for number, variable in enumerate(made):
            drawn = np.random.default_rng(number).normal(size=variable.shape)
            session.run(variable.initializer)
            session.run(variable.assign(drawn))
        for found, variables in ((x, of_layer), (y, made[len(of_layer) :])):
            table, places = (
                np.concatenate(session.run([v for v in variables if name in v.name]))
                for name in ("embedding_weights", positions.VARIABLE)
            )
            wanted = _wanted(table, places, combiner, weighted=weighted, each=each)
            np.testing.assert_allclose(session.run(found), wanted, rtol=1e-5, atol=1e-6)


def test_only_places_that_are_there_get_a_gradient():
    with tf.Graph().as_default(), v1.Session() as session:
        ids = tf.feature_column.categorical_column_with_identity("ids", 5)
        column = positions.add_positions(
            embedding.build_column(ids, 3, combiner="sum"), Positions(9)
        )
        x = v1.feature_column.input_layer({"ids": tf.constant(IDS, tf.int64)}, [column])
        [places] = [v for v in v1.trainable_variables() if positions.VARIABLE in v.name]
        [gradient] = tf.gradients(tf.reduce_sum(x), [places])
        session.run(v1.global_variables_initializer())
        indices, values, start = session.run([gradient.indices, gradient.values, places])
    assert indices.tolist() == [0, 1, 2, 3]
    assert values[:, 0].tolist() == [3, 2, 1, 1]
    assert not start.any()


@pytest.mark.parametrize("ids", [[[-1, -1], [-1, -1]], [[], []]])
def test_no_ids_at_all_are_zeros(ids):
    with tf.Graph().as_default(), v1.Session() as session:
        source = tf.feature_column.categorical_column_with_identity("ids", 5)
        column = positions.add_positions(
            embedding.build_column(source, 3, combiner="mean"), Positions(2)
        )
        given = tf.constant(ids, tf.int64, shape=[2, len(ids[0])])
        x = v1.feature_column.input_layer({"ids": given}, [column])
        session.run(v1.global_variables_initializer())
        assert session.run(x).tolist() == [[0, 0, 0]] * 2


def test_gaps_take_no_place():
    there = tf.constant([[True, False, True, True], [False, False, True, False]])
    assert Positions(4).locate_dense(there).numpy()[there.numpy()].tolist() == [0, 1, 2, 0]
    assert Positions(4, 2).locate_dense(there).numpy()[there.numpy()].tolist() == [0, 0, 1, 0]
