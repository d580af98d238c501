"""What a model predicts for every record of a split."""

from __future__ import annotations

import shutil

import pytest

from pipeline import errors
from tests.trainer import small_checkpoints
from trainer.checkpoints import read_errors
from trainer.comparison import predictions
from trainer.comparison.pairing import ComparedRun
from trainer.metrics import slice_metrics


def test_a_damaged_record_is_named(finished, small_records, tmp_path):
    shutil.copytree(small_records.folder, tmp_path / "records")
    path = tmp_path / "records" / small_records.contents.split("test").shards[0].path
    content = bytearray(path.read_bytes())
    content[100:104] = b"\0\1\2\3"
    path.write_bytes(content)
    folder = str(tmp_path / "records")
    side = ComparedRun(finished.run, finished.job, folder, small_records.contents, {})
    with pytest.raises(
        errors.DataError, match=rf"^run 'finished': shard {path}: block 0, byte 0, record 0: .* CRC"
    ):
        predictions.predict(side, "test", None, slices=())


def _side(finished, small_records, run):
    return ComparedRun(run, finished.job, small_records.folder, small_records.contents, {})


def test_a_checkpoint_that_training_deletes(finished, small_records, tmp_path, monkeypatch):
    run = finished.copy(tmp_path, 200, 300)
    small_checkpoints.remove_after_reading(monkeypatch, 200)
    with pytest.raises(read_errors.Deleted, match=r"ckpt-200': was deleted while it was read"):
        predictions.predict(_side(finished, small_records, run), "test", "200", slices=())


def test_a_checkpoint_that_is_deleted_when_it_was_read(
    finished, small_records, tmp_path, monkeypatch
):
    """Predicting may take longer than training keeps it."""
    run = finished.copy(tmp_path, 200, 300)
    real = slice_metrics.score_batches

    def score_batches(*given, **others):
        yield from real(*given, **others)
        small_checkpoints.remove(f"{run.path}/model.ckpt-200")

    monkeypatch.setattr(slice_metrics, "score_batches", score_batches)
    side = _side(finished, small_records, run)
    assert predictions.predict(side, "test", "200", slices=()).step == 200
