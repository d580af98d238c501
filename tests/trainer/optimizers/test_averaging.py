"""What is evaluated of averaged parameters is their average; training continues with themselves."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer.optimizers import averaging

v1 = tf.compat.v1
Keys = tf.estimator.ModeKeys
STEPS, DECAY, RATE = 5, 0.5, 0.1


def _graph(mode, *, updates=True):
    """Returns variable and spec of a model whose parameter goes down by `RATE` a step."""
    x = v1.get_variable("x", initializer=1.0)
    step = v1.train.get_or_create_global_step()
    train_op = tf.group(x.assign_sub(RATE), step.assign_add(1))
    spec = tf.estimator.EstimatorSpec(
        mode, predictions=tf.identity(x), loss=tf.identity(x), train_op=train_op
    )
    return x, averaging.average_parameters(spec, mode, DECAY, updates=updates)


def _trained(folder, *, updates=True):
    with tf.Graph().as_default(), v1.Session() as session:
        x, spec = _graph(Keys.TRAIN, updates=updates)
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(spec.train_op)
        return session.run(x), v1.train.Saver().save(session, str(folder / "model.ckpt"))


@pytest.mark.parametrize("mode", [Keys.EVAL, Keys.PREDICT])
def test_the_average_takes_the_parameter_s_place(tmp_path, mode):
    trained, path = _trained(tmp_path)
    assert trained == pytest.approx(1 - STEPS * RATE)
    average, value = 1.0, 1.0
    for step in range(STEPS):
        value -= RATE
        decay = min(DECAY, (2 + step) / (11 + step))
        average = decay * average + (1 - decay) * value
    with tf.Graph().as_default(), v1.Session() as session:
        x, spec = _graph(mode)
        spec.scaffold.saver.restore(session, path)
        np.testing.assert_allclose(session.run(x), average, rtol=1e-5)
        assert session.run(v1.train.get_global_step()) == STEPS


def test_a_process_that_does_not_update_has_the_variable_all_the_same(tmp_path):
    _, path = _trained(tmp_path, updates=False)
    assert dict(tf.train.list_variables(path)).keys() >= {"x", "x/ExponentialMovingAverage"}
    assert tf.train.load_variable(path, "x/ExponentialMovingAverage") == 1.0


def test_a_parameter_that_is_cut(tmp_path):
    """As those of feature columns are, into one part or more."""

    def graph(mode):
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2)):
            x = v1.get_variable("x", [4], initializer=v1.ones_initializer())
        step = v1.train.get_or_create_global_step()
        train_op = tf.group(*(part.assign_sub(tf.ones([2])) for part in x), step.assign_add(1))
        loss = tf.reduce_sum(tf.convert_to_tensor(x))
        spec = tf.estimator.EstimatorSpec(mode, predictions=loss, loss=loss, train_op=train_op)
        return x, averaging.average_parameters(spec, mode, DECAY, updates=True)

    with tf.Graph().as_default(), v1.Session() as session:
        _, spec = graph(Keys.TRAIN)
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        path = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    with tf.Graph().as_default(), v1.Session() as session:
        x, spec = graph(Keys.EVAL)
        spec.scaffold.saver.restore(session, path)
        # After one step the decay is 2/11.
        np.testing.assert_allclose(session.run(tf.convert_to_tensor(x)), [2 / 11] * 4, rtol=1e-6)
