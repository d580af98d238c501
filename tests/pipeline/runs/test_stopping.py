"""Asking a run to end."""

from __future__ import annotations

import os
import socket

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.runs import run_folder, run_lock, run_record, stopping
from pipeline.runs.run_folder import RunFolder, Status

NOW = 1000.0


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path / "r"))


@pytest.fixture
def launched(run):
    record = run_record.begin(config_file.load("mnist"), run)
    record.launcher.seen = NOW
    run_record.write(run, record)
    return record


def test_a_running_run_is_asked_to_stop(run, launched):
    with run_lock.hold(run):
        stopping.ask(run, NOW)
    assert run.read(run_folder.STOP) == {"reason": "stop requested"}


def test_one_by_hand_too(run):
    chief = Status("chief-0", os.getpid(), socket.gethostname(), "training", NOW)
    run_folder.write_status(run, chief)
    stopping.ask(run, NOW)
    assert run.read(run_folder.STOP) is not None


def test_one_whose_launcher_was_killed_cannot_be(run, launched):
    with pytest.raises(errors.UsageError, match=r"'r': is not training \(died: its launcher .* is"):
        stopping.ask(run, NOW)
    assert run.read(run_folder.STOP) is None


@pytest.mark.parametrize("state", ["done", "stopped", "failed"])
def test_a_run_that_has_ended_is_not_asked_to_stop(run, launched, state):
    launched.status, launched.reason = state, "so it was."
    run_record.write(run, launched)
    match = rf"is not training \({state}: so it was\); nothing to stop"
    with pytest.raises(errors.UsageError, match=match):
        stopping.ask(run, NOW)


def test_a_run_that_only_evaluates_is_not_asked_to_stop(run, launched):
    run.write(run_folder.TRAINING_DONE, {"final_step": 5, "reason": "steps"})
    with run_lock.hold(run), pytest.raises(errors.UsageError, match="has ended training"):
        stopping.ask(run, NOW)


def test_the_launcher_of_a_script_on_another_host_is_stopped_there(run):
    record = run_record.begin_as(run, config="train", strategy="script", topology={"chief": 1})
    record.launcher.host, record.launcher.seen = "elsewhere", NOW
    run_record.write(run, record)
    run.write(run_folder.SCRIPT, {"command": ["train"]})
    with pytest.raises(
        errors.UsageError, match=r"its launcher \(pid \d+\) is on 'elsewhere'; stop"
    ):
        stopping.ask(run, NOW)
    assert run.read(run_folder.STOP) is None
