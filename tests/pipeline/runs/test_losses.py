"""What may have ended processes in the middle of a step that the others went on without."""

from __future__ import annotations

import pytest

from pipeline.config import config_file
from pipeline.config.strategy_table import STRATEGIES
from pipeline.runs import run_record
from pipeline.runs.accounts import Account
from pipeline.runs.fallbacks import Fallback
from pipeline.runs.losses import Losses, find_losses
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import Launch, Restart

CONFIG = config_file.load("mnist")
BEGAN = 10_000.0
FIRST = BEGAN - 9000
ALONE = {"chief": 1, "worker": 0, "ps": 0, "evaluator": 0}
SERVED = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}


def make(tmp_path, *earlier, strategy="parameter_server", **values):
    """A record whose newest launch began at BEGAN and took 20 s."""
    made = run_record.begin(CONFIG, RunFolder(str(tmp_path / "r")))
    counts = SERVED if STRATEGIES[strategy].servers else ALONE
    values = {"started": BEGAN, "ended": BEGAN + 20, "launches": len(earlier) + 1, **values}
    values |= {"strategy": strategy, "topology": counts}
    return made.model_copy(update={"earlier": list(earlier), **values})


def left(status, strategy="parameter_server", counts=SERVED):
    return Launch(
        started=FIRST, ended=FIRST + 50, topology=counts, status=status, strategy=strategy
    )


def account(task="chief-0", after=5.0, *, seconds=None, ended=True):
    began = FIRST + after
    seconds = seconds or {"start": 2.0, "step": 30.0}
    return Account(task=task, began=began, until=began + 32, seconds=seconds, ended=ended)


def lost(time, role="worker"):
    return Restart(role=role, index=0, cause="killed", time=time)


def fell_back(time, newest=20):
    return Fallback(step=newest - 5, newest=newest, time=time)


def test_a_launch_that_was_stopped_is_not_cut_off(tmp_path):
    known = [account(), account("worker-0")]
    assert find_losses(make(tmp_path, left("stopped")), known) == Losses()
    assert find_losses(make(tmp_path, left("done")), known) == Losses()


@pytest.mark.parametrize("status", ["running", "failed", None])
def test_one_whose_launcher_was_killed_or_that_failed_is(tmp_path, status):
    assert find_losses(make(tmp_path, left(status)), [account()]) == Losses(cut_off=1)


def test_one_that_was_stopped_is_cut_off_if_a_process_was_in_a_step(tmp_path):
    """It was killed, by a second Ctrl-C or because the step took too long."""
    known = [account(), account("worker-0", ended=False)]
    assert find_losses(make(tmp_path, left("stopped")), known) == Losses(cut_off=1)
    of_other_launch = [account(), account("worker-0", 9005.0, ended=False)]
    assert find_losses(make(tmp_path, left("stopped")), of_other_launch) == Losses()


def test_one_that_was_stopped_before_it_made_a_step_is_not(tmp_path):
    known = [account(seconds={"start": 12.0}, ended=False)]
    assert find_losses(make(tmp_path, left("stopped")), known) == Losses()
    assert find_losses(make(tmp_path, left("stopped")), []) == Losses()


def test_a_process_that_was_restarted_counts_as_a_restart_only(tmp_path):
    known = [account(ended=False), account(after=20.0)]
    record = make(tmp_path, left("stopped"), restarts=[lost(FIRST + 18)])
    assert find_losses(record, known) == Losses(restarts=1)


@pytest.mark.parametrize("newest", list(STRATEGIES))
def test_the_strategy_that_counts_is_that_of_the_launch(tmp_path, newest):
    """Not that of the newest one."""
    cut = [left("running"), left("running", "none", ALONE)]
    cut += [left("running", "parameter_server_sync")]
    moved = [one.model_copy(update={"started": FIRST + 100 * n}) for n, one in enumerate(cut)]
    restarts = [lost(FIRST + after) for after in (20, 30, 120, 220)]
    record = make(tmp_path, *moved, strategy=newest, restarts=restarts)
    assert find_losses(record, []) == Losses(restarts=2, cut_off=1)
    record.restarts = [lost(BEGAN + 5)]
    assert find_losses(record, []).restarts == STRATEGIES[newest].asynchronous


def test_a_launch_of_an_earlier_version_has_any_strategy_of_its_roles(tmp_path):
    def find(counts):
        return find_losses(make(tmp_path, left("running", None, counts), strategy="none"), [])

    assert (find(SERVED).cut_off, find(ALONE).cut_off) == (1, 0)
    assert all(one.servers for one in STRATEGIES.values() if one.asynchronous)


def test_a_restart_without_a_time_may_be_of_any_launch(tmp_path):
    record = make(tmp_path, left("stopped"), strategy="none", restarts=[lost(None)])
    assert find_losses(record, []) == Losses(restarts=1)
    record.earlier = [left("stopped", "mirrored", ALONE)]
    assert find_losses(record, []) == Losses()
    record = make(tmp_path, strategy="none", started=None, restarts=[lost(None)])
    assert find_losses(record, []) == Losses()


def test_launches_that_are_not_recorded_may_have_been_cut_off(tmp_path):
    record = make(tmp_path, launches=3, strategy="none")
    assert find_losses(record, []) == Losses(cut_off=2)
    record = make(tmp_path, left("stopped"), launches=3, restarts=[lost(None)])
    assert find_losses(record, [account()]) == Losses(restarts=1, cut_off=1)


def test_a_record_that_was_lost_is_known_by_the_accounts_from_before(tmp_path):
    record = make(tmp_path, strategy="none")
    assert find_losses(record, [account()]) == Losses(unrecorded=True)
    assert find_losses(record, [account(seconds={"start": 12.0})]) == Losses()
    by_hand = account(after=8990.0)  # it began before the chief did
    assert find_losses(record, [by_hand]) == Losses()
    assert find_losses(None, []) == Losses(unrecorded=True)


def test_an_evaluator_that_is_started_again_has_applied_nothing(tmp_path):
    roles = ("evaluator", "worker", "evaluator", "ps", "chief")
    record = make(tmp_path, restarts=[lost(BEGAN + 5, role) for role in roles])
    assert find_losses(record, []) == Losses(restarts=3)
    record.restarts = [lost(None, "evaluator")]
    assert find_losses(record, []) == Losses()


def test_a_fall_back_counts_if_an_earlier_launch_may_have_saved_it_while_others_stepped(tmp_path):
    def find(*earlier, at=(BEGAN + 5,), **values):
        record = make(tmp_path, *earlier, **values)
        return find_losses(record, [], [fell_back(time) for time in at])

    assert find(left("stopped"), strategy="none") == Losses(fell_back=1)
    assert find(left("stopped")) == Losses(fell_back=1)
    assert find(left("stopped", "parameter_server_sync")) == Losses()
    assert find(left("stopped", "none", ALONE)) == Losses()
    assert find(left("stopped", None)) == Losses(fell_back=1)
    assert find(launches=2, strategy="none").fell_back == 1
    moved = left("stopped").model_copy(update={"started": FIRST + 100})
    assert find(left("stopped", "none", ALONE), moved, at=(FIRST + 105,)) == Losses()


def test_fall_backs_that_are_told_of_twice_count_once(tmp_path):
    record = make(tmp_path, left("stopped"))
    found = [fell_back(BEGAN + 5), fell_back(BEGAN + 6), fell_back(BEGAN + 7, newest=30)]
    assert find_losses(record, [], found) == Losses(fell_back=2)
