"""Which gradients are part of an update that does not wait for all."""

from __future__ import annotations

import pytest
import tensorflow as tf

from trainer import optimizers
from trainer.optimizers import places

ROWS = 4


def _losses():
    """A dense gradient and one by row, of all ones."""
    dense = tf.compat.v1.get_variable("dense", [], initializer=tf.zeros_initializer())
    table = tf.compat.v1.get_variable("table", [ROWS], initializer=tf.zeros_initializer())
    return dense, table, -dense - tf.reduce_sum(tf.gather(table, [1]))


@pytest.mark.timeout(60)
def test_an_update_is_of_the_first_gradients_and_of_all_variables():
    """One process of three that makes the steps of two, and is late for once."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        dense, table, loss = _losses()
        handed_in = v1.get_variable("handed_in", [2], tf.int32, tf.zeros_initializer())
        v1.add_to_collection(
            optimizers.WITH_GRADIENTS,
            lambda taken: handed_in.scatter_add(tf.IndexedSlices(1, tf.cast(taken, tf.int32))).op,
        )
        how = optimizers.Updates("sgd", 1.0, synchronize=(2, 3))
        made = optimizers.optimizer(how)
        made.minimize(loss, global_step=v1.train.get_or_create_global_step())
        hand_in = [op for op in graph.get_operations() if op.type.endswith("ApplyGradient")]
        (update,) = made.get_chief_queue_runner().enqueue_ops
        session.run(v1.global_variables_initializer())
        session.run(made.chief_init_op)
        for step in (1, 2):
            for _ in range(2):
                session.run(hand_in)
            session.run(update)
            assert session.run([dense, table[1]]) == [step, step]
            session.run(hand_in)  # of the step before
            if step == 1:
                session.run(made.local_step_init_op)
        session.run(made.local_step_init_op)
        for _ in range(2):
            session.run(hand_in)
        session.run(update)
        assert session.run([dense, table[1]]) == [3, 3]
        assert session.run(handed_in).tolist() == [2, 6]


@pytest.mark.timeout(60)
def test_at_the_end_nobody_waits_for_a_place():
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        made = places.Places(2, v1.train.get_or_create_global_step())
        taken, end = made.take([tf.constant(1.0)], tf.constant(0, tf.int64)), made.end()
        session.run(end)
        assert [session.run(taken) for _ in range(3)] == [False] * 3


@pytest.mark.timeout(60)
def test_no_update_is_made_once_the_chief_holds_a_place_for_the_last_save(monkeypatch):
    """If no place is left, the chief waits for a short time only, and then saves."""
    monkeypatch.setattr(places, "_LAST_WAIT", 500)
    v1 = tf.compat.v1
    server = tf.distribute.Server({"ps": ["localhost:0"]}, job_name="ps", task_index=0)
    with tf.Graph().as_default(), v1.Session(server.target) as session:
        made = places.Places(2, v1.train.get_or_create_global_step())
        lay_out, left = made.lay_out(), made._queue.size()
        standstill = places.Standstill(made)
        session.run(v1.global_variables_initializer())
        session.run(lay_out)
        for places_left in (1, 0, 0):
            standstill.begin_last(session)
            standstill.end()
            assert session.run(left) == places_left
