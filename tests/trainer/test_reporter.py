"""The status file of a process."""

from __future__ import annotations

import os

from pipeline import run_folder
from pipeline.run_folder import RunFolder
from trainer import reporter
from trainer.reporter import Reporter


def test_values_stay_until_they_are_said_anew(tmp_path):
    run = RunFolder(str(tmp_path))
    own = Reporter(run, "worker-1", 50)
    own.say("training", step=3, loss=0.5)
    own.say("evaluating")
    found = run_folder.read_statuses(run)["worker-1"]
    assert (found.state, found.step, found.loss, found.max_steps) == ("evaluating", 3, 0.5, 50)
    assert found.pid == os.getpid()


def test_it_is_due_again_after_an_interval(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(reporter.time, "time", lambda: now[0])
    own = Reporter(RunFolder(str(tmp_path)), "chief-0", 50)
    assert own.due
    own.say("training")
    assert not own.due
    now[0] += 1.0
    assert own.due


def test_of_an_object_store_less_is_asked():
    local, remote = RunFolder("/tmp/run"), RunFolder("gs://bucket/run")
    assert Reporter(remote, "chief-0", 1)._interval > 10 * Reporter(local, "chief-0", 1)._interval
