"""A reader that does nothing but take pieces, so that a kill most likely finds it doing that."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from trainer.distribution import request_numbers
from trainer.exactly_once import counters, dispatcher, saved_counts

ENTRY = f"{__name__}:take_for_ever"
RANK, WIDTH, CHUNK = 1, 12, 2


def session(target: str, job: str) -> tuple[dispatcher.Dispatcher, Any, Any]:
    """Returns the dispatcher of the reader, the op that makes the ledger, and a session, of a
    process of the cluster that needs the parameter server only."""
    request_numbers.make_unique()
    placed = tf.compat.v1.train.replica_device_setter(1, worker_device=job)
    with tf.Graph().as_default() as graph, tf.compat.v1.device(placed):
        reached = counters.make_variable(saved_counts.REACHED, [4], tf.int32, saved=True)
        shared = dispatcher.Dispatcher(reached, rank=RANK, num_readers=2, width=WIDTH, chunk=CHUNK)
        shared.build()
        made = tf.compat.v1.global_variables_initializer()
    filters = tf.compat.v1.ConfigProto(device_filters=["/job:ps", job])
    return shared, made, tf.compat.v1.Session(target, graph=graph, config=filters)


def take_for_ever(cluster: dict[str, list[str]]) -> None:
    """Takes pieces until it is killed, and keeps as many of them as it may."""
    server = tf.distribute.Server(cluster, job_name="worker", task_index=0)
    shared, _, own = session(server.target, "/job:worker/task:0")
    while True:
        # The parameter server may still talk to the reader that was killed; a trainer begins again.
        with contextlib.suppress(tf.errors.UnavailableError):
            start = shared.begin(own)
            assert start is not None
            held = start.held
            while True:
                kept = held[CHUNK - WIDTH :]
                held = [*kept, *shared.take(own, kept)]
