"""Who is still there."""

from __future__ import annotations

import os
import pathlib
import socket

import pytest

from pipeline.config import config_file
from pipeline.runs import liveness, run_folder, run_lock, run_record
from pipeline.runs.run_folder import RunFolder, Status

HERE, ELSEWHERE = socket.gethostname(), "another-host"
NOBODY = 999999999
NOW = 1000.0


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path / "r"))


@pytest.fixture
def record(run):
    """Of a launcher of this machine that has given a sign of life."""
    made = run_record.begin(config_file.load("mnist"), run)
    made.launcher.seen = NOW
    return made


def status(state="training", task="chief-0", **values):
    said = {"pid": os.getpid(), "host": HERE, "time": NOW, **values}
    return Status(task=task, state=state, **said)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (status(), "training"),
        (status(pid=NOBODY), "gone"),
        (status("done", pid=NOBODY), "done"),
        (status("stopped", pid=NOBODY), "stopped"),
        (status(host=ELSEWHERE, pid=NOBODY), "training"),
        (status(host=ELSEWHERE, time=NOW - 31), "silent"),
        (status(host=ELSEWHERE, time=NOW - 31, seen=NOW - 5), "training"),
        # Alive, and stopped by a signal.
        (status(time=NOW - 31), "silent"),
    ],
)
def test_what_a_process_said_holds_while_it_is_there(run, said, state):
    assert liveness.find_process_state(run, said, NOW) == state


def test_signs_of_life_are_rarer_on_cloud_storage(run):
    remote = RunFolder("gs://bucket/runs/r")
    said = status(host=ELSEWHERE, time=NOW - 100)
    assert liveness.find_process_state(run, said, NOW) == "silent"
    assert liveness.find_process_state(remote, said, NOW) == "training"


def test_here_the_lock_tells_of_the_launcher(run, record):
    with run_lock.hold(run):
        assert liveness.explain_death(run, record, NOW + 3600) == ""
    why = liveness.explain_death(run, record, NOW)
    assert why == f"its launcher (pid {os.getpid()} on {HERE}) is gone"


def test_elsewhere_the_age_of_the_last_sign_of_life_does(run, record):
    record.launcher.host = ELSEWHERE
    assert liveness.explain_death(run, record, NOW + 29) == ""
    why = liveness.explain_death(run, record, NOW + 90)
    assert why.endswith("on another-host) has given no sign of life for 90 s")
    # One that only follows a job may end without it.
    record.launcher.seen = None
    assert liveness.explain_death(run, record, NOW + 90) == ""


def test_the_state_of_a_run_with_a_launcher(run, record):
    at_work, lost = {"chief-0": status()}, {"chief-0": status(pid=NOBODY)}
    with run_lock.hold(run):
        assert liveness.state_of_run(run, record, lost, now=NOW) == ("running", "training")
    state, why = liveness.state_of_run(run, record, lost, now=NOW)
    assert state == "died" and why.endswith("is gone")
    # It is resumed by hand.
    assert liveness.state_of_run(run, record, at_work, now=NOW) == ("running", "started by hand")
    record.status, record.reason = "done", "all steps made"
    assert liveness.state_of_run(run, record, at_work, now=NOW) == ("done", "all steps made")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ([status()], ("running", "started by hand")),
        ([status("preparing")], ("starting", "started by hand")),
        (
            [status("starting", host=ELSEWHERE), status("serving", "ps-0")],
            ("starting", "started by hand"),
        ),
        # The chief has trained, and others have still to notice.
        ([status("done"), status("serving", "ps-0")], ("running", "started by hand")),
        ([status(pid=NOBODY), status("waiting", "evaluator-0")], ("running", "started by hand")),
        ([status(pid=NOBODY)], ("died", "no process of it is alive")),
        (
            [
                status("stopped", error="stopped, saved at step 7"),
                status("gone", "ps-0", pid=NOBODY),
            ],
            ("stopped", "stopped, saved at step 7"),
        ),
        ([status("failed", error="no such file")], ("failed", "no such file")),
        ([], ("not started", "no process of it has begun")),
    ],
)
def test_the_state_of_a_run_by_hand(run, said, found):
    statuses = {one.task: one for one in said}
    assert liveness.state_of_run(run, None, statuses, now=NOW) == found


@pytest.mark.parametrize(("copied", "state"), [(7, "not started"), (5, "died"), (None, "died")])
def test_a_copy_that_has_not_begun_is_not_started(run, copied, state):
    pathlib.Path(run.path).mkdir()
    pathlib.Path(run.path, "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    pathlib.Path(run.path, "model.ckpt-7.index").touch()
    if copied is not None:
        run.write(run_folder.COPIED, {"of": "parent", "step": copied})
    assert liveness.state_of_run(run, None, {}, now=NOW)[0] == state


def test_a_run_by_hand_without_an_evaluator_is_trained(run):
    run.write(run_folder.TRAINING_DONE, {"final_step": 5, "reason": "steps"})
    state, why = liveness.state_of_run(run, None, {"chief-0": status("done")}, now=NOW)
    assert state == "trained" and "start --job_name=evaluator" in why


def test_a_run_by_hand_is_done_when_there_is_a_result(run):
    run.write(run_folder.RESULT, {"final_step": 5})
    lost = {"chief-0": status("done"), "ps-0": status("serving", "ps-0", pid=NOBODY)}
    assert liveness.state_of_run(run, None, lost, now=NOW) == ("done", "")


def test_a_run_that_was_asked_to_stop_is_stopped_though_it_ended_well(run, record):
    stopping = run_folder.STOP_REQUESTED
    run.write(run_folder.RESULT, {"final_step": 5})
    run.write(run_folder.TRAINING_DONE, {"final_step": 5, "reason": stopping})
    assert liveness.state_of_run(run, None, {}, now=NOW) == ("stopped", stopping)
    for launcher in (record.launcher, None):
        ended = record.model_copy(update={"status": "done", "launcher": launcher})
        ended.reason = stopping
        assert liveness.state_of_run(run, ended, {}, now=NOW) == ("stopped", stopping)
        assert [one.status for one in run_record.launches(ended)] == ["stopped"]
        for reason in (run_record.ALL_STEPS, "deadline: train.max_seconds=5", "paused at step 5"):
            ended.reason = reason
            assert liveness.state_of_run(run, ended, {}, now=NOW) == ("done", reason)


@pytest.mark.parametrize("state", ["trained", "done", "stopped", "failed"])
def test_an_end_recorded_by_hand_holds_until_the_run_is_resumed(run, state):
    record = run_record.begin(config_file.load("mnist"), run, by_hand=True)
    record.status, record.reason = state, "so it was"
    assert liveness.state_of_run(run, record, {}, now=NOW) == (state, "so it was")
    evaluating = {"chief-0": status("done"), "evaluator-0": status("evaluating", "evaluator-0")}
    found = liveness.state_of_run(run, record, evaluating, now=NOW)
    assert found == (("done", "so it was") if state == "done" else ("running", "started by hand"))


def test_a_run_by_hand_whose_processes_were_killed(run):
    record = run_record.begin(config_file.load("mnist"), run, by_hand=True)
    found = liveness.state_of_run(run, record, {"chief-0": status(pid=NOBODY)}, now=NOW)
    assert found == ("died", "no process of it is alive")
