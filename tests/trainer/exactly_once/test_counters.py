"""Counting what has been applied, and reading the counts of a checkpoint."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from trainer.checkpoints import checkpoint_files
from trainer.distribution import placement
from trainer.exactly_once import counters, saved_counts
from trainer.input import epoch_order
from trainer.input.dataset import RecordDataset


def _blocks(number):
    zeros = np.zeros(number, np.int64)
    return epoch_order.Blocks(("a",), zeros, zeros, zeros + 10)


def _save(folder, **values):
    values = {"identity": np.int64(0), **values}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        for name, value in values.items():
            tf.compat.v1.get_variable(f"input/{name}", initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, f"{folder}/model.ckpt", global_step=0)


COUNTS = {
    "applied": np.array([10, 4, 0], np.int32),
    "reached": np.array([10, 3, 0], np.int32),
    "readers": np.array([9, 5] + [0] * (saved_counts.MOST_READERS - 2), np.int64),
}


def test_without_a_checkpoint_nothing_has_been_applied():
    found = saved_counts.read_counts(None, _blocks(3))
    assert found.applied.tolist() == found.reached.tolist() == [0, 0, 0]
    assert found.readers.sum() == 0


def test_counts_come_from_the_checkpoint(tmp_path):
    found = saved_counts.read_counts(_save(tmp_path, **COUNTS), _blocks(3))
    read = {field.name: getattr(found, field.name).tolist() for field in dataclasses.fields(found)}
    assert read == {name: values.tolist() for name, values in COUNTS.items()}


def test_a_checkpoint_of_other_records_is_refused(tmp_path):
    """As many blocks, but others."""
    saved = _save(tmp_path, **COUNTS, identity=np.int64(7))
    blocks = dataclasses.replace(_blocks(3), identity=7)
    assert saved_counts.read_counts(saved, blocks).applied.tolist() == [10, 4, 0]
    expected = re.escape(f"checkpoint {saved!r}: was trained on other records than there are now")
    with pytest.raises(errors.DataError, match=rf"{expected}.* train\.on_new_data=restart_epoch"):
        saved_counts.read_counts(saved, _blocks(3))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"identity": np.int64(3 << 60)}, "has a ledger of format 3, of another version"),
        ({"identity": np.int64([0])}, r"of another kind \(input/identity is int64 \[1\]\)"),
        ({"identity": np.float32(0)}, r"of another kind \(input/identity is float32 \[\]\)"),
        ({"applied": np.zeros(4, np.int32)}, r"another shape \(input/applied is int32 \[4\]\)"),
        ({"readers": np.zeros(8, np.int64)}, r"another shape \(input/readers is int64 \[8\]\)"),
    ],
)
def test_a_ledger_of_another_version_is_refused_with_a_way_out(tmp_path, changed, why):
    """In one line, before TensorFlow fails to restore it."""
    saved = _save(tmp_path, **{**COUNTS, **changed})
    with pytest.raises(errors.DataError, match=f"{why}.*restart_epoch to keep what it") as error:
        saved_counts.read_counts(saved, _blocks(3))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("missing", [*COUNTS, "identity"])
def test_a_checkpoint_without_counts_is_refused(tmp_path, missing):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        for name in {*COUNTS, "identity"} - {missing}:
            tf.compat.v1.get_variable(f"input/{name}", [])
        session.run(tf.compat.v1.global_variables_initializer())
        saved = tf.compat.v1.train.Saver().save(session, f"{tmp_path}/model.ckpt")
    with pytest.raises(errors.DataError, match=f"does not say which .*input/{missing} missing"):
        saved_counts.read_counts(saved, _blocks(3))


def _counted(batches, *, strategy=None, rank=0, in_turn=True):
    """Returns the counts after `batches` of (blocks, places)."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        blocks, places = (tf.compat.v1.placeholder(tf.int32, [None]) for _ in range(2))
        made = []

        def step():
            made.append(counters.Variables(_blocks(4)))
            return made[0].count(blocks, places, rank, in_turn=in_turn)

        scope = tf.distribute.MirroredStrategy(["/cpu:0"]) if strategy else None
        counted = scope.run(step) if scope else step()
        session.run(tf.compat.v1.global_variables_initializer())
        for batch in batches:
            session.run(counted, dict(zip((blocks, places), batch, strict=True)))
        names = [f"input/{name}" for name in COUNTS]
        values = {v.op.name: v for v in tf.compat.v1.global_variables()}
        return [session.run(values[name]).tolist() for name in names]


@pytest.mark.parametrize("strategy", [None, "mirrored"])
def test_each_record_of_a_batch_counts_for_its_block(strategy):
    """A batch may hold several records of a block. Several replicas: see the resume ring."""
    batches = [([0, 0, 2], [1, 2, 5]), ([0, 3, 0], [3, 1, 4])]
    applied, reached, readers = _counted(batches, strategy=strategy, rank=2)
    assert applied == [4, 0, 1, 1]
    assert reached == [4, 0, 5, 1]
    assert readers[:4] == [0, 0, 6, 0]


def test_the_position_of_a_block_never_goes_back():
    """Records of a window are mixed: the highest place may come first."""
    applied, reached, _ = _counted([([0, 0, 1], [5, 2, 4]), ([0, 1], [3, 1])])
    assert applied == [3, 2, 0, 0]
    assert reached == [5, 4, 0, 0]


def test_records_applied_out_of_turn_are_counted_but_do_not_move_the_position():
    applied, reached, _ = _counted([([1, 1], [7, 8])], in_turn=False)
    assert applied == [0, 2, 0, 0]
    assert reached == [0, 0, 0, 0]


def test_counts_apart_are_saved_as_they_were_copied():
    """Processes train while a checkpoint is written."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = counters.Variables(_blocks(4), apart=True)
        count = made.count(tf.constant([1, 1], tf.int32), tf.constant([1, 2], tf.int32), 0)
        made.build()
        saved = {v.op.name: v for v in tf.compat.v1.global_variables()}
        assert set(saved) == {*(f"input/{name}" for name in COUNTS), saved_counts.IDENTITY}
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(saved[saved_counts.REACHED].assign([0, 0, 7, 0]))
        made.restore(session)
        session.run(count)
        assert session.run(saved[saved_counts.APPLIED]).tolist() == [0, 0, 0, 0]
        made.copy(session)
        assert session.run(saved[saved_counts.APPLIED]).tolist() == [0, 2, 0, 0]
        assert session.run(saved[saved_counts.REACHED]).tolist() == [0, 2, 7, 0]
        assert session.run(saved[saved_counts.READERS])[0] == 2


def test_counts_apart_are_copied_again_if_a_batch_was_counted_in_part_of_them():
    """In the middle of the first copy: in one variable before it, in the other after."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = counters.Variables(_blocks(2), apart=True)
        half, rest = (one.assign_add([0, 3]).op for one in (made.applied, made.reached))
        made.build()
        saved = {v.op.name: v for v in tf.compat.v1.global_variables()}
        session.run(tf.compat.v1.global_variables_initializer())
        made.restore(session)
        session.run(half)
        ran = []

        class Between:
            def run(self, what):
                found = session.run(what)
                if not ran:  # the copy
                    session.run(rest)
                ran.append(found)
                return found

        made.copy(Between())
        assert session.run(saved[saved_counts.APPLIED]).tolist() == [0, 3]
        assert session.run(saved[saved_counts.REACHED]).tolist() == [0, 3]


def test_counts_apart_are_lost_together_or_not_at_all():
    """A batch that is counted on one server and not on another could not be told from two."""
    cluster = {"chief": ("h:1",), "ps": ("h:2", "h:3", "h:4")}
    placed = placement.build_device_fn(topology.Task("chief", 0, cluster))
    with tf.Graph().as_default(), tf.compat.v1.device(placed):
        made = counters.Variables(_blocks(4), apart=True)
        assert len({v.device for v in (made.applied, made.reached, made.readers)}) == 1


def test_a_reader_beyond_the_most_is_counted_with_another():
    _, _, readers = _counted([([0], [1])], rank=saved_counts.MOST_READERS + 3)
    assert readers[3] == 1


def test_a_million_blocks_take_no_more_than_eight_megabytes():
    """The ledger of 10^9 records."""
    with tf.Graph().as_default():
        counters.Variables(_blocks(10**6))
        sizes = [v.shape.num_elements() * v.dtype.size for v in tf.compat.v1.global_variables()]
    assert sum(sizes) < 8 << 20


def test_a_finished_run_has_applied_what_its_steps_were_fed(finished, small_records):
    """Read from its checkpoint: steps times batch, and no epoch begun before the last is over."""
    saved = checkpoint_files.find_newest(finished.run.path)
    blocks = RecordDataset(
        small_records.job, small_records.folder, small_records.contents
    ).list_blocks("train")
    counts = saved_counts.read_counts(saved, blocks)
    job = finished.run.read_config()
    assert counts.applied.sum() == checkpoint_files.read_step(saved) * job.train.batch_size
    assert counts.readers.sum() == counts.readers[0] == counts.applied.sum()
    rows = epoch_order.build_ledger(blocks, counts.applied, counts.reached)
    assert all(row.exact for row in rows[:-2])


def test_the_record_of_a_run_says_what_was_read(finished):
    rows = finished.run.read("RESULT.json")["input"]
    job = finished.run.read_config()
    assert sum(row["once"] for row in rows) == job.train.max_steps * job.train.batch_size
    assert all(row["once"] + row["left"] == row["due"] for row in rows)
