"""Cut tables answer, learn, are assigned and are saved as tables in one piece."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer.checkpoints import table_saver
from trainer.distribution import balanced_tables, placement

v1 = tf.compat.v1
ROWS, WIDTH = 1000, 4
VALUES = np.random.default_rng(2).normal(size=(ROWS, WIDTH)).astype(np.float32)
IDS = np.array([[3, 0, 999], [500, 3, 17]])


def _own():
    return v1.get_variable("table", [ROWS, WIDTH])


def _keras():
    layer = tf.keras.layers.Embedding(ROWS, WIDTH)
    layer.build([None])
    return layer.embeddings


def _sparse(table):
    ids = tf.sparse.from_dense(tf.constant(IDS + 1))
    return tf.SparseTensor(ids.indices, ids.values - 1, ids.dense_shape)


LOOKUPS = {
    "div": lambda table: v1.nn.embedding_lookup(table, tf.constant(IDS), "div"),
    "mod": lambda table: v1.nn.embedding_lookup(table, tf.constant(IDS)),
    "of TensorFlow 2": lambda table: tf.nn.embedding_lookup(table, tf.constant(IDS)),
    "int32": lambda table: tf.nn.embedding_lookup(table, tf.constant(IDS, tf.int32)),
    "list": lambda table: tf.nn.embedding_lookup(list(table), tf.constant(IDS)),
    "sparse": lambda table: v1.nn.embedding_lookup_sparse(
        table, _sparse(table), None, partition_strategy="div", combiner="sum"
    ),
    "safe": lambda table: tf.nn.safe_embedding_lookup_sparse(
        table, _sparse(table), combiner="mean"
    ),
    "matrix": lambda table: tf.matmul(tf.one_hot(IDS[0], ROWS), table),
    "whole": lambda table: tf.convert_to_tensor(table),
}
WANTED = {
    "sparse": VALUES[IDS].sum(axis=1),
    "safe": VALUES[IDS].mean(axis=1),
    "matrix": VALUES[IDS[0]],
    "whole": VALUES,
}


@pytest.mark.parametrize("made", [_own, _keras])
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_lookup_finds_the_rows_and_gives_them_their_gradients(made, lookup):
    gradients = []
    for servers in (1, 3):
        if servers == 1 and lookup == "list":
            continue
        with tf.Graph().as_default(), v1.Session() as session, placement.cut(servers, 1000):
            table = made()
            found = LOOKUPS[lookup](table)
            parts = v1.trainable_variables()
            assert len(parts) == servers
            loss = tf.reduce_sum(found * tf.range(1.0, WIDTH + 1))
            grads = [tf.convert_to_tensor(one) for one in tf.gradients(loss, parts)]
            session.run(v1.global_variables_initializer())
            assign = table.assign(VALUES)
            session.run(assign)
            answer, grads = session.run([found, grads])
            if servers > 1:
                joined = session.run(table.layout.join(grads))
                assert sum(len(part) for part in grads) == ROWS
                gradients.append(joined)
            else:
                gradients.append(grads[0])
        np.testing.assert_allclose(answer, WANTED.get(lookup, VALUES[IDS]), rtol=1e-6)
    np.testing.assert_allclose(gradients[0], gradients[-1], rtol=1e-6)


def _saved_and_read(tmp_path, wrote, reads):
    """Trains a table on `wrote` servers, saves it and reads it on `reads`; returns what each has of
    the table and of what Adam remembers, in the order of the table."""
    found = []
    for servers in (wrote, reads):
        with tf.Graph().as_default(), v1.Session() as session, placement.cut(servers, 1000):
            tables = [_own(), _keras()]
            loss = sum(
                tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant(IDS)) ** 2)
                for table in tables
            )
            update = v1.train.AdamOptimizer(0.1).minimize(loss)
            wholes = []
            for table in tables:
                parts = list(table) if servers > 1 else [table]
                for name in ("Adam", "Adam_1", None):
                    of = [_slot(part, name) for part in parts]
                    wholes.append(table.layout.join(of) if servers > 1 else of[0])
            init = v1.global_variables_initializer()
            table_saver.use(tf.estimator.RunConfig())
            saver = v1.train.Scaffold().finalize().saver
            if found:
                saver.restore(session, str(tmp_path / "model"))
            else:
                session.run(init)
                session.run(update)
                saver.save(session, str(tmp_path / "model"))
            found += session.run(wholes)
    return found[:6], found[6:]


def _slot(part, name):
    if name is None:
        return part
    return next(v for v in v1.global_variables() if v.op.name == f"{part.op.name}/{name}")


@pytest.mark.parametrize(("wrote", "reads"), [(1, 2), (2, 3), (3, 1)])
def test_any_number_of_servers_reads_a_checkpoint(tmp_path, wrote, reads):
    before, after = _saved_and_read(tmp_path, wrote, reads)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    np.testing.assert_array_equal(reader.get_tensor("table"), before[2])
    assert any(name.endswith("embeddings") for name in reader.get_variable_to_shape_map())
    # What was asked for has moved, and what was not has no moments.
    moments = reader.get_tensor("table/Adam")
    assert sorted(np.flatnonzero(moments.any(axis=1))) == sorted({*IDS.flat})


def test_parts_do_not_begin_alike():
    with tf.Graph().as_default(), v1.Session() as session, placement.cut(2, 1000):
        table = _keras()
        session.run(v1.global_variables_initializer())
        first, second = session.run(list(table))
    assert not np.isclose(first, second).any(axis=1).all()


@pytest.mark.parametrize(
    "initializer",
    [
        lambda shape, dtype, partition_info: tf.constant(VALUES)[
            partition_info.var_offset[0] : partition_info.var_offset[0] + shape[0]
        ],
        tf.constant(VALUES),
    ],
)
def test_values_that_differ_by_row_stay_with_their_rows(initializer):
    with tf.Graph().as_default(), placement.cut(2, 1000):
        shape = None if isinstance(initializer, tf.Tensor) else [ROWS, WIDTH]
        if isinstance(initializer, tf.Tensor):
            initializer = tf.constant(VALUES)  # of this graph
        table = v1.get_variable("table", shape, initializer=initializer)
        assert len(list(table)) == 2
        assert balanced_tables.find_part(next(iter(table))) is None


def test_a_constant_of_all_rows_which_tensorflow_cannot_cut_is_in_one_piece():
    with tf.Graph().as_default(), v1.Session() as session, placement.cut(2, 1000):
        constant = v1.constant_initializer(VALUES)
        table = v1.get_variable("table", [ROWS, WIDTH], initializer=constant)
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(table), VALUES)


@pytest.mark.parametrize(
    "initializer",
    [
        None,
        v1.truncated_normal_initializer(stddev=0.1),
        v1.zeros_initializer(),
        v1.constant_initializer(0.5),
        tf.random_normal_initializer(),
        tf.keras.initializers.RandomUniform(),
    ],
)
def test_initializers_that_balance(initializer):
    with tf.Graph().as_default(), placement.cut(2, 1000):
        table = v1.get_variable("table", [ROWS, WIDTH], initializer=initializer)
        assert isinstance(table, balanced_tables.BalancedTable)


def test_kernels_are_cut_into_ranges():
    with tf.Graph().as_default(), placement.cut(2, 1000):
        kernel = v1.get_variable("dense/kernel", [ROWS, WIDTH])
        assert len(list(kernel)) == 2
        assert not isinstance(kernel, balanced_tables.BalancedTable)


def test_lookups_are_those_of_tensorflow_afterwards():
    from tensorflow.python.ops import embedding_ops

    before = embedding_ops._embedding_lookup_and_transform
    with pytest.raises(ZeroDivisionError), tf.Graph().as_default(), placement.cut(2, 1000):
        assert embedding_ops._embedding_lookup_and_transform is not before
        1 / 0  # noqa: B018
    assert embedding_ops._embedding_lookup_and_transform is before
