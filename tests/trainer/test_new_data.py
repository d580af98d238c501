"""A checkpoint of records that are no longer there."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config_file, errors, manifest, run_folder
from trainer import checkpoints, ledger, new_data, order
from trainer.reporter import Reporter

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def _blocks(number, identity):
    zeros = np.zeros(number, np.int64)
    return order.Blocks(("a",), zeros, zeros, zeros + 10, None, identity)


OLD, NEW = _blocks(3, 111), _blocks(4, 222)


@pytest.fixture
def run(tmp_path):
    """Trained on half an epoch of `OLD` until step 5."""
    values = {
        **ledger.unread(OLD),
        ledger.APPLIED: np.array([10, 5, 0], np.int32),
        ledger.REACHED: np.array([10, 5, 0], np.int32),
        "weights": WEIGHTS,
        "global_step": np.int64(5),
    }
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in values.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, f"{tmp_path}/model.ckpt", global_step=5)
    return run_folder.RunFolder(str(tmp_path))


def _settle(run, blocks, policy):
    job = config_file.load("mnist", [f"train.on_new_data={policy}"])
    reporter = Reporter(run, "chief-0", 100)
    new_data.settle(job, run, blocks, reporter)
    reporter.say("starting")
    return run_folder.read_statuses(run)["chief-0"]


@pytest.mark.parametrize("policy", ["refuse", "restart_epoch"])
def test_with_the_same_records_nothing_happens(run, policy):
    before = checkpoints.newest(run.path)
    status = _settle(run, OLD, policy)
    assert (status.note, status.new_data) == (None, None)
    assert checkpoints.newest(run.path) == before
    assert ledger.counts_in(before, OLD).applied.tolist() == [10, 5, 0]


def test_a_run_without_a_checkpoint_takes_any(tmp_path):
    assert _settle(run_folder.RunFolder(str(tmp_path)), NEW, "refuse").new_data is None


@pytest.mark.parametrize("blocks", [NEW, dataclasses.replace(OLD, identity=333)])
def test_other_records_are_refused(run, blocks):
    """As many blocks do not make them the same."""
    with pytest.raises(errors.DataError, match="was trained on other records than there are now"):
        _settle(run, blocks, "refuse")
    assert ledger.mismatch(checkpoints.newest(run.path), OLD) is None


def test_an_epoch_begins_with_the_new_records_and_nothing_learned_is_lost(run):
    old = checkpoints.newest(run.path)
    status = _settle(run, NEW, "restart_epoch")
    written = checkpoints.newest(run.path)
    assert written != old and checkpoints.step_of(written) == 5
    counts = ledger.counts_in(written, NEW)
    assert counts.applied.tolist() == counts.reached.tolist() == [0] * 4
    assert tf.train.load_variable(written, "weights").tolist() == WEIGHTS.tolist()
    assert tf.train.get_checkpoint_state(run.path).all_model_checkpoint_paths == [old, written]
    assert status.new_data == {"step": 5, "applied": 15}
    assert status.note == (
        "the checkpoint of step 5 was trained on other records than there are now; keeping what it "
        "has learned, and starting an epoch of 40 records (15 had been applied)"
    )


def test_a_run_goes_on_with_other_records_if_it_may(commands, task_flags, small_records, tmp_path):
    """A shard has gone since the run was stopped in its first epoch."""
    folder = tmp_path / "records" / "small"
    shutil.copytree(small_records.folder, folder)

    def train(steps, policy, code=0):
        settings = (f"train.steps={steps}", f"train.on_new_data={policy}", "train.batch_size=100")
        flags = task_flags("other", *settings, storage=str(tmp_path))
        return commands.run("trainer.task", *flags, code=code)

    train(20, "refuse")
    train_split = small_records.contents.split("train")
    shards = train_split.shards[1:]
    left = sum(shard.records for shard in shards)
    less = train_split.model_copy(update={"shards": shards, "records": left})
    splits = {**small_records.contents.splits, "train": less}
    manifest.write(str(folder), small_records.contents.model_copy(update={"splits": splits}))
    refused = train(60, "refuse", code=65)
    assert "was trained on other records than there are now" in refused
    output = train(60, "restart_epoch")
    told = (
        "the checkpoint of step 20 was trained on other records than there are now; keeping what "
        f"it has learned, and starting an epoch of {left:,} records (2,000 had been applied)"
    )
    run = run_folder.RunFolder(str(tmp_path / "runs" / "other"))
    status = run_folder.read_statuses(run)["chief-0"]
    assert told in output and status.note.startswith(told)
    assert status.new_data == {"step": 20, "applied": 2000}
    first, *others = run.read(run_folder.RESULT)["input"]
    assert (first["due"], first["once"], first["left"]) == (left, left, 0)
    assert left + sum(row["once"] for row in others) == 40 * 100


def test_once_accepted_they_are_those_of_the_run(run):
    _settle(run, NEW, "restart_epoch")
    assert _settle(run, NEW, "refuse").new_data is None
    with pytest.raises(errors.DataError, match="was trained on other records"):
        _settle(run, OLD, "refuse")
