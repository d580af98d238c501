"""One update of each optimizer against its formula."""

from __future__ import annotations

import errno

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import Length
from pipeline.config.optimizer_config import Optimizer, Schedule
from trainer import optimizers
from trainer.optimizers import row_gradients

RATE, STEPS = 0.1, 3
START = np.array([1.0, -2.0, 0.5])
FACTOR = np.array([1.0, 3.0, 0.25])  # the loss is sum(FACTOR * x**2) / 2


def _gradient(x: np.ndarray) -> np.ndarray:
    return FACTOR * x


def _sgd(x: np.ndarray) -> np.ndarray:
    for _ in range(STEPS):
        x = x - RATE * _gradient(x)
    return x


def _momentum(x: np.ndarray) -> np.ndarray:
    velocity = np.zeros_like(x)
    for _ in range(STEPS):
        velocity = 0.9 * velocity + _gradient(x)
        x = x - RATE * velocity
    return x


def _adagrad(x: np.ndarray) -> np.ndarray:
    squares = np.full_like(x, 0.1)
    for _ in range(STEPS):
        squares = squares + _gradient(x) ** 2
        x = x - RATE * _gradient(x) / np.sqrt(squares)
    return x


def _adam(x: np.ndarray) -> np.ndarray:
    first, second = np.zeros_like(x), np.zeros_like(x)
    for t in range(1, STEPS + 1):
        gradient = _gradient(x)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        x = x - rate * first / (np.sqrt(second) + 1e-8)
    return x


def _ftrl(x: np.ndarray) -> np.ndarray:
    """McMahan et al., Ad click prediction, 2013, without regularization."""
    z, n = np.zeros_like(x), np.full_like(x, 0.1)
    for _ in range(STEPS):
        g = _gradient(x)
        z = z + g - (np.sqrt(n + g**2) - np.sqrt(n)) / RATE * x
        n = n + g**2
        x = -z * RATE / np.sqrt(n)
    return x


FORMULAS = {
    **{"ftrl": _ftrl, "sgd": _sgd, "momentum": _momentum, "adagrad": _adagrad},
    **{"adam": _adam, "dense_adam": _adam},
}


@pytest.mark.parametrize("name", FORMULAS)
def test_updates_follow_the_formula_and_count(name):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=tf.constant(START, tf.float32))
        loss = tf.reduce_sum(tf.constant(FACTOR, tf.float32) * x**2) / 2
        op = optimizers.train_op(loss, optimizers.Updates(name, RATE))
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(op)
        np.testing.assert_allclose(session.run(x), FORMULAS[name](START), rtol=1e-5, atol=1e-6)
        assert session.run(v1.train.get_global_step()) == STEPS


def test_the_learning_rate_is_summarised():
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=1.0)
        optimizers.train_op(x**2, optimizers.Updates("sgd", 0.25))
        session.run(v1.global_variables_initializer())
        summary = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    values = {value.tag: value.simple_value for value in summary.value}
    assert values["learning_rate"] == 0.25


def test_every_name_the_config_knows_is_made(small_records):
    """And for a process without peers no gradients are collected."""
    task = topology.Task("chief", 0)
    for name in FORMULAS:
        job = small_records.config(f"train.optimizer={{name: {name}, learning_rate: 0.2}}")
        length, settings = Length(6000, 6000), job.train.optimizer
        wanted = optimizers.Updates(name, 0.2, length=length, settings=settings)
        assert optimizers.updates(job, task) == wanted


@pytest.mark.parametrize(("backup", "aggregate"), [(0, 3), (1, 2)])
def test_synchronous_servers_collect_the_gradients_of_all_training_processes(
    small_records, backup, aggregate
):
    job = small_records.config(
        f"cluster={{strategy: parameter_server_sync, workers: 2, ps: 1, backup_workers: {backup}}}"
    )
    cluster = {"chief": ("h:1",), "worker": ("h:2", "h:3"), "ps": ("h:4",)}
    found = optimizers.updates(job, topology.Task("worker", 1, cluster))
    assert found.synchronize == (aggregate, 3)
    assert not found.is_chief


@pytest.mark.parametrize("own", [False, True])
def test_a_model_that_updates_by_itself_cannot_wait_for_others(own):
    how = optimizers.Updates("sgd", 0.1, synchronize=(2, 2))
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        loss = v1.get_variable("x", initializer=1.0) ** 2
        if not own:
            optimizers.train_op(loss, how)
            optimizers.check("mine:model_fn", how)
            return
        v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.create_global_step())
        optimizers.check("mine:model_fn", optimizers.Updates("sgd", 0.1))
        text = r"^model\.name 'mine:model_fn': has an optimizer of its own.*=parameter_server$"
        with pytest.raises(errors.UsageError, match=text):
            optimizers.check("mine:model_fn", how)


def _after_one_step(**settings) -> np.ndarray:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=tf.constant(START, tf.float32))
        loss = tf.reduce_sum(tf.constant(FACTOR, tf.float32) * x**2) / 2
        chosen = Optimizer(name="sgd", **settings)
        how = optimizers.Updates("sgd", RATE, length=Length(10, 10), settings=chosen)
        op = optimizers.train_op(loss, how)
        session.run(v1.global_variables_initializer())
        session.run(op)
        assert session.run(v1.train.get_global_step()) == 1
        return session.run(x)


def test_gradients_above_the_norm_are_shortened_to_it():
    gradient = _gradient(START)
    norm = np.linalg.norm(gradient)
    clipped = _after_one_step(clip_norm=norm / 4)
    np.testing.assert_allclose(clipped, START - RATE * gradient / 4, rtol=1e-5)
    np.testing.assert_allclose(
        _after_one_step(clip_norm=norm * 2), START - RATE * gradient, rtol=1e-5
    )


def test_the_norm_is_of_rows_that_several_lookups_ask_for_added_up():
    """As columns do that share a table: of row 1 the gradient is (2, 2), and of 0 and 2 (1, 1)."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
        asked = [tf.unique(tf.constant(ids))[0] for ids in ([0, 1], [1, 2])]
        loss = sum(tf.reduce_sum(tf.gather(table, ids)) for ids in asked)
        norm = np.sqrt(2 * (1 + 4 + 1))
        how = optimizers.Updates("sgd", RATE, settings=Optimizer(name="sgd", clip_norm=norm / 3))
        op = optimizers.train_op(loss, how)
        session.run(v1.global_variables_initializer())
        session.run(op)
        wanted = -RATE / 3 * np.array([[1, 1], [2, 2], [1, 1], [0, 0]])
        np.testing.assert_allclose(session.run(table), wanted, rtol=1e-5)


@pytest.mark.parametrize("distinct", [False, True])
def test_rows_that_are_there_once_are_not_added_up_again(distinct):
    with tf.Graph().as_default():
        table = tf.compat.v1.get_variable("table", [4, 2])
        ids = tf.constant([0, 1, 1])
        ids = tf.unique(ids)[0] if distinct else ids
        [gradient] = tf.gradients(tf.reduce_sum(tf.gather(table, ids)), [table])
        assert (row_gradients.sum_by_row(gradient) is gradient) == distinct
        assert row_gradients.sum_by_row(table) is table


def test_gradients_of_small_tables_are_whole_where_processes_step_together(small_records):
    v1 = tf.compat.v1
    job = small_records.config("cluster.strategy=multi_worker_mirrored", "train.batch_size=5")
    how = optimizers.updates(job, topology.Task("chief", 0))
    assert how.dense_rows == 10
    with tf.Graph().as_default(), v1.Session() as session:
        ones = tf.ones_initializer()
        tables = [v1.get_variable(f"table{rows}", [rows, 2], initializer=ones) for rows in (10, 11)]
        loss = sum(tf.reduce_sum(tf.gather(table, [1, 1, 3])) for table in tables)
        pairs = optimizers.optimizer(how).compute_gradients(loss)
        (small, _), (large, _) = pairs
        session.run(v1.global_variables_initializer())
        assert session.run(small).tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]] + [[0, 0]] * 6
        assert session.run(large.indices).tolist() == [1, 3]
        assert session.run(large.values).tolist() == [[2, 2], [1, 1]]


def test_the_schedule_sets_the_rate():
    found = _after_one_step(schedule=Schedule(warm_up_steps=4))
    np.testing.assert_allclose(found, START - RATE / 4 * _gradient(START), rtol=1e-5)


@pytest.mark.timeout(60)
def test_a_chief_that_fails_does_not_wait_for_gradients_of_others():
    """TensorFlow waits two minutes for the thread that takes them, before it closes the session."""
    with tf.Graph().as_default():
        x = tf.compat.v1.get_variable("x", initializer=1.0)
        optimizers.train_op(x**2, optimizers.Updates("sgd", 0.1, synchronize=(2, 2)))
        hooks = tf.compat.v1.get_collection(optimizers.HOOKS)
        with (
            pytest.raises(OSError, match="No space left"),
            tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks),
        ):
            raise OSError(errno.ENOSPC, "No space left on device")
