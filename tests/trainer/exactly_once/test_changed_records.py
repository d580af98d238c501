"""A checkpoint of records that are no longer there."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.records import manifest
from pipeline.runs import run_folder
from tests.golden import make_checkpoints, regenerate
from trainer import experiment
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import changed_records, reader, saved_counts
from trainer.input import epoch_order
from trainer.input.dataset import RecordDataset
from trainer.monitoring.status_reporter import Reporter

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def _blocks(number, identity):
    zeros = np.zeros(number, np.int64)
    return epoch_order.Blocks(("a",), zeros, zeros, zeros + 10, None, identity)


OLD, NEW = _blocks(3, 111), _blocks(4, 222)


@pytest.fixture
def run(tmp_path):
    """Trained on half an epoch of `OLD` until step 5."""
    values = {
        **saved_counts.build_unread(OLD),
        saved_counts.APPLIED: np.array([10, 5, 0], np.int32),
        saved_counts.REACHED: np.array([10, 5, 0], np.int32),
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
    changed_records.reconcile(job, run, blocks, reporter=reporter)
    reporter.report("starting")
    return run_folder.read_statuses(run)["chief-0"]


@pytest.mark.parametrize("policy", ["refuse", "restart_epoch"])
def test_with_the_same_records_nothing_happens(run, policy):
    before = checkpoint_files.find_newest(run.path)
    status = _settle(run, OLD, policy)
    assert (status.note, status.new_data) == (None, None)
    assert checkpoint_files.find_newest(run.path) == before
    assert saved_counts.read_counts(before, OLD).applied.tolist() == [10, 5, 0]


def test_a_run_without_a_checkpoint_takes_any(tmp_path):
    assert _settle(run_folder.RunFolder(str(tmp_path)), NEW, "refuse").new_data is None


@pytest.mark.parametrize("blocks", [NEW, dataclasses.replace(OLD, identity=333)])
def test_other_records_are_refused(run, blocks):
    """As many blocks do not make them the same."""
    with pytest.raises(errors.DataError, match="was trained on other records than there are now"):
        _settle(run, blocks, "refuse")
    assert saved_counts.find_mismatch(checkpoint_files.find_newest(run.path), OLD) is None


def test_an_epoch_begins_with_the_new_records_and_nothing_learned_is_lost(run):
    old = checkpoint_files.find_newest(run.path)
    status = _settle(run, NEW, "restart_epoch")
    written = checkpoint_files.find_newest(run.path)
    assert written != old and checkpoint_files.read_step(written) == 5
    counts = saved_counts.read_counts(written, NEW)
    assert counts.applied.tolist() == counts.reached.tolist() == [0] * 4
    assert tf.train.load_variable(written, "weights").tolist() == WEIGHTS.tolist()
    assert tf.train.get_checkpoint_state(run.path).all_model_checkpoint_paths == [old, written]
    assert status.new_data == {"step": 5, "applied": 15}
    assert status.note == (
        "the checkpoint of step 5 was trained on other records than there are now; keeping what it "
        "has learned, and starting an epoch of 40 records (15 had been applied)"
    )


def test_a_run_continues_with_other_records_if_allowed(
    commands, task_flags, small_records, tmp_path
):
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


GOLDEN = make_checkpoints.CHECKPOINTS


def _golden(name, folder):
    """A run with a checkpoint that an earlier version has left."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (GOLDEN / name).iterdir():
        shutil.copy(path, folder)
    checkpoint = str(folder / f"model.ckpt-{make_checkpoints.STEPS}")
    tf.compat.v1.train.update_checkpoint_state(str(folder), checkpoint, [checkpoint])
    return run_folder.RunFolder(str(folder)), checkpoint


def test_a_checkpoint_of_the_first_format_resumes_where_it_was(tmp_path):
    """Made by an earlier version, see tests/golden/README.md."""
    run, checkpoint = _golden("format0", tmp_path)
    job = config_file.load(str(regenerate.CONFIG), list(make_checkpoints.SETTINGS))
    contents = manifest.read(str(regenerate.RECORDS))
    shards = contents.split("train").shards
    flat = tuple(s.model_copy(update={"path": s.path.rpartition("/")[2]}) for s in shards)
    train = contents.split("train").model_copy(update={"shards": flat})
    contents = contents.model_copy(update={"splits": {**contents.splits, "train": train}})
    records = RecordDataset(job, str(regenerate.RECORDS), contents)
    blocks, task = records.list_blocks("train"), topology.Task(topology.CHIEF, 0)
    changed_records.reconcile(job, run, blocks, reporter=Reporter(run, "chief-0", 8))
    assert checkpoint_files.find_newest(run.path) == checkpoint
    before = saved_counts.read_counts(checkpoint, blocks)
    assert before.applied.sum() == make_checkpoints.STEPS * make_checkpoints.BATCH
    place = reader.Position(job, task, blocks, reached=before.reached)
    estimator = experiment.build_estimator(
        job, run, task, transforms=records.transforms, position=place
    )
    saver = tf.compat.v1.train.CheckpointSaverHook(run.path, save_steps=100)
    input_fn = records.build_train_input_fn(place.feed, task.num_readers)
    estimator.train(input_fn, hooks=[saver], steps=3)
    after = saved_counts.read_counts(checkpoint_files.find_newest(run.path), blocks)
    assert (after.applied == after.reached).all()
    assert after.applied.sum() == (make_checkpoints.STEPS + 3) * make_checkpoints.BATCH


def test_a_checkpoint_of_plain_tf_estimator_is_refused_with_a_way_out(tmp_path):
    run, checkpoint = _golden("plain", tmp_path)
    with pytest.raises(errors.DataError) as error:
        _settle(run, NEW, "refuse")
    assert str(error.value) == (
        f"checkpoint {checkpoint!r}: does not say which records it was trained on (input/applied, "
        "input/reached, input/readers, input/identity missing). Set "
        "train.on_new_data=restart_epoch to keep what it has learned and begin an epoch, restore "
        "the records it was trained on, or choose a new RUN="
    )


def test_a_ledger_of_a_later_format_resumes_with_an_epoch(run):
    """As of a version that was taken back."""
    checkpoint = checkpoint_files.find_newest(run.path)
    values = {
        **changed_records.read_values(checkpoint),
        saved_counts.IDENTITY: np.int64(5 << 60 | OLD.identity),
    }
    changed_records.write_checkpoint(values, checkpoint)
    with pytest.raises(errors.DataError, match="ledger of format 5, of another version of this"):
        _settle(run, OLD, "refuse")
    status = _settle(run, OLD, "restart_epoch")
    assert status.new_data == {"step": 5, "applied": 15}
    counts = saved_counts.read_counts(checkpoint_files.find_newest(run.path), OLD)
    assert counts.applied.tolist() == [0, 0, 0]


def test_a_run_of_plain_tf_estimator_resumes_with_all_it_has_learned(
    commands, task_flags, small_records
):
    run, checkpoint = _golden("plain", small_records.storage / "runs" / "plain")
    learned = tf.train.load_variable(checkpoint, "linear/kernel")
    settings = (*make_checkpoints.SETTINGS, "train.steps=8", "train.on_new_data=restart_epoch")
    commands.run("trainer.task", *task_flags("plain", *settings))
    assert run.read(run_folder.RESULT)["final_step"] == 8
    applied = tf.train.load_variable(checkpoint_files.find_newest(run.path), saved_counts.APPLIED)
    assert applied.sum() == 3 * make_checkpoints.BATCH
    written = f"{run.path}/{next(p.stem for p in pathlib.Path(run.path).glob('restarted-*.index'))}"
    np.testing.assert_array_equal(tf.train.load_variable(written, "linear/kernel"), learned)


def test_once_accepted_they_are_those_of_the_run(run):
    _settle(run, NEW, "restart_epoch")
    assert _settle(run, NEW, "refuse").new_data is None
    with pytest.raises(errors.DataError, match="was trained on other records"):
        _settle(run, OLD, "refuse")
