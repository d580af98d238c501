"""The status file of a process."""

from __future__ import annotations

import functools
import os
import threading
import time
import types

from pipeline.cluster import topology
from pipeline.runs import accounts, run_folder
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import wait_until
from trainer.monitoring import status_reporter
from trainer.monitoring.status_reporter import Reporter
from trainer.monitoring.stopwatch import Stopwatch


def test_values_stay_until_they_are_reported_again(tmp_path):
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "worker-1", 50)
    own.report("training", step=3, loss=0.5)
    own.report("evaluating")
    found = run_folder.read_statuses(run)["worker-1"]
    assert (found.state, found.step, found.loss, found.max_steps) == ("evaluating", 3, 0.5, 50)
    assert found.pid == os.getpid()


def test_it_knows_whether_a_step_was_made(tmp_path):
    own = Reporter(RunFolder(str(tmp_path)), "chief-0", 50)
    own.report("training", step=30)  # those of an earlier start
    assert not own.has_made_steps
    own.report("training", step=31, loss=0.0)
    assert own.has_made_steps


def test_progress_of_a_piece_of_work_is_written_once_an_interval_and_keeps_the_state(tmp_path):
    run, now = RunFolder(str(tmp_path)), [1000.0]
    own = Reporter(run, "chief-0", 50, clock=lambda: now[0])

    def work():
        status = run_folder.read_statuses(run)["chief-0"]
        return status.state, status.work

    own.report_progress("checking shards", 0, 9)
    assert work() == ("preparing", {"what": "checking shards", "done": 0, "total": 9})
    own.report_progress("checking shards", 3, 9)
    assert work()[1]["done"] == 0
    now[0] += 1.0
    own.report_progress("checking shards", 5, 9)
    assert work()[1]["done"] == 5
    own.report_progress("copying")
    assert work() == ("preparing", {"what": "copying", "done": 0, "total": None})
    own.report("starting")
    assert work() == ("starting", None)


def test_a_status_that_cannot_be_written_fails_nothing_and_is_timed(tmp_path, capsys):
    now = [1000.0]
    (tmp_path / "status").write_text("in the way")
    own = Reporter(RunFolder(str(tmp_path)), "chief-0", 50, clock=lambda: now[0])
    own.report_progress("checking shards", 1)
    now[0] += 40
    own.report("training", step=4)
    assert own.writing.seconds == 40
    assert capsys.readouterr().err.count("writing the status of chief-0 failed, trying again") == 1
    (tmp_path / "status").unlink()
    own.report("training", step=5)
    assert own.writing.seconds == 0
    assert run_folder.read_status(RunFolder(str(tmp_path)), "chief-0").step == 5


def test_notes_add_up(tmp_path):
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "chief-0", 50)
    for line in ("one", "two"):
        own.add_note(line)
        own.add_note(line)
        own.report("starting")
    assert run_folder.read_statuses(run)["chief-0"].note == "one; two"


def test_it_is_due_again_after_an_interval_whatever_the_time_of_day(tmp_path, monkeypatch):
    """A clock that is set back must not silence it: silence is taken for a hang."""
    now = [1000.0]
    own = Reporter(RunFolder(str(tmp_path)), "chief-0", 50, clock=lambda: now[0])
    assert own.due
    own.report("training")
    assert not own.due
    monkeypatch.setattr(status_reporter.time, "time", lambda: 1.0)
    now[0] += 1.0
    assert own.due


def test_of_an_object_store_less_is_asked():
    local, remote = RunFolder("/tmp/run"), RunFolder("gs://bucket/run")
    assert Reporter(remote, "chief-0", 1).interval > 10 * Reporter(local, "chief-0", 1).interval


def test_of_a_disk_that_many_share_less_is_asked(tmp_path):
    now = [1000.0]
    spread = topology.Task("ps", 0, {"ps": ("h:1",) * 119}).spread
    own = Reporter(RunFolder(str(tmp_path)), "ps-0", 50, spread=spread, clock=lambda: now[0])
    own.report("serving")
    now[0] += 5.9
    assert not own.due
    now[0] += 0.1
    assert own.due


def test_while_there_is_no_news_it_gives_signs_of_life(tmp_path):
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "ps-0", 50, beat=0.01)
    own.keep_alive()
    own.report("serving")
    first = run_folder.read_statuses(run)["ps-0"]
    newer = wait_until(
        lambda: next(
            (s for s in run_folder.read_statuses(run).values() if s.seen > first.seen), None
        )
    )
    # What others judge progress by stays as it was said.
    assert (newer.state, newer.time) == ("serving", first.time)


def test_the_last_word_stays_the_last(tmp_path):
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "ps-0", 50, beat=0.01)
    own.report("done")
    own.beat_on()  # returns
    assert run_folder.read_statuses(run)["ps-0"].state == "done"


def test_a_process_that_wakes_late_in_a_step_stood_still(tmp_path, monkeypatch):
    now, late = [0.0], iter([0.0, 0.0, 11.5])
    run, clock = RunFolder(str(tmp_path)), functools.partial(now.__getitem__, 0)
    own = Reporter(run, "chief-0", 50, beat=0.75, clock=clock)
    own.watch = Stopwatch(run, "chief-0", clock=clock)
    own.watch.record_step(10, 0.0)
    own.watch.enter("step")

    def sleep(seconds):
        now[0] += seconds + next(late)
        if now[0] > 4:
            own.report("done")

    monkeypatch.setattr(status_reporter, "time", types.SimpleNamespace(sleep=sleep, time=time.time))
    own.beat_on()
    assert own.watch.account.seconds == {"step": 0.75, "stopped": 11.5}


def test_the_first_word_is_its_own(tmp_path):
    """Others take it for a sign that the process has come that far."""
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "chief-0", 50, beat=0.001)
    beats = []
    own._lock = _Counting(beats)
    own.keep_alive()
    wait_until(lambda: len(beats) > 3)
    assert run_folder.read_statuses(run) == {}
    own.report("done")


class _Counting:
    """A lock that notes how often it was taken."""

    def __init__(self, taken):
        self._taken, self._lock = taken, threading.Lock()

    def __enter__(self):
        self._taken.append(1)
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)


def test_the_time_after_a_process_is_done_is_the_end(tmp_path):
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "worker-0", 50)
    own.watch.begin()
    own.watch.record_step(10, 0.0)
    own.watch.begin()  # the session was lost, as others had closed theirs
    own.report("training")
    own.report("done")
    (account,) = accounts.read(run)
    assert account.ended and "recovery" not in account.seconds


def test_a_process_that_fails_has_not_made_its_last_step(tmp_path):
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "worker-0", 50)
    own.watch.begin()
    own.report("failed")
    assert not accounts.read(run)[0].ended
