"""Staleness counted in a session in which others update meanwhile."""

from __future__ import annotations

import itertools
import time
import types

import pytest
import tensorflow as tf

from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.monitoring import staleness
from trainer.monitoring.status_reporter import Reporter

v1 = tf.compat.v1
CLUSTER = {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)}


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


def train(run, task, updates_of_others, steps, clock=time.monotonic):
    """Trains; in each step others make so many updates before this process's is applied."""
    reporter = Reporter(run, task.name, 100)
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        # What is fetched for the variable is read first, as all variables are.
        with tf.control_dependencies([step.graph.as_graph_element(step)]):
            others = step.assign_add(updates_of_others, read_value=False)
        with tf.control_dependencies([others]):
            op = step.assign_add(1, read_value=False)
        staleness.watch(types.SimpleNamespace(train_op=op))
        hook = staleness.StalenessHook(run, task, reporter, clock=clock)
        with v1.train.SingularMonitoredSession(hooks=[hook]) as session:
            for _ in range(steps):
                session.run(op)
    reporter.report("done")
    v1.summary.FileWriterCache.clear()


@pytest.mark.parametrize("late", [0, 3])
def test_updates_of_others_between_reading_and_applying_are_counted(run, late):
    train(run, topology.Task("worker", 0, CLUSTER), late, 25)
    # Every tenth step is looked at.
    assert run_folder.read_statuses(run)["worker-0"].staleness == {str(late): 3}


def test_what_is_counted_is_told_at_the_next_word(run):
    """Steps may take so long that the hundredth is minutes away."""
    task = topology.Task("worker", 0, CLUSTER)
    reporter = Reporter(run, task.name, 100)
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        staleness.watch(types.SimpleNamespace(train_op=tf.no_op()))
        hook = staleness.StalenessHook(run, task, reporter)
        hook.begin()
    for step in range(25):
        asked = hook.before_run(None)
        found = None if asked is None else (step, step + 3)
        hook.after_run(None, types.SimpleNamespace(results=found))
    reporter.report("training")
    assert run_folder.read_statuses(run)["worker-0"].staleness == {"2": 3}


def test_the_chief_writes_the_histograms_of_all(run, tmp_path):
    train(run, topology.Task("worker", 0, CLUSTER), 2, 25)
    assert list(tmp_path.glob("events.*")) == []
    train(run, topology.Task("chief", 0, CLUSTER), 1, 25)
    found = {
        value.tag: value
        for path in tmp_path.glob("events.*")
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert set(found) == {
        f"{tag}/{task}"
        for tag in ("staleness", "staleness_mean")
        for task in ("chief-0", "worker-0")
    }
    chief, worker = (found[f"staleness/{task}"].histo for task in ("chief-0", "worker-0"))
    assert (chief.num, chief.max, worker.num, worker.sum) == (3, 1, 3, 6)
    assert found["staleness_mean/worker-0"].simple_value == 2


@pytest.mark.parametrize(("seconds", "looks"), [(1, 1), (15, 3), (100, 6)])
def test_the_chief_reads_the_statuses_of_others_now_and_then(run, monkeypatch, seconds, looks):
    """500 steps; it asks for the time every hundred, and they take so many seconds."""
    read, made = run_folder.read_statuses, []
    monkeypatch.setattr(run_folder, "read_statuses", lambda r: (made.append(1), read(r))[1])
    times = itertools.count(0, seconds)
    train(run, topology.Task("chief", 0, CLUSTER), 0, 401, lambda: next(times))
    assert len(made) == looks


def test_a_histogram_has_a_bucket_a_value():
    found = staleness.build_histogram({0: 5, 2: 1})
    assert (found.min, found.max, found.num, found.sum, found.sum_squares) == (0, 2, 6, 2, 4)
    assert list(found.bucket_limit) == [0.5, 2.5]
    assert list(found.bucket) == [5, 1]
