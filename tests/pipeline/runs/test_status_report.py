"""What `make status` says."""

from __future__ import annotations

import os
import socket

import pytest

from pipeline import storage
from pipeline.config import config_file
from pipeline.runs import run_folder, run_lock, run_record, status_report
from pipeline.runs.run_folder import RunFolder, Status

HERE = socket.gethostname()
NOBODY = 999999999
NOW = 1000.0


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path / "r"))


@pytest.fixture
def record(run):
    made = run_record.begin(config_file.load("mnist"), run)
    made.launcher.seen = NOW
    return made


def keep(run, record=None, **processes):
    if record is not None:
        run_record.write(run, record)
    for task, values in processes.items():
        said = {"pid": os.getpid(), "host": HERE, "state": "training", "time": NOW - 3, **values}
        run_folder.write_status(run, Status(task=task.replace("_", "-"), **said))


def save(run, step):
    storage.write_text(
        storage.join(run.path, "checkpoint"), f'model_checkpoint_path: "/x/model.ckpt-{step}"\n'
    )


def test_a_running_run(run, record):
    evaluation = {"step": 900, "global_step": 900.0, "accuracy": 0.98765}
    chief = {"step": 1234, "max_steps": 15000, "loss": 0.5, "examples_per_second": 2345.6}
    keep(
        run,
        record,
        chief_0=chief,
        worker_0={"step": 1230, "host": "h1", "pid": 7, "loss": 0.25},
        ps_0={"state": "serving", "time": NOW - 300, "seen": NOW - 5},
        evaluator_0={"state": "waiting", "evaluation": evaluation, "note": "all is well"},
    )
    with run_lock.hold(run):
        lines = status_report.describe(run, NOW).splitlines()
    pid = os.getpid()
    assert lines == [
        "run r: running (training)",
        "process      state     step          loss    examples/s  last seen      pid",
        f"chief-0      training  1,234/15,000  0.5000  2,346       3 s ago        {pid}",
        f"evaluator-0  waiting                                     3 s ago        {pid}",
        f"ps-0         serving                                     5 min 0 s ago  {pid}",
        "worker-0     training  1,230         0.2500              3 s ago        7 on h1",
        "newest evaluation, step 900: accuracy 0.9877",
        "evaluator-0: all is well",
    ]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("step", "told"),
    [(None, "restarts: 2, the newest of ps-0: killed"), (1400, "of ps-0 at step 1,400: killed")],
)
def test_restarts_are_reported_while_the_run_is_running(run, record, step, told):
    for role, at in (("worker", 7), ("ps", step)):
        record.restarts.append(run_record.Restart(role=role, index=0, cause="killed", step=at))
    keep(run, record, chief_0={})
    with run_lock.hold(run):
        assert status_report.describe(run, NOW).splitlines()[-1].endswith(told)


def test_a_run_whose_launcher_was_killed(run, record):
    keep(
        run,
        record,
        chief_0={"step": 140, "pid": NOBODY, "examples_per_second": 50.0},
        ps_0={"state": "serving", "pid": NOBODY},
    )
    save(run, 100)
    lines = status_report.describe(run, NOW).splitlines()
    assert lines[0] == (
        f"run r: died (its launcher (pid {os.getpid()} on {HERE}) is gone); saved at step 100"
    )
    assert lines[2].split()[:4] == ["chief-0", "gone,", "was", "training"]
    assert lines[3].split()[:4] == ["ps-0", "gone,", "was", "serving"]
    assert "50" not in lines[2].split()


def test_a_run_that_was_stopped_has_not_failed(run, record):
    record.status = "stopped"
    record.reason = "stopped by SIGINT, saved at step 140. Run the same command again to resume."
    stopped = {"state": "stopped", "error": "stopped, saved at step 140", "pid": NOBODY}
    keep(run, record, chief_0=stopped, ps_0={"state": "serving", "pid": NOBODY})
    save(run, 140)
    lines = status_report.describe(run, NOW).splitlines()
    assert lines[0] == (
        "run r: stopped by SIGINT, saved at step 140. Run the same command again to resume."
    )
    assert [line.split()[1] for line in lines[2:]] == ["stopped", "ended"]


def test_a_run_that_is_done(run, record):
    record.status, record.reason = "done", "all steps made"
    keep(
        run,
        record,
        chief_0={"state": "done", "pid": NOBODY},
        ps_0={"state": "serving", "pid": NOBODY},
    )
    lines = status_report.describe(run, NOW).splitlines()
    assert lines[0] == "run r: done (all steps made)"
    assert [line.split()[1] for line in lines[2:]] == ["done", "ended"]


def test_a_failure_is_reported(run, record):
    record.status, record.reason = "failed", "chief-0: the loss is not a number"
    keep(run, record, chief_0={"state": "failed", "error": "the loss is not a number"})
    lines = status_report.describe(run, NOW).splitlines()
    assert lines[0] == "run r: failed (chief-0: the loss is not a number); nothing was saved"
    assert lines[-1] == "chief-0: the loss is not a number"


def test_before_anybody_has_spoken(run, record):
    keep(run, record)
    with run_lock.hold(run):
        text = status_report.describe(run, NOW)
    assert text == "run r: running (training)\nno process has reported yet"


def test_what_is_asked_of_servers_is_added_up_over_processes(run, record):
    first = [{"rows": 300, "bytes": 40_000}, {"rows": 100, "bytes": 40_000}]
    second = [{"rows": 100, "bytes": 0}, {"rows": 100, "bytes": 0}]
    keep(run, record, chief_0={"servers": first}, worker_0={"servers": second})
    with run_lock.hold(run):
        lines = status_report.describe(run, NOW).splitlines()
    assert lines[-1] == (
        "asked of servers by a step of each process: ps-0 400 rows 40.0 kB, "
        "ps-1 200 rows 40.0 kB; most to mean: 1.33 (rows), 1.00 (bytes)"
    )
    keep(run, record, chief_0={"servers": first[:1]}, worker_0={})
    assert "asked of" not in status_report.describe(run, NOW)
