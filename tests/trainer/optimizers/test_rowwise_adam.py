"""Adam on the rows that are asked for, against its formula."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology
from pipeline.config.optimizer_config import Optimizer
from trainer import optimizers
from trainer.distribution import strategies
from trainer.features import embedding
from trainer.optimizers import rowwise_adam

RATE = 0.1
ROWS, WIDTH = 6, 2
ASKED = ([1, 1, 3], [3, 5], [1], [0, 1, 3, 5])  # of each step; a row counts as often as it is there
_v1 = tf.compat.v1


def _formula(decay: float = 0.0) -> np.ndarray:
    """Kingma and Ba, Adam, 2015, with moments that change with their row only; with a decay as in
    Loshchilov and Hutter, Decoupled weight decay regularization, 2019, algorithm 2."""
    table = np.ones((ROWS, WIDTH))
    first, second = np.zeros_like(table), np.zeros_like(table)
    for t, asked in enumerate(ASKED, start=1):
        gradient = np.zeros_like(table)
        for row in asked:
            gradient[row] += 2 * table[row]
        rows = np.unique(asked)
        first[rows] = 0.9 * first[rows] + 0.1 * gradient[rows]
        second[rows] = 0.999 * second[rows] + 0.001 * gradient[rows] ** 2
        rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        step = rate * first[rows] / (np.sqrt(second[rows]) + 1e-8)
        table[rows] -= step + RATE * decay * table[rows]
    return table


def _trained(name: str, *, parts: int = 1, decay: float = 0.0) -> np.ndarray:
    """Returns a table after steps whose loss is the sum of squares of the rows asked for."""
    with tf.Graph().as_default(), _v1.Session() as session:
        cut = _v1.fixed_size_partitioner(parts) if parts > 1 else None
        table = _v1.get_variable(
            "table", [ROWS, WIDTH], initializer=tf.ones_initializer(), partitioner=cut
        )
        asked = _v1.placeholder(tf.int64, [None])
        found = _v1.nn.embedding_lookup(table, asked, partition_strategy="div")
        how = optimizers.Updates(name, RATE, settings=Optimizer(weight_decay=decay))
        op = optimizers.train_op(tf.reduce_sum(found**2), how)
        session.run(_v1.global_variables_initializer())
        for ids in ASKED:
            session.run(op, {asked: ids})
        return session.run(tf.convert_to_tensor(table))


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_change_by_the_formula(parts):
    np.testing.assert_allclose(_trained("adam", parts=parts), _formula(), rtol=1e-5)


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_shrink_by_the_formula(parts):
    found = _trained("adam", parts=parts, decay=0.5)
    np.testing.assert_allclose(found, _formula(0.5), rtol=1e-5)
    assert not np.allclose(found, _formula(), rtol=1e-2)


def test_matrices_shrink_as_with_keras_and_biases_do_not():
    kernel, bias = np.full((3, 2), 2.0, np.float32), np.full(2, 3.0, np.float32)
    inputs = np.float32([[1, -2, 0.5], [0.1, 0.2, 3]])

    def loss(w, b):
        return tf.reduce_sum((tf.matmul(tf.constant(inputs), w) + b) ** 2)

    with tf.Graph().as_default(), _v1.Session() as session:
        w = _v1.get_variable("w", initializer=kernel)
        b = _v1.get_variable("b", initializer=bias)
        how = optimizers.Updates("adam", RATE, settings=Optimizer(weight_decay=0.7))
        op = optimizers.train_op(loss(w, b), how)
        session.run(_v1.global_variables_initializer())
        for _ in range(5):
            session.run(op)
        ours = session.run([w, b])
    keras = tf.keras.optimizers.AdamW(RATE, weight_decay=0.7, epsilon=1e-8)
    variables = [tf.Variable(kernel, name="w"), tf.Variable(bias, name="b")]
    keras.exclude_from_weight_decay(var_list=[variables[1]])
    for _ in range(5):
        with tf.GradientTape() as tape:
            value = loss(*variables)
        keras.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
    for found, wanted in zip(ours, variables, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5)


def test_rows_that_were_never_asked_for_stay():
    assert (_trained("adam")[[2, 4]] == 1).all()


def test_that_of_tensorflow_moves_rows_that_were_asked_for_before():
    """So that the formula tells the two apart."""
    assert not np.allclose(_trained("dense_adam")[3], _formula()[3], rtol=1e-3)


@pytest.mark.parametrize("strategy", [tf.distribute.get_strategy(), None])
def test_it_works_on_the_variables_of_a_strategy(strategy):
    """As parameter_server_strategy and central_storage make them."""
    made = strategy or tf.compat.v1.distribute.experimental.CentralStorageStrategy()
    with tf.Graph().as_default(), made.scope(), _v1.Session() as session:
        table = _v1.get_variable("table", [ROWS, WIDTH], initializer=tf.ones_initializer())

        def step():
            loss = tf.reduce_sum(tf.gather(table, tf.constant([1, 1, 3])) ** 2)
            return optimizers.train_op(loss, optimizers.Updates("adam", RATE))

        op = made.extended.call_for_each_replica(step)
        session.run(_v1.global_variables_initializer())
        session.run(op)
        found = session.run(tf.convert_to_tensor(table))
    np.testing.assert_allclose(found[1], 1 - RATE, rtol=1e-4)
    np.testing.assert_allclose(found[3], 1 - RATE, rtol=1e-4)
    assert (found[[0, 2, 4, 5]] == 1).all()


@pytest.mark.parametrize(("name", "whole"), [("adam", False), ("dense_adam", True)])
def test_only_that_of_tensorflow_writes_a_table_whole(name, whole):
    with tf.Graph().as_default() as graph:
        table = _v1.get_variable("table", [ROWS, WIDTH])
        loss = tf.reduce_sum(tf.gather(table, [1, 3]) ** 2)
        optimizers.train_op(loss, optimizers.Updates(name, RATE))
        updates = [op for op in graph.get_operations() if "/update_table/" in op.name]
    assert updates
    written = {op.type for op in updates if "Variable" in op.type and "Assign" in op.type}
    assert bool(written) == whole


def test_what_makes_the_gradient_reads_what_has_not_shrunk_yet():
    def late():
        time.sleep(0.2)  # all else of the step would be done
        return np.float32(1)

    with tf.Graph().as_default(), _v1.Session() as session:
        matrix = _v1.get_variable("matrix", [ROWS, WIDTH], initializer=tf.ones_initializer())
        factor = tf.numpy_function(late, [], tf.float32)
        with tf.control_dependencies([factor]):
            loss = factor * tf.reduce_sum(tf.square(matrix.read_value())) / 2
        how = optimizers.Updates("adam", RATE, settings=Optimizer(weight_decay=5))
        op = optimizers.train_op(loss, how)
        session.run(_v1.global_variables_initializer())
        session.run(op)
        [first] = (v for v in _v1.global_variables() if v.name.endswith("/Adam:0"))
        np.testing.assert_allclose(session.run(first), 0.1, rtol=1e-6)  # 1 - beta1, of ones


@pytest.mark.parametrize("name", ["adam", "adagrad", "ftrl"])
def test_replicas_of_one_process_change_the_rows_of_their_batches_only(name):
    """Also the moments of others stay zero, or where they began."""
    v1 = tf.compat.v1
    cluster, chief = config.Cluster(strategy="mirrored"), topology.Task(topology.CHIEF, 0)
    how = optimizers.Updates(name, 0.1)

    def replica():
        table = v1.get_variable("table", [50, 2], initializer=v1.ones_initializer())
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        ids = tf.stack([number, number + 1, number])
        return optimizers.train_op(tf.reduce_sum(tf.nn.embedding_lookup(table, ids)), how)

    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as s:
        strategy = strategies.build_distribution(cluster, chief).train
        with strategy.scope():
            v1.train.get_or_create_global_step()
            update = strategy.extended.call_for_each_replica(replica)
        s.run(v1.global_variables_initializer())
        variables = [v for v in v1.global_variables() if v.shape.rank == 2]
        before = [s.run(v) for v in variables]
        s.run(strategy.experimental_local_results(update))
        for variable, start in zip(variables, before, strict=True):
            changed = np.flatnonzero((s.run(variable) != start).any(axis=1))
            assert changed.tolist() == [0, 1, 2], variable.name
    assert len(variables) > 1


def test_rows_that_are_looked_up_once_are_not_added_up_again():
    """And those that two lookups ask for are."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable("table", initializer=np.ones((4, 2), np.float32))
        ids = tf.compat.v1.placeholder(tf.int64, [None])
        once = embedding.look_up_one(table, ids, tf.range(tf.size(ids)))
        twice = once + embedding.look_up_one(table, ids + 1, tf.range(tf.size(ids)))
        trained, steps = [], []
        for found in (once, twice):
            loss = tf.reduce_sum(found)
            before = len(tf.compat.v1.get_default_graph().get_operations())
            steps.append(rowwise_adam.RowwiseAdam(0.1).minimize(loss))
            made = tf.compat.v1.get_default_graph().get_operations()[before:]
            trained.append([op.type for op in made].count("Unique"))
        assert trained == [0, 1]
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(steps[0], {ids: [1, 1, 3]})
        np.testing.assert_allclose(session.run(table)[:, 0], [1, 0.9, 1, 0.9], rtol=1e-6)
