"""`make ledger`, on a real run."""

from __future__ import annotations

import re
import time

import pytest

from pipeline import storage
from pipeline.config import config_file
from pipeline.runs import accounts, run_record
from tests.trainer.commands import error_line
from trainer.checkpoints import repairing

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
    job = small_records.config(cluster)
    storage.write_text(run.config_path, config_file.dump(job))
    run_record.write(run, run_record.begin(job, run))
    output = commands.run(REPORT, f"--storage={small_records.storage}", "--run=dropping")
    readers, verdict, dropped = output.splitlines()[-3:]
    assert readers.startswith("handed out to chief-0 ")
    assert verdict == "every record that has been read was handed out exactly once"
    assert dropped.startswith("0 of the records handed out were not applied: each step applied the")


EXACT = "every record that has been read was applied exactly once"
CUT_OFF = "1 earlier launch that was cut off: a process that was killed may have"


@pytest.mark.parametrize(
    ("status", "strategies", "last"),
    [
        ("stopped", ("parameter_server", "parameter_server"), EXACT),
        ("running", ("parameter_server", "parameter_server"), CUT_OFF),
        ("running", ("parameter_server", "none"), CUT_OFF),
        ("running", ("none", "parameter_server"), EXACT),
    ],
)
def test_a_run_that_was_launched_again(commands, finished, small_records, status, strategies, last):
    name = "-".join(("again", status, *strategies))
    run = finished.copy(finished.path.parent / name, 300)
    for strategy in strategies:
        job = small_records.config(f"cluster.strategy={strategy}")
        storage.write_text(run.config_path, config_file.dump(job))
        record = run_record.begin(job, run)
        record.status = status
        run_record.write(run, record)
    output = commands.run(REPORT, f"--storage={small_records.storage}", f"--run={run.name}")
    title, *_, verdict = output.splitlines()
    assert title == f"run {run.name}, step 300, launch 2: records of split train"
    assert verdict.startswith(last)


def test_a_run_that_continued_from_an_older_checkpoint(commands, finished, small_records):
    """Of an asynchronous launch that ended in order; the one that falls back has no other."""
    run = finished.copy(finished.path.parent / "older", 200, 300)
    for strategy in ("parameter_server", "none"):
        job = small_records.config(f"cluster.strategy={strategy}")
        storage.write_text(run.config_path, config_file.dump(job))
        record = run_record.begin(job, run)
        record.status = "done"
        run_record.write(run, record)
    (finished.path.parent / "older" / "model.ckpt-300.index").unlink()
    assert "continuing from step 200" in repairing.repair(run.path)
    flags = (f"--storage={small_records.storage}", f"--run={run.name}")
    *_, exact, caveat = commands.run(REPORT, *flags).splitlines()
    assert exact == EXACT
    assert caveat.startswith("training fell back to an older checkpoint once: one that was saved")


def test_checkpoints_that_are_damaged_are_passed_over(commands, finished, small_records):
    """As training would: one without its data is seen at once, others where they are read."""
    folder = finished.path.parent / "passed-over"
    run = finished.copy(folder, 200, 300)
    data = folder / "model.ckpt-300.data-00000-of-00001"
    data.write_bytes(bytes(data.stat().st_size))
    flags = (f"--storage={small_records.storage}", f"--run={run.name}")
    for problem in ("the checksum of ", f"{data} is missing"):
        output = commands.run(REPORT, *flags)
        assert "run passed-over, step 200: records of split train" in output
        (line,) = re.findall(r"^warning: .*", output, re.MULTILINE)
        assert problem in line and line.endswith(f"taking '{folder}/model.ckpt-200'")
        data.unlink(missing_ok=True)


def test_a_run_whose_record_was_damaged(commands, finished, small_records):
    """The next launch writes another, as the first of the run."""
    run = finished.copy(finished.path.parent / "torn", 300)
    job = small_records.config("cluster.strategy=none")
    now = time.time()
    spent = accounts.Account(task="chief-0", began=now - 90, until=now - 50, seconds={"step": 40})
    accounts.write(run, spent)
    storage.write_text(f"{run.path}/run.json", '{"status": "running", "rea')
    run_record.write(run, run_record.begin(job, run))
    for _ in range(2):
        output = commands.run(REPORT, f"--storage={small_records.storage}", "--run=torn")
        line = output.splitlines()[-1]
        assert line.startswith("launches that run.json does not tell of: a process that was killed")
        run.remove("run.json")


def test_a_run_without_a_checkpoint(commands, finished, small_records):
    finished.copy(finished.path.parent / "nothing-read")
    flags = (f"--storage={small_records.storage}", "--run=nothing-read")
    line = error_line(commands.run(REPORT, *flags, code=64))
    assert "run 'nothing-read': has no checkpoint yet" in line


def test_an_unknown_run_names_the_nearest(commands, finished, small_records):
    flags = (f"--storage={small_records.storage}", "--run=finishedd")
    assert "did you mean 'finished'" in error_line(commands.run(REPORT, *flags, code=64))
