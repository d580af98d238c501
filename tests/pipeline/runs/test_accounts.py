"""Accounts of processes: what they say of how a launch ended."""

from __future__ import annotations

import pytest

from pipeline.runs import accounts
from pipeline.runs.accounts import Account
from pipeline.runs.run_record import Launch, RunRecord

BEGAN = 1000.0


def launch(status, began=BEGAN):
    return Launch(started=began, ended=began + 50, topology={"chief": 1}, status=status)


def record(*earlier, launches=None):
    return RunRecord(
        status="running",
        reason="training",
        config="c",
        strategy="parameter_server",
        topology={"chief": 1},
        launcher=None,
        started=BEGAN + 1000,
        earlier=list(earlier),
        launches=len(earlier) + 1 if launches is None else launches,
    )


def account(task="chief-0", after=5.0, *, seconds=None, ended=True):
    began = BEGAN + after
    seconds = seconds or {"start": 2.0, "step": 30.0}
    return Account(task=task, began=began, until=began + 32, seconds=seconds, ended=ended)


def test_a_launch_that_was_stopped_is_not_cut_off():
    known = [account(), account("worker-0")]
    assert accounts.cut_off(record(launch("stopped")), known) == 0
    assert accounts.cut_off(record(launch("done")), known) == 0


@pytest.mark.parametrize("status", ["running", "failed", None])
def test_one_whose_launcher_was_killed_or_that_failed_is(status):
    assert accounts.cut_off(record(launch(status)), [account()]) == 1


def test_one_that_was_stopped_is_cut_off_if_a_process_was_in_a_step():
    """It was killed, by a second Ctrl-C or because the step took too long."""
    known = [account(), account("worker-0", ended=False)]
    assert accounts.cut_off(record(launch("stopped")), known) == 1
    of_other_launch = [account(), account("worker-0", 1005.0, ended=False)]
    assert accounts.cut_off(record(launch("stopped")), of_other_launch) == 0


def test_one_that_was_stopped_before_it_made_a_step_is_not():
    known = [account(seconds={"start": 12.0}, ended=False)]
    assert accounts.cut_off(record(launch("stopped")), known) == 0
    assert accounts.cut_off(record(launch("stopped")), []) == 0


def test_a_process_that_was_restarted_counts_as_a_restart_only():
    known = [account(ended=False), account(after=20.0)]
    assert accounts.cut_off(record(launch("stopped")), known) == 0


def test_launches_that_are_not_recorded_may_have_been_cut_off():
    assert accounts.cut_off(record(launches=3), []) == 2
    assert accounts.cut_off(record(launch("stopped"), launches=3), [account()]) == 1
