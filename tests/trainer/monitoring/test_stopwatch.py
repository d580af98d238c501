"""Where the time of a process goes, by a clock that is set by hand and in a real session."""

from __future__ import annotations

import functools
import itertools
import pickle
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.runs import accounts
from pipeline.runs.run_folder import RunFolder
from trainer.input import ready_times
from trainer.monitoring import stopwatch_hook
from trainer.monitoring.step_work import StepWork
from trainer.monitoring.stopwatch import Stopwatch
from trainer.monitoring.stopwatch_hook import StopwatchHook

v1 = tf.compat.v1


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Scene:
    """A process that does things for some seconds."""

    def __init__(self, folder):
        self.clock = Clock()
        self.run = RunFolder(str(folder))
        self.watch = Stopwatch(self.run, "chief-0", clock=self.clock)

    def passes(self, seconds):
        self.clock.now += seconds

    def step(self, seconds, waited=0.0, after=0.0, early=None):
        self.watch.enter("step")
        self.passes(seconds)
        self.watch.record_step(10, waited, early)
        self.passes(after)

    @property
    def seconds(self):
        return self.watch.account.seconds


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


def test_every_moment_is_of_one_state(scene):
    scene.passes(3)
    scene.watch.begin()
    scene.step(2)  # the first one is part of the start
    scene.step(4, waited=1, after=1)
    with scene.watch.time_state("saving"):
        scene.passes(5)
    scene.watch.enter("evaluation")
    scene.passes(6)
    scene.step(1)
    scene.watch.finish()
    scene.passes(7)
    account = scene.watch.account
    assert account.seconds == {
        **{"start": 5, "step": 4, "input": 1, "between": 1, "saving": 5, "evaluation": 6, "end": 7}
    }
    assert (account.examples, account.timed, account.ended) == (30, 20, True)
    assert account.until - account.began == pytest.approx(scene.clock.now)


def test_what_follows_the_last_step_is_the_end(scene):
    scene.watch.begin()
    scene.step(1)
    scene.step(1)
    before = scene.watch.pause("saving")
    scene.passes(2)
    scene.watch.resume(before)
    scene.watch.enter("evaluation")
    scene.passes(3)
    scene.watch.finish()
    for state in ("saving", "evaluation", "step"):
        scene.watch.enter(state)
        with scene.watch.time_state(state):
            scene.passes(1)
    assert scene.seconds == {"start": 1, "step": 1, "end": 8}


def test_a_save_before_the_first_step_is_the_first_one(scene):
    scene.passes(1)
    scene.watch.begin()
    with scene.watch.time_state("saving"):
        scene.passes(2)
    scene.passes(3)
    assert scene.seconds == {"start": 4, "first save": 2}


def test_a_step_that_does_not_come_back_is_part_of_recovering(scene):
    scene.watch.begin()
    scene.step(1)
    scene.step(1)
    scene.watch.enter("step")
    scene.passes(5)  # the session is lost, and made again
    scene.watch.begin()
    scene.passes(2)
    scene.step(1)
    scene.step(1)
    assert scene.seconds == {"start": 1, "step": 2, "recovery": 8}
    assert (scene.watch.account.examples, scene.watch.account.timed) == (40, 20)


def test_a_session_that_is_lost_after_the_last_step_is_of_the_end(scene):
    scene.watch.begin()
    scene.step(1)
    scene.step(1)
    scene.watch.enter("step")
    scene.passes(2)
    scene.watch.begin()  # others have closed theirs
    scene.passes(3)
    scene.watch.finish()
    assert scene.seconds == {"start": 1, "step": 1, "end": 5}


def test_steps_exchange_as_the_last_traced_ones(scene):
    scene.watch.begin()
    scene.step(1)
    for _ in range(10):
        scene.step(1)
    assert scene.seconds == {"start": 1, "step": 10}
    assert scene.watch.record_trace(0.2)
    assert scene.seconds == pytest.approx({"start": 1, "step": 8, "exchange": 2})
    scene.step(1)
    assert scene.watch.record_trace(0.4)
    scene.step(1)  # as the mean of both
    assert scene.seconds == pytest.approx({"start": 1, "step": 9.3, "exchange": 2.7})
    for exchange in (0.4, 0.4, 0.4):
        scene.step(1)
        scene.watch.record_trace(exchange)
    scene.step(1)
    assert scene.seconds["exchange"] == pytest.approx(2.7 + 4 * 0.4)


def test_a_step_exchanges_no_longer_than_it_takes(scene):
    scene.watch.begin()
    for _ in range(5):
        scene.step(1)
    scene.step(2, waited=0.5)
    scene.watch.record_trace(100.0)
    scene.step(0.25)
    assert scene.seconds == pytest.approx({"start": 1, "input": 0.5, "exchange": 5.75})


@pytest.mark.parametrize("stall", [3.0, 15.0])
@pytest.mark.parametrize("stalled", [range(10, 11), range(10, 50, 10), range(13, 14)])
def test_traced_steps_that_stall_are_like_no_others(scene, stalled, stall):
    """Steps of 0.5 s exchange for 0.02 s, but for those that wait for a process that is stopped."""
    scene.watch.begin()
    scene.step(0.5)
    alike = []
    for n in range(60):
        exchange = 0.02 + stall * (n in stalled)
        scene.step(0.48 + exchange)
        if n % 10 == 0:
            alike.append(scene.watch.record_trace(exchange))
    traced = [n for n in stalled if n % 10 == 0]
    assert alike == [n not in traced for n in range(0, 60, 10)]
    # When the first trace is made it is not known yet how long others take.
    exchange = 60 * 0.02 + stall * (10 in stalled)
    assert scene.seconds["exchange"] == pytest.approx(exchange, rel=0.02)
    assert scene.seconds["step"] == pytest.approx(60 * 0.48)
    others = stall * (len(stalled) - (10 in stalled))
    assert scene.seconds.get("stalled", 0.0) == pytest.approx(others, rel=0.02)
    assert scene.watch.account.best == pytest.approx(0.048, rel=0.01)


@pytest.mark.parametrize("first", [3.0, 15.0])
def test_the_first_trace_may_be_of_a_stall(scene, first):
    scene.watch.begin()
    for _ in range(10):
        scene.step(0.5)
    scene.step(0.5 + first)
    assert not scene.watch.record_trace(first)
    for _ in range(100):
        scene.step(0.5)
    assert scene.seconds == pytest.approx({"start": 0.5, "step": 55, "exchange": first})
    scene.watch.record_trace(0.02)
    assert scene.seconds["exchange"] == pytest.approx(first + 109 * 0.02, abs=0.03)
    assert scene.watch.account.best == pytest.approx(0.048, rel=0.01)


def test_dear_traces_tell_the_share_of_the_exchange(scene):
    scene.watch.begin()
    for n in range(21):
        scene.step(0.1)
        if n in (10, 20):
            scene.step(1.0)
            is_alike = scene.watch.record_trace(0.5)
    assert is_alike
    assert scene.seconds["exchange"] == pytest.approx(2 * 0.5 + 20 * 0.05)


def test_a_step_that_works_while_it_waits_is_no_input_meanwhile(scene):
    """Of 0.3 s of waiting, an op that needs no batch sleeps for 0.1 s."""
    scene.watch.begin()
    for n in range(81):
        scene.step(0.301, waited=0.3)
        if n in (10, 30):
            assert scene.watch.record_trace(0.0, 0.1)
    assert scene.seconds == pytest.approx({"start": 0.301, "input": 16, "step": 8.08})
    assert scene.watch.account.best == pytest.approx(0.0101)


def test_no_step_hides_more_than_it_waited(scene):
    scene.watch.begin()
    scene.step(1)
    scene.step(1, waited=0.5)
    scene.watch.record_trace(0.75, 100.0)
    scene.step(1, waited=0.25)
    expected = {"start": 1, "exchange": 1.5, "step": 0.5}
    assert {k: v for k, v in scene.seconds.items() if v} == pytest.approx(expected)


_spans = st.floats(0, 100)


_parts = st.none() | st.tuples(st.floats(-1, 1000), st.floats(-1, 1000))


@example([(0.0, 0.0, 0.0, None), (5.0, 5.0, 0.0, None), (1.0, 5e-324, 0.0, (0.0, 1.0))])
@given(st.lists(st.tuples(_spans, _spans, _spans, _parts), max_size=60))
def test_no_time_of_an_account_is_negative(steps):
    scene = Scene("unused")
    scene.watch.begin()
    for took, waited, after, parts in steps:
        scene.step(took, waited, after)
        if parts is not None:
            scene.watch.record_trace(*parts)
        account = scene.watch.account
        assert all(seconds >= -1e-6 for seconds in account.seconds.values())
        assert sum(account.seconds.values()) == pytest.approx(scene.clock.now, abs=1e-2)
        assert account.best is None or account.best > 0


def test_the_best_pace_is_without_input_and_sustained(scene):
    scene.watch.begin()
    scene.step(1)
    for _ in range(4):
        scene.step(1)
    assert scene.watch.account.best is None
    for seconds in (1.0, 0.5, 2.0):
        for _ in range(30):
            scene.step(seconds + 1, waited=1)
    assert scene.watch.account.best == pytest.approx(0.05)


def test_one_fast_step_is_no_pace(scene):
    scene.watch.begin()
    scene.step(1)
    for n in range(200):
        scene.step(0.001 if n == 100 else 1)
    assert scene.watch.account.best == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("last", range(98, 105))
def test_a_long_evaluation_makes_no_pace_of_the_one_step_before_it(scene, last):
    scene.watch.begin()
    for n in range(200):
        scene.step(0.05, after=0.0 if n == last else 0.05)
        if n == last:
            scene.watch.enter("evaluation")
            scene.passes(10)
    assert scene.watch.account.best == pytest.approx(0.01, rel=0.02)


def test_long_runs_take_no_more_memory():
    work, sizes = StepWork(), []
    for _ in range(3000):
        work.add(1, 1.0)
        sizes.append(len(pickle.dumps(work)))
    assert max(sizes[600:]) <= max(sizes[:600])
    assert work.best == pytest.approx(1)


def test_the_account_is_written_now_and_then_once_training_has_begun(scene):
    scene.passes(5)
    scene.watch.keep(now=True)
    assert accounts.read(scene.run) == []
    scene.watch.begin()
    scene.watch.keep()
    scene.step(0.5)
    scene.watch.keep()
    [kept] = accounts.read(scene.run)
    assert kept.seconds == {"start": 5}
    scene.watch.keep(now=True)
    assert accounts.read(scene.run) == [scene.watch.account]


def test_an_account_that_cannot_be_written_fails_nothing(scene, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(accounts, "write", fail)
    scene.watch.begin()
    scene.watch.keep(now=True)


def test_a_real_session_waits_for_its_input(tmp_path):
    """A batch takes 0.2 s to come, the step itself 0.1 s more."""
    watch = Stopwatch(RunFolder(str(tmp_path)), "chief-0")
    with tf.Graph().as_default():
        late = tf.numpy_function(lambda: (time.sleep(0.2), np.float32(1))[1], [], tf.float32)
        stopwatch_hook.watch_input([late, None])
        with tf.control_dependencies([late]):
            worked = tf.numpy_function(lambda: (time.sleep(0.1), np.float32(1))[1], [], tf.float32)
        with tf.control_dependencies([worked]):
            op = v1.train.get_or_create_global_step().assign_add(1)
        with v1.train.SingularMonitoredSession(hooks=[StopwatchHook(watch, 1)]) as session:
            for _ in range(6):
                session.run(op)
        assert v1.get_collection("pipeline/input_wait") == []
    seconds = watch.account.seconds
    assert seconds["input"] == pytest.approx(5 * 0.2, abs=0.2)
    assert seconds["step"] == pytest.approx(5 * 0.1, abs=0.2)
    assert watch.account.ended


def test_no_op_takes_a_batch_before_its_time_is_taken():
    with tf.Graph().as_default():
        batch = v1.placeholder(tf.float32, [1]), v1.placeholder(tf.float32)
        used = [tf.square(batch[0]).op, tf.add(*batch).op]
        with tf.device("/job:ps/task:0"):
            table = v1.get_variable("table", [4], use_resource=True)
            remote = [tf.square(batch[0]).op]
        remote.append(table.scatter_update(tf.IndexedSlices(batch[0], [0])).op)
        stopwatch_hook.watch_input(batch)
        for op in used:
            assert [one.type for one in op.control_inputs] == ["Timestamp"]
        # That would be one more send in each step.
        assert not any(one.type == "Timestamp" for op in remote for one in op.control_inputs)


def test_a_part_of_a_batch_may_be_made_of_another():
    with tf.Graph().as_default():
        first = tf.constant(2.0)
        second = tf.square(first)
        squared = tf.square(second)
        stopwatch_hook.watch_input([first, second])
        [waited] = v1.get_collection("pipeline/input_wait")
        with v1.Session() as session:
            assert session.run([squared, waited])[0] == 16.0


def _slow(seconds, value):
    return tf.numpy_function(lambda x: (time.sleep(seconds), x)[1], [value], tf.float32)


def test_a_model_that_blocks_in_python_is_not_input(tmp_path):
    """The next batch is read while the model sleeps, so 0.2 s of 0.3 s are waited for. There is one
    thread for all ops: while it sleeps no other runs."""

    watch = Stopwatch(RunFolder(str(tmp_path)), "chief-0")
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensors(np.float32(1)).repeat()
        dataset = dataset.map(lambda x: _slow(0.3, x)).prefetch(1)
        batch = v1.data.make_one_shot_iterator(dataset).get_next()
        with tf.control_dependencies([_slow(0.1, batch + 1.0)]):
            op = v1.train.get_or_create_global_step().assign_add(1)
        stopwatch_hook.watch_input([batch])
        threads = v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
        hooks = [StopwatchHook(watch, 1)]
        with v1.train.SingularMonitoredSession(hooks=hooks, config=threads) as session:
            for _ in range(9):
                session.run(op)
    seconds = watch.account.seconds
    assert seconds["input"] == pytest.approx(8 * 0.2, abs=0.4)
    assert seconds["step"] == pytest.approx(8 * 0.1, abs=0.4)


def test_what_a_step_takes_many_times_as_long_as_others_has_stalled(scene):
    for _ in range(20):
        scene.step(0.1)
    scene.step(12.1)
    scene.step(0.1)
    assert scene.seconds == {"start": 0.1, "step": 2.1, "stalled": 12}


@pytest.fixture(params=["sleeper", "worker"])
def stand_still(request, scene):
    """Stops the process for 12 s while it is at something. Then any thread may run first: the one
    that sleeps, or the one that works and comes to its next state."""

    def stop():
        sleeper = scene.watch.watch_sleep(0.25)
        sleeper.__enter__()
        scene.passes(12.25)
        if request.param == "sleeper":
            sleeper.__exit__(None, None, None)

    return stop


def test_a_traced_step_has_stalled_even_if_its_trace_does_not_show_it(scene):
    for _ in range(20):
        scene.step(0.1)
    scene.step(6.1)
    assert not scene.watch.record_trace(0.0)
    assert scene.seconds == pytest.approx({"start": 0.1, "step": 2.0, "stalled": 6})


def test_a_step_in_which_the_process_stood_still_has_stopped(scene, stand_still):
    for _ in range(20):
        scene.step(0.1)
    scene.watch.enter("step")
    stand_still()
    scene.watch.record_step(10, 0.0)
    scene.step(0.1)
    found = {name: pytest.approx(value) for name, value in scene.seconds.items()}
    assert found == {"start": 0.1, "step": 2.25, "stopped": 12}
    assert scene.watch.account.best is None


def test_a_stop_while_a_batch_is_waited_for_is_no_input(scene, stand_still):
    for _ in range(20):
        scene.step(0.2, waited=0.1)
    scene.watch.enter("step")
    stand_still()
    scene.watch.record_step(10, 12.0)
    found = {name: pytest.approx(value) for name, value in scene.seconds.items()}
    assert found == {"start": 0.2, "step": 1.9, "input": 2.15, "stopped": 12}


def test_the_trace_of_a_step_with_a_stop_tells_nothing_of_others(scene, stand_still):
    for _ in range(20):
        scene.step(0.1)
    scene.watch.enter("step")
    stand_still()
    scene.watch.record_step(10, 0.0)
    assert not scene.watch.record_trace(12.0)
    assert "exchange" not in scene.seconds


@pytest.mark.parametrize("state", ["between", "saving", "evaluation", "waiting"])
def test_a_process_that_stood_still_between_two_steps_has_stopped(scene, stand_still, state):
    scene.step(0.1)
    scene.step(0.1)
    with scene.watch.time_state(state):
        stand_still()
    scene.step(0.1)
    found = {name: pytest.approx(value) for name, value in scene.seconds.items()}
    assert found == {"start": 0.1, "step": 0.2, state: 0.25, "stopped": 12}


def test_a_process_that_stood_still_while_it_started_has_started(scene, stand_still):
    stand_still()
    scene.step(0.1)
    assert scene.seconds == pytest.approx({"start": 12.35})


def test_a_thread_that_keeps_others_from_running_is_no_stop(tmp_path):
    """As a library that holds the interpreter's lock does."""
    clock = Clock()
    watch = Stopwatch(RunFolder(str(tmp_path)), "chief-0", clock=clock, processor=clock)
    watch.record_step(10, 0.0)
    with watch.watch_sleep(0.25):
        clock.now += 12
    assert watch.account.seconds == {"between": 12}


def test_few_steps_do_not_tell_that_one_has_stalled(scene):
    for seconds in (0.1, 0.1, 12.1, 0.1):
        scene.step(seconds)
    assert "stalled" not in scene.seconds


@pytest.mark.parametrize(
    ("early", "late"),
    [
        pytest.param(None, 0.0, id="unknown"),
        pytest.param(9.0, 0.0, id="ready before the step"),
        pytest.param(0.6, 0.0, id="ready before others are waited for"),
        pytest.param(0.1, 0.3, id="ready while others are waited for"),
        pytest.param(0.0, 0.4, id="ready after the step"),
    ],
)
def test_a_batch_that_comes_while_others_are_waited_for_is_late(scene, early, late):
    """Steps take 0.6 s, of which 0.4 are exchange."""
    for number in range(20):
        scene.step(0.6, early=early)
        if number == 12:
            scene.watch.record_trace(0.4)
    assert scene.seconds["exchange"] == pytest.approx(19 * 0.4)
    assert scene.watch.account.late == pytest.approx(18 * late)


def test_a_batch_is_late_by_the_work_of_steps_not_by_their_usual_exchange(scene):
    """Every other step waits for others for 0.5 s instead of 0.1, and all batches take 0.4 s."""
    exchange = itertools.cycle((0.1, 0.5))
    last = 0.0
    for _ in range(41):
        early = max(0.0, 0.2 + last - 0.4)
        waited = max(0.0, 0.4 - 0.2 - last)
        last = next(exchange)
        scene.step(waited + 0.2 + last, waited, early=early)
        scene.watch.record_trace(last)
    account = scene.watch.account
    # Of 0.2 s that each batch is late every other step waits for a half, and all of the others.
    assert account.seconds["input"] + account.late == pytest.approx(40 * 0.2, rel=0.05)


def test_what_is_not_known_of_a_step_makes_the_next_batch_not_late(scene):
    scene.step(0.6, early=0.0)
    for _ in range(3):
        scene.step(0.6, early=0.0)
        scene.watch.record_trace(0.4)
        scene.watch.begin()
        scene.step(9.0, early=0.0)
    assert scene.watch.account.late == 0


def test_a_real_session_tells_how_long_batches_were_ready(tmp_path):
    """The next batch is made in 0.1 s, and steps take 0.3 s: it lies for 0.2 s."""
    watch, early = Stopwatch(RunFolder(str(tmp_path)), "chief-0"), []
    watch.record_step = lambda examples, waited, ready: early.append(ready)
    slow = functools.partial(_slow, 0.1)
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensors((np.float32(1), np.float32(1))).repeat()
        dataset = ready_times.add(dataset.map(lambda x, y: (slow(x), y))).prefetch(1)
        timed, _ = v1.data.make_one_shot_iterator(dataset).get_next()
        with tf.control_dependencies([_slow(0.3, timed.features + 1.0)]):
            op = v1.train.get_or_create_global_step().assign_add(1)
        stopwatch_hook.watch_input([timed.features], timed.ready)
        with v1.train.SingularMonitoredSession(hooks=[StopwatchHook(watch, 1)]) as session:
            for _ in range(6):
                session.run(op)
    assert sum(early[1:]) == pytest.approx(5 * 0.2, abs=0.4)


def test_steps_that_exchange_for_less_than_usual_make_no_better_pace(scene):
    """All work for 0.1 s. The traced ones exchange for 0.2 s, of those after them none does."""
    for _ in range(25):
        scene.step(0.3)
        scene.watch.record_trace(0.2)
    for _ in range(40):
        scene.step(0.15)
    for _ in range(60):
        scene.step(0.1)
    assert 10 * scene.watch.account.best == pytest.approx(0.1)
