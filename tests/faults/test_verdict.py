"""A verdict finds what the ledger cannot show."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from pipeline.records import manifest
from tests.faults import moments, verdict, witness
from trainer.exactly_once import saved_counts
from trainer.input.dataset import RecordDataset


@pytest.fixture
def saved(small_records, tmp_path):
    """Saves a checkpoint of one epoch and a half, changed as is asked, and returns its path."""
    contents = manifest.read(small_records.folder)
    blocks = RecordDataset(small_records.job, small_records.folder, contents).list_blocks("train")
    names = witness.read_names(small_records.folder, contents)

    def save(change=lambda witnessed, names: None, counted=0):
        reached = blocks.records + np.where(np.arange(len(blocks.records)) % 2, 5, 0)
        of_block = np.repeat(np.arange(len(blocks.records)), blocks.records)
        first = np.concatenate([np.arange(records) for records in blocks.records])
        witnessed = np.zeros(witness.NAMES, np.float32)
        np.add.at(witnessed, names, 1 + (first < (reached - blocks.records)[of_block]))
        change(witnessed, names)
        applied = reached + np.eye(1, len(reached), dtype=int)[0] * counted
        values = {
            **saved_counts.build_unread(blocks),
            **{
                saved_counts.APPLIED: applied.astype(np.int32),
                saved_counts.REACHED: reached.astype(np.int32),
            },
            **{witness.VARIABLE: witnessed, "global_step": np.int64(3)},
        }
        path = str(tmp_path / "model.ckpt-3")
        tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=list(values),
            shape_and_slices=[""] * len(values),
            tensors=[tf.constant(value) for value in values.values()],
        )
        return verdict.compare_applied(path, small_records.folder, small_records.job)

    return save


def test_what_is_exactly_once_is(saved):
    assert saved().exact


def test_a_record_applied_twice_is_found(saved):
    def double(witnessed, names):
        witnessed[names[:32]] += 1

    found = saved(double)
    assert (found.more, found.never, found.apart) == (32, 0, 32)
    assert (found.ledger_more, found.ledger_never) == (0, 0)


def test_a_record_left_out_is_found(saved):
    def drop(witnessed, names):
        witnessed[names[-7:]] = 0

    assert saved(drop).never >= 7
    assert not saved(drop).exact


def test_one_record_for_another_is_found(saved):
    def swap(witnessed, names):
        witnessed[names[0]] += 1
        witnessed[names[-1]] = 0

    found = saved(swap)
    assert found.more >= 1 and found.never >= 1


def test_what_the_ledger_says_is_kept_apart_from_what_was_applied(saved):
    found = saved(counted=4)
    assert (found.ledger_more, found.apart, found.more) == (4, -4, 0)


def test_half_an_update_is_an_error(saved):
    def halve(witnessed, names):
        witnessed[names[0]] = 0.5

    with pytest.raises(AssertionError, match="applied in part"):
        saved(halve)


@pytest.mark.parametrize(
    ("mode", "lost", "batches"),
    [
        ("parameter_server_sync", 3, 0),
        # Two of the worker; what was applied during the save that was restored, and by both
        # processes then; and the same of the final checkpoint, of which nothing was noted.
        ("parameter_server", 2, 2 + (3 + 2) + (3 + 2)),
    ],
)
def test_the_bound_is_that_of_the_readme(small_records, tmp_path, mode, lost, batches):
    rows = [
        {"moment": moments.RESTORED, "pid": 1, "step": None, "until": None},
        {"moment": moments.SAVING, "pid": 1, "step": 20, "until": 23},
        {"moment": moments.RESTORED, "pid": 2, "step": 20},
    ]
    (tmp_path / moments.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = small_records.config(f"cluster.strategy={mode}", "train.batch_size=32")
    assert verdict.bound(job, str(tmp_path), lost) == batches * 32
