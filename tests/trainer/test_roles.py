"""What the roles say at their ends. Whole roles: test_task.py."""

from __future__ import annotations

import sys
import types

import pytest
import tensorflow as tf
from tensorflow.python.training import session_manager as tf_session_manager

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer import roles
from trainer.monitoring.status_reporter import Reporter

_tf = tf.errors


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


def test_only_the_chief_says_what_is_saved(run):
    """A worker that ends before the chief has saved would say step 0."""
    cluster = {"chief": ("h:1",), "worker": ("h:2",)}
    said = {
        role: str(
            roles.build_stopped_error(run, topology.Task(role, 0, cluster), Reporter(run, role, 10))
        )
        for role in cluster
    }
    assert said == {
        "chief": "stopped, saved at step 0. Run the same command to resume.",
        "worker": "stopped; the chief saves. Run the same command to resume.",
    }


def test_a_wrong_metric_ends_a_run_before_it_trains(run, small_records):
    job = small_records.config("train.steps=10", "eval.metric=acuracy")
    storage.write_text(run.config_path, config_file.dump(job))
    with pytest.raises(errors.UsageError, match=r"^eval\.metric 'acuracy': .* 'accuracy'\?\)$"):
        roles.run(run, small_records.folder, topology.Task(topology.CHIEF, 0))
    assert run_folder.find_saved_step(run) is None
    assert run_folder.read_statuses(run)["chief-0"].exit_code == errors.UsageError.exit_code


@pytest.mark.parametrize(
    ("cluster", "who_begins", "who_resumes"),
    [
        ({}, {topology.CHIEF}, {topology.CHIEF}),
        ({"chief": ("a:1",), "worker": ("b:1",)}, {topology.CHIEF}, {topology.EVALUATOR}),
    ],
)
def test_a_chief_that_is_started_again_leaves_the_metric_to_the_evaluator(
    run, cluster, who_begins, who_resumes
):
    def who():
        every = (topology.CHIEF, topology.WORKER, topology.EVALUATOR)
        return {n for n in every if roles.checks_model(run, topology.Task(n, 0, cluster))}

    assert who() == who_begins
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.create_global_step()
        session.run(step.initializer)
        tf.compat.v1.train.Saver().save(session, f"{run.path}/model.ckpt", global_step=7)
    assert who() == who_resumes


def test_an_end_without_a_reason_is_no_success(finished, tmp_path):
    """Input that runs dry looks like success to the framework."""
    run = finished.copy(tmp_path, 200)
    with pytest.raises(errors.ModelError, match="ended unexpectedly at step 200 of 300"):
        roles.declare_done(finished.job, run, None)
    assert run.read(run_folder.TRAINING_DONE) is None
    roles.declare_done(finished.job, run, "stop requested")
    done = run.read(run_folder.TRAINING_DONE)
    assert done == {"final_step": 200, "reason": "stop requested"}
    roles.declare_done(finished.job, run, "early stopping: no better", is_final=True)
    assert run.read(run_folder.TRAINING_DONE)["final"] is True


def test_a_run_that_is_asked_to_stop_at_its_last_step_is_done(finished, tmp_path):
    run = finished.copy(tmp_path, 300)
    roles.declare_done(finished.job, run, run_folder.STOP_REQUESTED)
    assert run.read(run_folder.TRAINING_DONE) == {"final_step": 300, "reason": "steps"}


def test_a_process_that_waits_for_the_chief_makes_progress_when_the_chief_does(run, monkeypatch):
    """Checking the records may take hours; a chief that stands still is no progress."""
    now = [0.0]
    chief = Reporter(run, "chief-0", 10, clock=lambda: now[0])
    worker = Reporter(run, "worker-0", 10, clock=lambda: now[0])
    worker.report("starting")
    done, seen = iter([1, 2, 3, 3, 3, None]), []

    def sleep(seconds):
        work = run_folder.read_status(run, "worker-0").work
        seen.append(work and work["done"])
        now[0] += 60.0
        step = next(done)
        if step is None:
            chief.report("starting")
        elif step not in seen[-1:]:
            chief.report_progress("checking records", step, 9)

    # Not `sleep` of the module, which threads of other tests call.
    monkeypatch.setattr(roles, "time", types.SimpleNamespace(sleep=sleep))
    roles.await_chief(run, ["starting"], worker)
    assert seen == [None, 1, 2, 3, 3, 3]


@pytest.mark.parametrize("counted", [True, False])
def test_sessions_on_servers_are_ours_whatever_the_input_is(counted):
    """TensorFlow's own leaves a worker asleep for half a minute after the loss of a server."""
    position = types.SimpleNamespace(before_session=lambda session: None)
    parts = types.SimpleNamespace(position=position if counted else None)
    theirs = tf_session_manager.SessionManager
    task = topology.Task(topology.WORKER, 0, {"worker": ("h:1",), "ps": ("h:2",)})
    with roles._open_sessions(task, parts):
        assert tf_session_manager.SessionManager is not theirs
    with roles._open_sessions(topology.Task(topology.CHIEF, 0), parts):
        assert tf_session_manager.SessionManager is theirs


@pytest.mark.parametrize("is_unique", [True, False])
def test_requests_that_may_be_refused_are_warned_of(monkeypatch, is_unique):
    lines = []
    monkeypatch.setattr(roles.request_numbers, "make_unique", lambda: is_unique)
    monkeypatch.setattr(tf.get_logger(), "warning", lines.append)
    monkeypatch.setattr(sys, "platform", "linux")
    roles._number_requests()
    assert len(lines) == (0 if is_unique else 1)
    assert all("docs/tensorflow-pitfalls.md#numbers-of-requests" in line for line in lines)
