"""Counting what has been applied, and reading the counts of a checkpoint."""

import re

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from trainer import checkpoints, ledger, order
from trainer.input import Records


def _blocks(number):
    zeros = np.zeros(number, np.int64)
    return order.Blocks(("a",), zeros, zeros, zeros + 10)


def _save(folder, name, values):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        tf.compat.v1.get_variable(name, initializer=np.array(values, np.int32))
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, f"{folder}/model.ckpt", global_step=0)


def test_without_a_checkpoint_nothing_has_been_applied():
    assert ledger.applied_in(None, _blocks(3)).tolist() == [0, 0, 0]


def test_counts_come_from_the_checkpoint(tmp_path):
    saved = _save(tmp_path, ledger.APPLIED, [10, 3, 0])
    assert ledger.applied_in(saved, _blocks(3)).tolist() == [10, 3, 0]


def test_a_checkpoint_of_other_records_is_refused(tmp_path):
    saved = _save(tmp_path, ledger.APPLIED, [10, 3, 0])
    expected = re.escape(f"checkpoint {saved!r}: trained on 3 blocks of records, there are 4 now")
    with pytest.raises(errors.DataError, match=expected):
        ledger.applied_in(saved, _blocks(4))


def test_a_checkpoint_without_counts_is_refused(tmp_path):
    saved = _save(tmp_path, "something", [1])
    with pytest.raises(errors.DataError, match="does not say what it was trained on"):
        ledger.applied_in(saved, _blocks(4))


@pytest.mark.parametrize("strategy", [None, "mirrored"])
def test_each_record_of_a_batch_counts_for_its_block(strategy):
    """A batch may hold several records of a block. Several replicas: see the resume ring."""

    def step():
        applied = ledger.variable(ledger.APPLIED, [4], tf.int32, saved=True)
        return ledger.count(applied, tf.constant([0, 0, 2], tf.int32))

    with tf.Graph().as_default():
        scope = tf.distribute.MirroredStrategy(["/cpu:0"]) if strategy else None
        counted = scope.run(step) if scope else step()
        (applied,) = tf.compat.v1.global_variables()
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(counted)
            session.run(counted)
            assert session.run(applied).tolist() == [4, 0, 2, 0]


def test_a_finished_run_has_applied_what_its_steps_were_fed(finished, small_records):
    """Read from its checkpoint: steps times batch, and no epoch begun before the last is over."""
    saved = checkpoints.newest(finished.run.path)
    blocks = Records(small_records.job, small_records.folder, small_records.contents).blocks(
        "train"
    )
    applied = ledger.applied_in(saved, blocks)
    job = finished.run.read_config()
    assert applied.sum() == checkpoints.step_of(saved) * job.train.batch_size
    rows = order.ledger(blocks, applied)
    assert all(row.left == 0 for row in rows[:-2])


def test_the_record_of_a_run_says_what_was_read(finished):
    rows = finished.run.read("RESULT.json")["input"]
    job = finished.run.read_config()
    assert sum(row["applied"] for row in rows) == job.train.max_steps * job.train.batch_size
    assert all(row["applied"] + row["left"] == row["due"] for row in rows)
