"""Traces of real steps: how often, what they say, and what is left on disk."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.monitoring import server_load, step_time
from trainer.monitoring.server_load import Load
from trainer.monitoring.status_reporter import Reporter
from trainer.monitoring.stopwatch import Stopwatch
from trainer.monitoring.stopwatch_hook import StopwatchHook
from trainer.monitoring.trace_hook import CheckpointTimes, TraceHook

v1 = tf.compat.v1


class Clock:
    """Moves on by a millisecond whenever it is looked at."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.001
        return self.now


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


@pytest.fixture
def reporter(run):
    return Reporter(run, "chief-0", 100)


def train(hook, steps, *others):
    with tf.Graph().as_default():
        op = v1.train.get_or_create_global_step().assign_add(1)
        with v1.train.SingularMonitoredSession(hooks=[*others, hook]) as session:
            for _ in range(steps):
                session.run(op)


def summaries(folder):
    """Returns (tag, step, value) of the train events in a folder."""
    v1.summary.FileWriterCache.clear()
    return [
        (value.tag, event.step, value.simple_value)
        for path in folder.glob("events.*")
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]


def test_steps_of_the_profile_are_written_for_a_timeline(run, reporter, tmp_path):
    profile = config.Profile(start=3, stop=5)
    train(TraceHook(run, "worker-0", reporter, profile=profile, model_dir=None), 8)
    for step in (3, 4):
        [path] = (tmp_path / "plugins" / "profile" / f"step-{step}").iterdir()
        assert path.name == "worker-0.trace.json.gz"
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        assert any("AssignAdd" in event["name"] for event in events)
    assert len(list((tmp_path / "plugins" / "profile").iterdir())) == 2


def test_where_the_time_of_a_step_goes_is_reported_once_in_a_while(run, reporter, tmp_path):
    clock = Clock()
    reporter.watch = Stopwatch(run, "chief-0", clock=Clock())
    hook = TraceHook(run, "chief-0", reporter, profile=None, model_dir=run.path, clock=clock)
    train(hook, 40, StopwatchHook(reporter.watch, 8))
    reporter.report("done")
    (status,) = run_folder.read_statuses(run).values()
    assert set(status.seconds) == {"step", "between_steps", "compute", "exchange", "input", "other"}
    # The clocks are looked at once in a step, and once between two.
    assert status.seconds["step"] == pytest.approx(0.001, rel=1)
    assert status.seconds["between_steps"] == pytest.approx(0.001)
    found = summaries(tmp_path)
    assert {tag for tag, _, _ in found} == {f"seconds/{name}" for name in status.seconds}
    assert len(found) == len(status.seconds)
    assert not (tmp_path / "profile").exists()


def test_saves_and_evaluations_are_not_between_steps(run, reporter):
    now = 0.0
    watch = reporter.watch = Stopwatch(run, "chief-0", clock=lambda: now)

    class Others(v1.train.SessionRunHook):
        steps = 0

        def after_run(self, run_context, run_values):
            nonlocal now
            now += 0.002
            self.steps += 1
            if self.steps % 3 == 0:
                with watch.time_state("saving"):
                    now += 1.0
            if self.steps % 6 == 0:
                watch.enter("evaluation")
                now += 10.0

    hook = TraceHook(run, "chief-0", reporter, profile=None, model_dir=None, clock=lambda: now)
    train(Others(), 40, StopwatchHook(watch, 8), hook)
    reporter.report("done")
    assert reporter.status.seconds["between_steps"] == pytest.approx(0.002)


def test_the_next_trace_waits_until_the_last_has_paid(run, reporter, tmp_path):
    """A trace that cost a second is the only one in two hundred."""

    class Slow(Clock):
        def __call__(self):
            self.now += 0.1
            return self.now

    clock = Slow()
    train(TraceHook(run, "chief-0", reporter, profile=None, model_dir=run.path, clock=clock), 300)
    assert clock.now > 50
    assert 1 < len({step for _, step, _ in summaries(tmp_path)}) <= 4


class Process:
    """Makes steps of half a second, of which some stand still for 15 s, by a clock of its own."""

    def __init__(self, run, reporter, stalled, model_dir=None):
        self.now, self.steps, self.traced, self._stalled = 0.0, 0, [], stalled
        reporter.watch = Stopwatch(run, "chief-0", clock=lambda: self.now)
        self.account = lambda: reporter.watch.account
        hook = TraceHook(
            run, "chief-0", reporter, profile=None, model_dir=model_dir, clock=lambda: self.now
        )
        self._hooks = [StopwatchHook(reporter.watch, 8), hook]

    def step(self):
        self.now += 15.5 if self.steps in self._stalled else 0.5
        self.steps += 1
        return np.float32(0)

    def train(self, monkeypatch, steps):
        def split(step_stats, seconds):
            self.traced.append(self.steps - 1)
            exchange = 15.02 if self.traced[-1] in self._stalled else 0.02
            parts = {"compute": 0.48, "exchange": exchange, "input": 0.0, "other": 0.0}
            return step_time.StepBreakdown(parts, hidden=0.0)

        monkeypatch.setattr(step_time, "split", split)
        with tf.Graph().as_default():
            made = tf.numpy_function(self.step, [], tf.float32)
            with tf.control_dependencies([made]):
                op = v1.train.get_or_create_global_step().assign_add(1)
            with v1.train.SingularMonitoredSession(hooks=self._hooks) as session:
                for _ in range(steps):
                    session.run(op)


@pytest.mark.parametrize("stalled", [{13}, {13, 21}, {16}, set()])
def test_a_stall_in_a_traced_step_delays_no_trace(run, reporter, monkeypatch, stalled):
    process = Process(run, reporter, stalled)
    process.train(monkeypatch, 70)
    assert len(process.traced) > 3
    account = process.account()
    assert account.seconds["exchange"] == pytest.approx(69 * 0.02, abs=0.1)
    assert account.seconds.get("stalled", 0) == 15 * len(stalled)
    assert account.best == pytest.approx(0.48 / 8, rel=0.05)
    reporter.report("done")
    assert run_folder.read_statuses(run)["chief-0"].seconds["exchange"] == pytest.approx(0.02)


def test_a_stalled_step_is_reported_while_there_is_no_other(run, reporter, monkeypatch):
    """A short run has but one trace."""
    Process(run, reporter, {13}).train(monkeypatch, 15)
    reporter.report("done")
    found = run_folder.read_statuses(run)["chief-0"].seconds
    assert found["exchange"] == pytest.approx(15.02) and found["compute"] == 0.48


def _trace_loads(run, reporter, monkeypatch, loads):
    """Makes 120 steps in a minute, whose traces have the next of `loads`, the last one for ever;
    returns the steps that were traced, and with them the warnings of servers."""
    left, warned = list(loads), []

    def sum_by_server(step_stats):
        return left.pop(0) if len(left) > 1 else left[0]

    def warn(text, *values):
        line = text % values if values else text
        if line.startswith("ps-"):
            warned.append((process.traced[-1], line))

    process = Process(run, reporter, set(), model_dir=run.path)
    monkeypatch.setattr(server_load, "sum_by_server", sum_by_server)
    monkeypatch.setattr(tf.get_logger(), "warning", warn)
    process.train(monkeypatch, 120)
    reporter.report("done")
    return process.traced, warned


def test_what_is_asked_of_servers_is_reported_and_summarised(run, reporter, monkeypatch, tmp_path):
    loads = {0: Load(rows=150, bytes=4000, pulled=3000), 1: Load(rows=50, bytes=2000, pulled=500)}
    traced, warned = _trace_loads(run, reporter, monkeypatch, [loads])
    assert warned == []  # 150 is 1.5 times the mean, and no more
    status = run_folder.read_statuses(run)["chief-0"]
    assert status.note is None
    assert status.servers == [
        {"rows": 150, "bytes": 4000, "pulled": 3000},
        {"rows": 50, "bytes": 2000, "pulled": 500},
    ]
    reported = traced[:1]
    for step in traced:
        if step - reported[-1] >= 20:  # ten seconds
            reported.append(step)
    assert len(reported) > 3
    found = {}
    for tag, step, value in summaries(tmp_path):
        found.setdefault(tag, []).append((step, value))
    wanted = {"rows/ps-0": 150, "rows/ps-1": 50, "bytes/ps-0": 4000, "bytes/ps-1": 2000}
    assert {tag for tag in found if "servers" in tag} == {f"servers/{tag}" for tag in wanted}
    for tag, value in wanted.items():
        assert [one for _, one in found[f"servers/{tag}"]] == [value] * len(reported)
        # The step is read while it is counted.
        steps = [step for step, _ in found[f"servers/{tag}"]]
        assert all(0 <= step - at <= 1 for step, at in zip(steps, reported, strict=True))


def test_a_server_that_is_asked_for_more_is_warned_of_once(run, reporter, monkeypatch):
    """Not by a single trace; and not again with other numbers."""
    loads = [
        {0: Load(rows=330 + 10 * number, bytes=4000, pulled=3000), 1: Load(rows=70, bytes=4000)}
        for number in range(30)
    ]
    traced, warned = _trace_loads(run, reporter, monkeypatch, loads)
    [(step, line)] = warned
    # The first report is that of the first trace; the next one is of the first five.
    assert step == traced[4]
    assert line == (
        "ps-0 is asked for 350 rows a step, 1.7 times the mean of the servers; a small "
        "cluster.partition_bytes cuts more variables over all of them"
    )
    status = run_folder.read_statuses(run)["chief-0"]
    assert status.note == line
    assert status.servers[0]["rows"] > 400


def test_without_servers_the_status_has_no_loads(run, reporter, monkeypatch, tmp_path):
    _, warned = _trace_loads(run, reporter, monkeypatch, [{}])
    status = run_folder.read_statuses(run)["chief-0"]
    assert (warned, status.servers, status.note) == ([], None, None)
    assert not any(tag.startswith("servers/") for tag, _, _ in summaries(tmp_path))


def test_workers_write_no_events(run, reporter, tmp_path):
    train(TraceHook(run, "worker-0", reporter, profile=None, model_dir=None), 20)
    assert list(tmp_path.glob("events.*")) == []


def test_saves_are_summed_and_summarised(run, reporter, tmp_path):
    times = CheckpointTimes(run.path, reporter)
    with tf.Graph().as_default():
        times(10, 0.5)
        times(20, 0.25)
    reporter.report("training")
    assert run_folder.read_statuses(run)["chief-0"].seconds == {"checkpoints": 0.75}
    assert summaries(tmp_path) == [
        ("seconds/checkpoint", 10, 0.5),
        ("seconds/checkpoint", 20, 0.25),
    ]


@pytest.mark.parametrize("window", [(5, 5), (6, 5), (0, 101)])
def test_a_profile_is_a_short_window(window):
    start, stop = window
    with pytest.raises(errors.UsageError, match=r"train\.profile: start=\d, .*1 to 100 steps"):
        config_file.load("mnist", [f"train.profile={{start: {start}, stop: {stop}}}"])
