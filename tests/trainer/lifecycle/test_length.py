"""How long a run with epochs trains, by what its parameters say was applied."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.config import Length, config_file
from pipeline.records import epochs
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.faults import witness
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import saved_counts
from trainer.input import epoch_order
from trainer.lifecycle import length
from trainer.monitoring.status_reporter import Reporter

ZEROS = np.zeros(4, np.int64)
BLOCKS = epoch_order.Blocks(("a",), ZEROS, ZEROS, ZEROS + 10, None, 111)


def _job(*overrides):
    settings = ("train.steps=null", "train.epochs=3", "train.batch_size=10")
    return config_file.load("mnist", [*settings, *overrides])


def _save(folder, step, reached):
    values = {
        **saved_counts.build_unread(BLOCKS),
        saved_counts.APPLIED: np.array(reached, np.int32) + 1,  # one of each was applied twice
        saved_counts.REACHED: np.array(reached, np.int32),
        "global_step": np.int64(step),
    }
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in values.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, f"{folder}/model.ckpt", global_step=step)
    return RunFolder(str(folder))


def _decide(run, blocks, *overrides):
    reporter = Reporter(run, "chief-0", None)
    found = length.decide(_job(*overrides), run, blocks, reporter=reporter)
    reporter.report("starting")
    status = run_folder.read_statuses(run)["chief-0"]
    assert status.max_steps == found.train.max_steps
    assert epochs.set_run_length(_job(*overrides), run).train.length == found.train.length
    return found.train.length, status.note


def test_a_run_that_begins_makes_all_of_its_steps(tmp_path):
    assert _decide(RunFolder(str(tmp_path)), BLOCKS) == (Length(12, 12), None)


def test_a_resumed_run_makes_the_steps_that_the_ledger_leaves(tmp_path):
    run = _save(tmp_path, 5, [20, 10, 10, 10])
    assert _decide(run, BLOCKS) == (Length(12, 12), None)
    found, note = _decide(run, BLOCKS, "train.batch_size=35")
    assert found == Length(7, 4)
    assert note == (
        "3 epochs of 40 records: 50 have been read by step 5, which leaves 2 steps, until step 7"
    )


def test_skipped_blocks_do_not_count_for_the_length(tmp_path):
    run = _save(tmp_path, 5, [20, 10, 10, 10])
    without = epoch_order.Blocks(("a",), ZEROS, ZEROS, ZEROS + 10, np.arange(4) == 0, 111)
    assert _decide(run, without)[0] == Length(5 + 6, 9)


def test_a_config_with_train_steps_is_used_as_it_is(tmp_path):
    job, run = config_file.load("mnist"), RunFolder(str(tmp_path))
    assert length.decide(job, run, BLOCKS, reporter=Reporter(run, "chief-0", 5)) is job
    assert run.read(epochs.LENGTH) is None


def test_a_schedule_must_fit_into_the_steps(tmp_path):
    schedule = "train.optimizer.schedule={name: cosine, warm_up_steps: 12}"
    with pytest.raises(errors.UsageError, match="of 12 steps 12 are warm-up, which leaves none"):
        _decide(RunFolder(str(tmp_path)), BLOCKS, schedule)


def test_epochs_end_exactly_after_a_change_of_batch_size(commands, task_flags, small_records):
    """The witness counts how often each record was applied."""
    due = small_records.contents.split("train").records

    def train(count, batch):
        settings = ("train.steps=null", f"train.epochs={count}", f"train.batch_size={batch}")
        commands.run("trainer.task", *task_flags("lengths", *witness.SETTINGS, *settings))
        run = RunFolder(str(small_records.storage / "runs" / "lengths"))
        return run.read(run_folder.RESULT), witness.read_applied(
            checkpoint_files.find_newest(run.path)
        )

    result, applied = train(1, 100)
    assert applied.sum() == -(-due // 100) * 100
    assert result["epochs"] == 1
    read = int(applied.sum())
    result, applied = train(2, 40)
    assert 2 * due <= applied.sum() < 2 * due + 40
    assert result["final_step"] == -(-due // 100) + -(-(2 * due - read) // 40)


def test_other_processes_wait_for_the_length_that_the_chief_writes(tmp_path):
    """NFS may show its file later than its status."""
    run = RunFolder(str(tmp_path))
    sleeps = []

    def sleep(seconds):
        sleeps.append(seconds)
        if len(sleeps) == 3:
            run.write(epochs.LENGTH, {"last": 7, "whole": 4})

    assert length.read_decided(_job(), run, sleep=sleep).train.length == Length(7, 4)
    assert len(sleeps) == 3
    run.remove(epochs.LENGTH)
    times = iter(range(0, 1000, 30))
    with pytest.raises(errors.RetryableError, match=r"length\.json of the chief has not appeared"):
        length.read_decided(_job(), run, clock=lambda: next(times), sleep=lambda _: None)
