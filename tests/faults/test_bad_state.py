"""Files that are damaged, numbers that are none, and ends before the last step."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.runs import run_folder
from tests.faults.conftest import EVERY_CHECKPOINT
from tests.support.sets import slow_unless
from trainer.monitoring import divergence

ASYNC = ("cluster.strategy=parameter_server", "train.save_steps=20")


@pytest.mark.slow
def test_a_truncated_newest_checkpoint_is_passed_over(rig):
    """The others wait for the chief (docs/tensorflow-pitfalls.md#interrupted-saves)."""
    rig.train("train.steps=60", "train.save_steps=20")
    data = rig.path / "model.ckpt-60.data-00000-of-00001"
    os.truncate(data, data.stat().st_size // 2)
    result = rig.train(*ASYNC, "train.steps=90")
    assert result["final_step"] >= 90
    [note] = [note for note in rig.seen.notes if "is damaged" in note]
    assert "model.ckpt-60'" in note and note.endswith("continuing from step 40")
    assert rig.boss.pace.start_step == 40
    assert rig.restarts == []
    rig.check_files(finals=2)


@pytest.mark.parametrize(
    "damage", [slow_unless(damage == "altered", damage) for damage in ("cut", "altered", "missing")]
)
def test_damaged_records_end_the_run_and_are_named(rig, tmp_path, damage):
    folder = tmp_path / "records"
    shutil.copytree(rig.records.folder, folder)
    shard = folder / rig.records.contents.splits["train"].shards[1].path
    if damage == "missing":
        shard.unlink()
    elif damage == "cut":
        os.truncate(shard, shard.stat().st_size // 2)
    else:
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
    with pytest.raises(errors.DataError, match=rf"shard {shard}: .*RECORDS={folder} REPAIR=1"):
        rig.train(*ASYNC, "train.steps=60", records=str(folder))
    assert rig.restarts == []


def test_a_loss_that_is_no_number_ends_the_run_at_the_first_attempt(rig):
    """The same input fails the same way (docs/tensorflow-pitfalls.md#nan-loss)."""
    model = ("model.name=tests.faults.injected:nan_model_fn", "eval.metric=hit_rate")
    with pytest.raises(errors.ModelError, match=r"loss is nan at step \d+ \((chief|worker)-0\)"):
        rig.train(*ASYNC, "train.steps=60", *model)
    assert rig.restarts == []
    assert all(len(pids) == 1 for pids in rig.seen.pids.values())
    (kept, *_) = divergence.read(run_folder.RunFolder(str(rig.path)))
    assert kept.from_step == 0
    assert tf.train.load_variable(kept.checkpoint, "global_step") == 0


# In `make test`, tests/trainer/evaluation/test_best_exporter.py counts evaluations without a gain,
# and tests/pipeline/supervision/test_supervisor.py ends a run before its last step.
@pytest.mark.slow
def test_early_stopping_ends_every_process(rig):
    result = rig.train(
        *ASYNC,
        EVERY_CHECKPOINT,
        "train.steps=100000",
        "eval.early_stopping={patience: 2, min_delta: 1.0}",
    )
    assert rig.boss.reason.startswith("early stopping: accuracy has not improved by more than 1")
    done = run_folder.RunFolder(str(rig.path)).read(run_folder.TRAINING_DONE)
    assert done["final"] is True
    assert 20 <= result["final_step"] < 100000
    assert result["metrics"]["test"]["global_step"] == result["final_step"]
    assert rig.restarts == []


def test_a_full_disk_is_reported_and_what_was_saved_stays_whole(rig):
    rig.path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(rig.path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        with pytest.raises(errors.RetryableError, match=r"No space left.*Free some space and run"):
            rig.train("train.steps=1000", "train.save_steps=20", "train.keep_checkpoints=500")
        saved = tf.train.latest_checkpoint(str(rig.path))
        assert tf.train.load_variable(saved, "global_step") > 0
        for path in pathlib.Path(rig.path).glob("*.tmp"):
            raise AssertionError(f"{path} is left")
    finally:
        subprocess.run(["umount", "--lazy", str(rig.path)], check=True)
