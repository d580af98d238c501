"""What happens before a session is made, in TensorFlow's own creators."""

from __future__ import annotations

import threading
import types

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.processes import signals
from trainer.distribution import session_manager

_train = tf.compat.v1.train


@pytest.fixture
def server():
    """A server, and in its graph a variable and the op that gives it a value."""
    made = tf.distribute.Server({"ps": ["localhost:0"]}, job_name="ps", task_index=0)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        yield made.target


def test_a_chief_calls_before_it_restores(server, tmp_path):
    step = _train.get_or_create_global_step()
    more, value = step.assign_add(1), step.read_value()
    seen = []

    def before(session):
        try:
            seen.append(int(session.run(value)))
        except tf.errors.FailedPreconditionError:
            seen.append(None)

    saves = _train.CheckpointSaverHook(str(tmp_path), save_steps=1)
    with session_manager.call_before_sessions(before):
        for hooks, reached in (([saves], 1), ([], 2), ([], 2)):
            creator = _train.ChiefSessionCreator(master=server, checkpoint_dir=str(tmp_path))
            with _train.MonitoredSession(creator, hooks) as session:
                session.run(more)
                assert int(session.run(value)) == reached
    assert seen == [None, 1, 2], "as the session before left it"


def test_a_worker_calls_until_variables_have_values(server):
    step = _train.get_or_create_global_step()
    initial, value = step.initializer, step.read_value()
    called = threading.Event()
    calls = []

    def before(session):
        calls.append(session)
        if len(calls) == 2:
            session.run(initial)
            called.set()

    with session_manager.call_before_sessions(before):
        creator = _train.WorkerSessionCreator(master=server, max_wait_secs=60)
        with _train.MonitoredSession(creator) as session:
            assert int(session.run(value)) == 0
    assert called.is_set() and len(calls) == 2


def test_a_worker_with_nothing_to_call_looks_again_soon(server, monkeypatch):
    step = _train.get_or_create_global_step()
    initial, value = step.initializer, step.read_value()
    looked = []

    def give_a_value(seconds):
        looked.append(seconds)
        with tf.compat.v1.Session(server) as session:
            session.run(initial)

    monkeypatch.setattr(signals, "stop_requested", types.SimpleNamespace(wait=give_a_value))
    with session_manager.call_before_sessions(None):
        creator = _train.WorkerSessionCreator(master=server, max_wait_secs=60)
        with _train.MonitoredSession(creator) as session:
            assert int(session.run(value)) == 0
    assert len(looked) == 1 and looked[0] < 1


def test_a_worker_does_not_wait_for_ever(server):
    _train.get_or_create_global_step()
    with session_manager.call_before_sessions(lambda session: None):
        creator = _train.WorkerSessionCreator(master=server, max_wait_secs=0)
        with pytest.raises(tf.errors.DeadlineExceededError):
            _train.MonitoredSession(creator)


def test_a_worker_that_waits_stops_when_it_is_asked_to(server, monkeypatch):
    _train.get_or_create_global_step()
    asked = threading.Event()
    monkeypatch.setattr(signals, "stop_requested", asked)
    with session_manager.call_before_sessions(lambda session: asked.set()):
        creator = _train.WorkerSessionCreator(master=server)
        with pytest.raises(errors.RetryableError, match=r"^stopped while waiting for the param"):
            _train.MonitoredSession(creator)


def test_sessions_are_made_as_ever_afterwards(server):
    with session_manager.call_before_sessions(pytest.fail):
        pass
    with _train.MonitoredSession(_train.ChiefSessionCreator(master=server)):
        pass
