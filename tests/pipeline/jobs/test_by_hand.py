"""Who records the end of a run without a launcher, and what."""

from __future__ import annotations

import os
import socket

import pytest

from pipeline import errors
from pipeline.cluster import topology
from pipeline.jobs import by_hand
from pipeline.jobs import job as jobs
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import Status

HERE, NOBODY = socket.gethostname(), 999999999
CLUSTER = {"chief": ["h0:1"], "worker": ["h1:1"]}
LATER = errors.RetryableError("a peer was lost")


@pytest.fixture
def job(tmp_path):
    return jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))


def ending(job, name="chief", cluster=CLUSTER):
    return by_hand.EndRecorder(job, topology.Task(name, 0, cluster), started=0.0)


def say(job, task, state, **values):
    said = {"pid": os.getpid(), "host": HERE, "time": 4e9, **values}
    run_folder.write_status(job.run, Status(task=task, state=state, **said))


def train(job, step=60, reason="steps"):
    job.run.write(run_folder.TRAINING_DONE, {"final_step": step, "reason": reason})


def evaluate(job, step=60):
    metrics = {"test": {"accuracy": 0.5}}
    exports = {"final": f"export/final/{step}"}
    job.run.write(run_folder.RESULT, {"final_step": step, "metrics": metrics, "exports": exports})


@pytest.fixture
def begun(job):
    ending(job).begin()
    return job


def recorded(job):
    record = run_record.read(job.run)
    return record.status, record.reason, record.exit_code, record.final_step


UNTOLD = ("running", "started by hand", None, None)
UNEVALUATED = "not evaluated yet: start --job_name=evaluator (a script by its TF_CONFIG)"


def test_a_single_process_records_everything(begun, capsys):
    with by_hand.record_end(ending(begun, cluster={})):
        train(begun, reason="deadline: train.max_seconds=9")
        evaluate(begun)
        say(begun, "chief-0", "done", step=60, seconds={"read": 0.5, "checkpoints": 1.0})
    assert recorded(begun) == ("done", "deadline: train.max_seconds=9", 0, 60)
    record = run_record.read(begun.run)
    assert record.launcher is None and record.launches == 1
    assert record.metrics == {"test": {"accuracy": 0.5}}
    assert record.step_seconds == {"chief-0": {"read": 0.5}}
    assert record.seconds["checkpoints"] == 1.0 and record.seconds["total"] > 0
    said = capsys.readouterr().out
    assert "result   step 60 (deadline: train.max_seconds=9), test accuracy 0.5000" in said
    assert "export/final/60 (final)" in said


def test_in_a_cluster_the_evaluator_does(begun, capsys):
    say(begun, "evaluator-0", "waiting")
    with by_hand.record_end(ending(begun)):
        train(begun)
        say(begun, "chief-0", "done", step=60)
    assert (recorded(begun), capsys.readouterr().out) == (UNTOLD, "")
    with by_hand.record_end(ending(begun, "evaluator")):
        evaluate(begun)
        say(begun, "evaluator-0", "done", note="3 of 5 checkpoints were not evaluated")
    assert recorded(begun) == ("done", "all steps made", 0, 60)
    assert run_record.read(begun.run).cluster == CLUSTER
    said = capsys.readouterr().out
    assert said.startswith("evaluator-0: 3 of 5 checkpoints were not evaluated\nresult   step 60,")


@pytest.mark.parametrize(
    "evaluator", [None, {"state": "failed"}, {"state": "evaluating", "pid": NOBODY}]
)
def test_the_chief_warns_if_there_is_no_evaluator(begun, evaluator, capsys):
    evaluate(begun, 30)  # of an earlier end
    if evaluator is not None:
        say(begun, "evaluator-0", **evaluator)
    with by_hand.record_end(ending(begun)):
        train(begun)
        say(begun, "chief-0", "done", step=60)
    assert recorded(begun) == ("trained", UNEVALUATED, 0, 60)
    assert run_record.read(begun.run).metrics == {}
    assert capsys.readouterr().out == f"training is over, {UNEVALUATED}, also now\n"


def test_a_chief_started_again_after_everything_records_it(begun):
    evaluate(begun)
    with by_hand.record_end(ending(begun)):
        train(begun)
    assert recorded(begun)[:3] == ("done", "all steps made", 0)


@pytest.mark.parametrize(
    ("raised", "state", "found"),
    [
        (LATER, "failed", ("failed", "a peer was lost", 75, 7)),
        (errors.ModelError("nan"), "failed", ("failed", "nan", 70, 7)),
        (errors.RetryableError("stopped, saved"), "stopped", ("stopped", "stopped, saved", 75, 7)),
        (KeyboardInterrupt(), "stopped", ("stopped", "stopped", 75, 7)),
        (KeyError("k"), "failed", ("failed", "KeyError: 'k'", 1, 7)),
    ],
)
def test_a_chief_records_its_failure(begun, raised, state, found):
    evaluate(begun, 30)  # of an earlier end
    with pytest.raises(type(raised)), by_hand.record_end(ending(begun)):
        say(begun, "chief-0", state, step=7)
        raise raised
    assert recorded(begun) == found


def test_one_that_ends_abruptly_can_record_it(begun):
    by_hand.note_end(LATER)  # of a process that no hand has started
    assert recorded(begun) == UNTOLD
    with by_hand.record_end(ending(begun)):
        say(begun, "chief-0", "stopped")
        by_hand.note_end(errors.RetryableError("stopped at once"))
        assert recorded(begun) == ("stopped", "stopped at once", 75, None)


@pytest.mark.parametrize("name", ["worker", "evaluator"])
def test_what_others_fail_with_is_no_end_while_the_chief_trains(begun, name):
    with pytest.raises(errors.RetryableError), by_hand.record_end(ending(begun, name)):
        raise LATER
    assert recorded(begun) == UNTOLD


def test_an_evaluator_that_fails_after_training_is_one(begun):
    train(begun)
    with pytest.raises(errors.RetryableError), by_hand.record_end(ending(begun, "evaluator")):
        raise LATER
    assert recorded(begun) == ("failed", "a peer was lost", 75, None)


def test_a_failing_evaluator_does_not_end_a_finished_run(begun):
    train(begun)
    with by_hand.record_end(ending(begun, "evaluator")):
        evaluate(begun)
    with pytest.raises(errors.RetryableError), by_hand.record_end(ending(begun, "evaluator")):
        raise LATER
    assert recorded(begun)[:3] == ("done", "all steps made", 0)


def test_the_record_of_a_launcher_is_left_to_it(job):
    run_record.write(job.run, run_record.begin(job.config, job.run))
    before = job.run.read("run.json")
    with by_hand.record_end(ending(job, cluster={})):
        train(job)
        evaluate(job)
    assert job.run.read("run.json") == before


def test_a_record_that_cannot_be_written_hides_no_error(begun, monkeypatch):
    def full(*_):
        raise errors.RetryableError("no space left")

    monkeypatch.setattr(run_record, "write", full)
    with pytest.raises(errors.ModelError, match="nan"), by_hand.record_end(ending(begun)):
        raise errors.ModelError("nan")


def test_launches_and_restarts_of_earlier_starts_are_kept(begun):
    ending(begun).begin()
    assert run_record.read(begun.run).launches == 2
