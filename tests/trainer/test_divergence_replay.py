"""A loss that is no number can be had again, with what broke it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.runs.run_folder import RunFolder
from tests.trainer.commands import error_line
from trainer import divergence_replay
from trainer.checkpoints import shapes
from trainer.input.dataset import RecordDataset
from trainer.monitoring import divergence

# Each step multiplies the parameters until they overflow.
DIVERGES = (
    "train.steps=40",
    "train.save_steps=3",
    "model.name=tests.trainer.user_code:squared_model_fn",
    "eval.metric=hit_rate",
    "train.optimizer={name: sgd, learning_rate: 1.0e+4}",
)


@pytest.fixture(scope="module")
def diverged(commands, task_flags):
    """A run of a model without bounds on its gradients, and what it printed."""
    return commands.run("trainer.task", *task_flags("diverged", *DIVERGES), code=70)


def _flags(small_records, run):
    return f"--storage={small_records.storage}", f"--run={run}"


def test_the_error_says_the_step_and_how_to_repeat_it(diverged):
    assert re.fullmatch(
        r"error: the loss is (nan|inf) at step \d+ \(chief-0\)\. "
        r"Reproduce it with make replay RUN=diverged STORAGE=\S+",
        error_line(diverged),
    )


def test_the_same_steps_have_the_same_losses(diverged, small_records, commands):
    printed = commands.run("trainer.replay", *_flags(small_records, "diverged"))
    told = re.search(r"chief-0: loss (\w+) at step (\d+)\n", printed)
    steps = re.findall(r"^step (\d+): loss (\S+)$", printed, re.M)
    assert steps[-1] == (told[2], told[1])
    assert [int(step) for step, _ in steps] == list(range(int(steps[0][0]), int(told[2]) + 1))
    assert all(np.isfinite(float(loss)) for _, loss in steps[:-1])
    assert re.search(r"^first non-finite tensor: \S+:0 \(\d+ of \d+ values\)$", printed, re.M)


@pytest.mark.slow
def test_checkpoints_saved_after_divergence_are_not_resumed_from(
    diverged, small_records, commands, task_flags
):
    """With a learning rate that holds, training continues from the last finite checkpoint."""
    better = (*DIVERGES[:-1], "train.optimizer={name: sgd, learning_rate: 1.0e-6}")
    commands.run("trainer.task", *task_flags("diverged", *better))


def test_a_run_that_did_not_diverge_has_nothing_to_repeat(finished, small_records, commands):
    printed = commands.run("trainer.replay", *_flags(small_records, "finished"), code=64)
    assert (
        error_line(printed)
        == "error: run 'finished': its loss was always finite; nothing to repeat"
    )


def test_from_checkpoints_that_are_not_finite_nothing_can_be_repeated(small_records, tmp_path):
    (tmp_path / "divergence").mkdir()
    records = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    with pytest.raises(errors.UsageError, match="none of its checkpoints was finite; nothing to"):
        divergence_replay.repeat(RunFolder(str(tmp_path)), records, print)


def test_steps_that_were_not_kept_are_named(diverged, small_records, tmp_path, monkeypatch):
    kept = divergence.Diverged("chief-0", np.nan, 3, "model.ckpt-3", [], dropped=7)
    monkeypatch.setattr(divergence, "read", lambda run: [kept])
    records = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    with pytest.raises(errors.UsageError, match=r"steps 4 to 7 were not kept: .*train.save_steps"):
        divergence_replay.repeat(RunFolder(str(tmp_path)), records, print)


def test_records_that_are_no_longer_there_are_not_repeated(diverged, small_records):
    """What was kept are places in them."""
    train = small_records.contents.split("train")
    shards = train.shards[1:]
    left = train.model_copy(update={"shards": shards, "records": sum(s.records for s in shards)})
    splits = {**small_records.contents.splits, "train": left}
    contents = small_records.contents.model_copy(update={"splits": splits})
    records = RecordDataset(small_records.job, small_records.folder, contents)
    run = RunFolder(str(small_records.storage / "runs" / "diverged"))
    with pytest.raises(errors.DataError, match="was trained on other records than there are now"):
        divergence_replay.repeat(run, records, print)


def _kept(task, *batches):
    of = [divergence.RecordedBatch(step, np.array(positions)) for step, positions in batches]
    return divergence.Diverged(task, np.nan, 0, "model.ckpt-0", of)


def test_batches_of_one_synchronous_step_become_one():
    kept = [_kept("chief-0", (1, [[0, 0]]), (2, [[0, 1]])), _kept("worker-0", (1, [[5, 0]]))]
    merged = divergence_replay.merge_batches(kept, asynchronous=False)
    assert [(b.step, b.positions.tolist()) for b in merged] == [
        (1, [[0, 0], [5, 0]]),
        (2, [[0, 1]]),
    ]


def test_batches_of_asynchronous_steps_stay_apart():
    kept = [_kept("chief-0", (1, [[0, 0]]), (4, [[0, 1]])), _kept("worker-0", (3, [[5, 0]]))]
    merged = divergence_replay.merge_batches(kept, asynchronous=True)
    assert [b.step for b in merged] == [1, 3, 4]


def test_a_checkpoint_of_a_changed_model_is_refused(diverged, small_records, monkeypatch):
    real = tf.compat.v1.layers.dense
    monkeypatch.setattr(
        tf.compat.v1.layers, "dense", lambda x, units, **given: real(x, units + 1, **given)
    )
    records = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    run = RunFolder(str(small_records.storage / "runs" / "diverged"))
    with pytest.raises(shapes.OtherShapes, match=r"its linear/kernel has the shape \[784, 10\]"):
        divergence_replay.repeat(run, records, print)
