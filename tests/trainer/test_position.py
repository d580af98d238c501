"""The place of each session in the data."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config_file, topology
from trainer import ledger, order
from trainer.position import Position, PositionHook

CLUSTER = {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)}


def _blocks(*records):
    zeros = np.zeros(len(records), np.int64)
    return order.Blocks(("a",), zeros, zeros, np.array(records))


def _position(applied, *, strategy="none", role="chief"):
    job = config_file.load("mnist", [f"cluster.strategy={strategy}"])
    cluster = CLUSTER if strategy != "none" else {}
    return Position(job, topology.Task(role, 0, cluster), _blocks(4, 4, 4, 4), np.array(applied))


def _first(position, count):
    rows = position.feed.rows()
    return [tuple(next(rows)[3:].tolist()) for _ in range(count)]


def test_a_process_on_its_own_begins_where_the_checkpoint_is():
    fresh = order.epoch_order(4, 1, 0).tolist()
    applied = np.zeros(4, np.int64)
    applied[fresh[0]], applied[fresh[1]] = 4, 3
    rows = _first(_position(applied), 4)
    assert rows[0] == (3, 0, fresh[1])
    assert rows[1:3] == [(0, 0, fresh[2]), (0, 0, fresh[3])]
    assert rows[3][1] == 1


class _Session:
    """A graph as the trainer builds it on classic parameter servers, with its hook."""

    def __init__(self, position):
        self.position = position
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.ids = tf.compat.v1.placeholder(tf.int32, [None])
            self.counted = position.count(self.ids)
            self.hook = PositionHook(position)
            self.hook.begin()
            self.session = tf.compat.v1.Session()
            self.session.run(tf.compat.v1.global_variables_initializer())

    def count(self, *blocks):
        self.session.run(self.counted, {self.ids: blocks})


@pytest.fixture
def chief():
    return _Session(_position([0] * 4, strategy="parameter_server"))


def test_the_chief_lays_out_what_the_parameters_have_not_seen(chief):
    fresh = order.epoch_order(4, 1, 0).tolist()
    chief.count(*[fresh[0]] * 4, fresh[1])
    chief.hook.after_create_session(chief.session, None)
    # One of two readers: every second piece of what is left.
    assert _first(chief.position, 2)[0] == (1, 0, fresh[1])
    assert _first(chief.position, 2)[1] == (0, 0, fresh[3])


def test_one_that_comes_back_goes_on_from_the_live_counts(chief):
    """Not from those the chief began with: what it had applied since is not read again."""
    fresh = order.epoch_order(4, 1, 0).tolist()
    chief.hook.after_create_session(chief.session, None)
    chief.count(*[fresh[0]] * 4, *[fresh[2]] * 2)
    generation, counts = chief.hook._read(chief.session)
    assert counts[0].tolist() == [0] * 4
    chief.position.start(*counts)
    assert _first(chief.position, 1) == [(2, 0, fresh[2])]
    assert generation == chief.hook._generation


def test_a_worker_notices_that_the_chief_started_anew():
    worker = _Session(_position([0] * 4, strategy="parameter_server", role="worker"))
    worker.hook._generation = 7
    values = tf.compat.v1.train.SessionRunValues(7, None, None)
    worker.hook.after_run(None, values)
    values = tf.compat.v1.train.SessionRunValues(8, None, None)
    with pytest.raises(tf.errors.AbortedError, match="the chief went back to a checkpoint"):
        worker.hook.after_run(None, values)


def test_only_the_counts_are_saved(chief):
    """Any mode can go on from the checkpoint of any other: they hold the same variables."""
    with chief.graph.as_default():
        names = [v.op.name for v in tf.compat.v1.global_variables()]
    assert names == [ledger.APPLIED]
