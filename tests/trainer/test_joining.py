"""What a chief without a launcher finds of other processes in the folder of its run, and leaves."""

from __future__ import annotations

import os
import socket
import time

import pytest

from pipeline.cluster import topology
from pipeline.jobs import job as jobs
from pipeline.runs import log_writer, run_folder
from pipeline.runs.run_folder import Status
from trainer import joining

HERE, ELSEWHERE, NOBODY = socket.gethostname(), "another-host", 999999999
CHIEF = topology.Task("chief", 0, {"chief": ["h0:1"], "worker": ["h1:1"], "ps": ["h2:1"]})


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """A chief that starts, and what there is of the others when it begins its own work."""
    job = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    monkeypatch.setattr(log_writer, "keep", lambda run, task: None)

    def start():
        found = {}
        monkeypatch.setattr(
            joining,
            "_run",
            lambda *given, **others: found.update(run_folder.read_statuses(job.run)),
        )
        joining.run(job, CHIEF, started=time.time())
        return found

    return job.run, start


def say(run, task, state="training", **values):
    said = {"pid": os.getpid(), "host": HERE, "time": time.time(), **values}
    run_folder.write_status(run, Status(task=task, state=state, **said))


def test_a_chief_that_starts_again_leaves_the_reports_of_the_living(joined):
    run, start = joined
    living = {
        "worker-0": {"step": 7},
        "worker-1": {"host": ELSEWHERE, "pid": NOBODY},
        "worker-2": {"state": "preparing"},
        "ps-0": {"state": "serving", "time": 1.0, "seen": time.time(), "memory": 5},
        "evaluator-0": {"state": "evaluating"},
    }
    for task, values in living.items():
        say(run, task, **values)
    before = run_folder.read_statuses(run)
    assert start() == before


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("worker-0", {"pid": NOBODY}),
        ("worker-0", {"pid": NOBODY, "state": "preparing"}),
        ("worker-0", {"host": ELSEWHERE, "time": 1.0}),
        # The end of an earlier start: it would count as an evaluator of this one.
        ("evaluator-0", {"state": "done"}),
        ("worker-0", {"state": "stopped"}),
        ("worker-0", {"state": "failed"}),
        # Another process was chief, and no other than this one can be now.
        ("chief-0", {"host": ELSEWHERE}),
        # The first process of a container always has the same number.
        ("chief-0", {}),
    ],
)
def test_it_removes_the_reports_of_those_that_are_no_more(joined, task, values):
    run, start = joined
    say(run, task, **values)
    assert start() == {}


def test_it_removes_what_it_cannot_read(joined):
    run, start = joined
    run.write("status/worker-0.json", {"of": "another version"})
    start()
    assert run.read("status/worker-0.json") is None
