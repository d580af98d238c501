"""`make ledger`, on a real run."""

from __future__ import annotations

import re

import pytest

from pipeline import storage
from pipeline.config import config_file
from pipeline.runs import run_record
from tests.trainer.commands import error_line

REPORT = "trainer.ledger_report"


def test_flags_are_a_contract(commands):
    listing = commands.run(REPORT, "--help")
    assert re.findall(r"^ +--(\w+): ", listing, re.MULTILINE) == ["config", "run", "storage"]


def test_it_shows_the_epochs_of_a_run(commands, finished, small_records):
    output = commands.run(REPORT, f"--storage={small_records.storage}", "--run=finished")
    title, head, first, folded, *last, total, readers, verdict = output.splitlines()
    job = finished.run.read_config()
    applied = f"{job.train.max_steps * job.train.batch_size:,}"
    assert title == f"run finished, step {job.train.max_steps:,}: records of split train"
    assert head.split() == ["epoch", "due", "once", "more", "never", "skipped", "left"]
    assert first.split()[0] == "0"
    records = small_records.contents.split("train").records
    whole, begun = (int(row.split()[0]) for row in last)
    assert folded.split()[:3] == ["...", str(whole - 1), "more,"]
    assert begun == whole + 1 == job.train.max_steps * job.train.batch_size // records
    assert total.split()[2] == applied
    assert readers == f"applied by chief-0 {applied}"
    assert verdict == "every record that has been read was applied exactly once"


def test_it_does_not_say_applied_of_gradients_that_may_be_dropped(
    commands, finished, small_records
):
    run = finished.copy(finished.path.parent / "dropping", 300)
    cluster = "cluster={strategy: parameter_server_sync, workers: 3, backup_workers: 2}"
    storage.write_text(run.config_path, config_file.dump(small_records.config(cluster)))
    output = commands.run(REPORT, f"--storage={small_records.storage}", "--run=dropping")
    readers, verdict, dropped = output.splitlines()[-3:]
    assert readers.startswith("handed out to chief-0 ")
    assert verdict == "every record that has been read was handed out exactly once"
    assert dropped.startswith("0 of the records handed out were not applied: each step applied the")


@pytest.mark.parametrize(
    ("status", "last"),
    [
        ("stopped", "every record that has been read was applied exactly once"),
        ("running", "1 earlier launch that was cut off: a process that was killed may have"),
    ],
)
def test_a_run_that_was_launched_again(commands, finished, small_records, status, last):
    run = finished.copy(finished.path.parent / f"again-{status}", 300)
    job = small_records.config("cluster.strategy=parameter_server")
    storage.write_text(run.config_path, config_file.dump(job))
    first = run_record.begin(job, run)
    first.status = status
    run_record.write(run, first)
    run_record.write(run, run_record.begin(job, run))
    output = commands.run(REPORT, f"--storage={small_records.storage}", f"--run={run.name}")
    title, *_, verdict = output.splitlines()
    assert title == f"run {run.name}, step 300, launch 2: records of split train"
    assert verdict.startswith(last)


def test_a_run_without_a_checkpoint(commands, finished, small_records):
    finished.copy(finished.path.parent / "nothing-read")
    flags = (f"--storage={small_records.storage}", "--run=nothing-read")
    line = error_line(commands.run(REPORT, *flags, code=64))
    assert "run 'nothing-read': has no checkpoint yet" in line


def test_an_unknown_run_names_the_nearest(commands, finished, small_records):
    flags = (f"--storage={small_records.storage}", "--run=finishedd")
    assert "did you mean 'finished'" in error_line(commands.run(REPORT, *flags, code=64))
