"""Vectors of lists in order: where there is an item, and what one vector is made of them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from trainer.features import sequences

v1 = tf.compat.v1
IDS = [[3, 1, -1, 3], [-1, -1, -1, -1], [-1, 2, -1, -1]]


def _sequence():
    rng = np.random.default_rng(0)
    there = np.array(IDS) >= 0
    vectors = rng.normal(size=(3, 4, 2)).astype(np.float32) * there[:, :, None]
    return sequences.Sequence(tf.constant(vectors), tf.constant(there)), vectors


def test_vectors_are_rows_of_the_table_that_others_use():
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("item"):
            table = v1.get_variable("embedding_weights", [5, 2])
        found = sequences.look_up(tf.constant(IDS, tf.int64), (5, 2), "item")
        [gradient] = tf.gradients(tf.reduce_sum(found.vectors), [table])
        assert [variable.op.name for variable in v1.global_variables()] == [
            "item/embedding_weights"
        ]
        session.run(v1.global_variables_initializer())
        rows, vectors, there, touched = session.run(
            [table, found.vectors, found.there, gradient.indices]
        )
    assert vectors.shape == (3, 4, 2)
    np.testing.assert_array_equal(there, np.array(IDS) >= 0)
    for n, m in np.ndindex(3, 4):
        wanted = rows[IDS[n][m]] if IDS[n][m] >= 0 else np.zeros(2)
        np.testing.assert_array_equal(vectors[n, m], wanted)
    assert sorted(touched) == [1, 2, 3]


def test_places_are_added_where_there_is_an_item():
    sequence, vectors = _sequence()
    with tf.Graph().as_default(), v1.Session() as session:
        copy = sequences.Sequence(*(tf.constant(x.numpy()) for x in vars(sequence).values()))
        found = sequences.add_positions(copy, 5, "clicked")
        [table] = v1.global_variables()
        assert table.op.name == "clicked/position_weights" and table.shape == [5, 2]
        [gradient] = tf.gradients(tf.reduce_sum(found.vectors), [table])
        rows = np.arange(10).reshape(5, 2)
        session.run(table.initializer)
        session.run(table.assign(rows))
        made, touched = session.run([found.vectors, gradient.indices])
    wanted = vectors.copy()
    wanted[0, [0, 1, 3]] += rows[:3]
    wanted[2, 1] += rows[0]
    np.testing.assert_allclose(made, wanted, rtol=1e-6)
    assert touched.tolist() == [0, 1, 2, 3]


def test_mean_and_last():
    sequence, vectors = _sequence()
    mean, last = sequences.mean(sequence).numpy(), sequences.take_last(sequence).numpy()
    np.testing.assert_allclose(mean[0], vectors[0, [0, 1, 3]].mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(mean[1], [0, 0])
    np.testing.assert_array_equal(last, [vectors[0, 3], [0, 0], vectors[2, 1]])


def test_a_batch_without_an_item():
    none = sequences.Sequence(tf.zeros([2, 0, 3]), tf.zeros([2, 0], tf.bool))
    with v1.variable_scope("gru"):
        state = sequences.gru(none)
    for found in (sequences.mean(none), sequences.take_last(none), state):
        np.testing.assert_array_equal(found, np.zeros((2, 3)))


def test_comparison():
    sequence, vectors = _sequence()
    candidate = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    found = sequences.compare(sequence, tf.constant(candidate)).numpy()
    wanted = [candidate[0], vectors[0, 1], candidate[0] - vectors[0, 1]]
    np.testing.assert_allclose(
        found[0, 1], np.concatenate([*wanted, candidate[0] * vectors[0, 1]]), rtol=1e-6
    )


def test_the_gated_unit_is_that_of_keras():
    sequence, _ = _sequence()
    with tf.Graph().as_default(), v1.Session() as session:
        copy = sequences.Sequence(*(tf.constant(x.numpy()) for x in vars(sequence).values()))
        state = sequences.gru(copy)
        session.run(v1.global_variables_initializer())
        weights = {x.op.name: x for x in v1.global_variables()}
        state, weights = session.run([state, weights])
    layer = tf.keras.layers.GRU(2, reset_after=False)
    layer(sequence.vectors)
    layer.set_weights([weights[name] for name in ("kernel", "recurrent_kernel", "bias")])
    wanted = layer(sequence.vectors, mask=sequence.there)
    np.testing.assert_allclose(state, wanted, rtol=1e-5, atol=1e-6)
