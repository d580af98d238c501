"""A supervisor that is asked to stop: what may be saved, and what is killed when."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

from pipeline import errors
from pipeline.supervision.plan import Graces
from pipeline.supervision.watchdog import HangLimits
from tests.pipeline.process_help import is_alive, wait_until
from tests.pipeline.supervision.stage import SINGLE

pytestmark = pytest.mark.heavy


def when_training(stage, *names):
    """Has the supervisor's own process get SIGTERM once the named processes train."""
    sent = []

    def react(statuses):
        if not sent and all(n in statuses and statuses[n].step for n in names):
            sent.append(os.kill(os.getpid(), signal.SIGTERM))

    stage.notes.react = react


def test_a_stop_request_lets_training_save_first_and_then_ends_all(stage):
    when_training(stage, "chief-0", "worker-0")
    with pytest.raises(errors.StoppedError, match=r"^stopped by SIGTERM, saved at step 7\. Run"):
        stage.run(chief_0=["train"], worker_0=["train"], evaluator_0=["hang"])
    assert (stage.path / "saved-chief-0.json").exists()
    assert (stage.path / "saved-worker-0.json").exists()
    # What they last did is part of the record: the step they saved at may be a later one.
    assert stage.notes.statuses["chief-0"].state == "stopped"


def test_everybody_may_be_asked_to_stop_at_once(stage):
    """As by a machine that shuts down: who saves and ends first is not lost, for which the others
    would be ended and started again."""

    def react(statuses):
        if {"chief-0", "worker-0"} <= set(statuses) and not stage.stop.count:
            (worker,) = stage.pids("worker-0")
            os.kill(worker, signal.SIGTERM)
            wait_until(lambda: not pathlib.Path(f"/proc/{worker}").exists())
            os.kill(os.getpid(), signal.SIGTERM)

    stage.notes.react = react
    with pytest.raises(errors.StoppedError, match=r"^stopped by SIGTERM, saved at step 7\. Run"):
        stage.run(unit="gang", chief_0=["train"], worker_0=["train"])
    assert stage.boss.restarts == []


def test_a_process_that_does_not_stop_is_killed_after_its_grace(stage):
    when_training(stage, "chief-0")
    with pytest.raises(errors.RetryableError, match="SIGTERM, before anything was saved"):
        stage.run(
            SINGLE, chief_0=["hang"], graces=Graces(training=0.3, evaluator=0.1, ps=0.1, poll=0.05)
        )


BRIEF = Graces(training=0.2, evaluator=0.1, ps=0.1, poll=0.05)


def test_a_save_that_is_under_way_is_finished_after_the_grace(stage):
    def react(statuses):
        chief = statuses.get("chief-0")
        if not stage.stop.count and chief is not None and chief.is_saving:
            os.kill(os.getpid(), signal.SIGTERM)
        elif len(looks) > 9:  # while it is ended, others look only once the grace is over
            (stage.path / "go").touch()
        looks.extend([1] if stage.stop.count else [])

    looks: list[int] = []
    stage.notes.react = react
    with pytest.raises(errors.StoppedError, match=r"^stopped by SIGTERM, saved at step 7\. Run"):
        stage.run(SINGLE, chief_0=["save_slowly"], graces=BRIEF)


def test_a_save_that_hangs_is_not_waited_for(stage):
    when_training(stage, "chief-0")
    with pytest.raises(errors.RetryableError, match="SIGTERM, before anything was saved"):
        stage.run(SINGLE, chief_0=["save_slowly"], graces=BRIEF, patience=HangLimits(60.0, 0.5))


def test_a_second_stop_request_kills_a_save(stage):
    requests = []

    def react(statuses):
        if "chief-0" in statuses and statuses["chief-0"].is_saving and len(requests) < 9:
            requests.append(os.kill(os.getpid(), signal.SIGINT))

    stage.notes.react = react
    with pytest.raises(errors.StoppedError, match="SIGINT, before anything was saved"):
        stage.run(SINGLE, chief_0=["save_slowly"], graces=BRIEF)


def test_a_second_stop_request_kills_at_once(stage):
    when_training(stage, "chief-0")
    show_line = stage.notes.show_line

    def show_and_insist(line):
        show_line(line)
        if line.startswith("saving and stopping"):
            os.kill(os.getpid(), signal.SIGINT)

    stage.notes.show_line = show_and_insist
    with pytest.raises(errors.StoppedError, match="stopped by"):
        stage.run(SINGLE, chief_0=["hang"], graces=Graces(training=60.0, poll=0.05))


def test_what_a_process_has_started_is_gone_too(stage):
    when_training(stage, "chief-0")
    with pytest.raises(errors.RetryableError):
        stage.run(SINGLE, chief_0=["breed"])
    wait_until(lambda: not is_alive(stage.run_folder.read("bred.json")["pid"]))
