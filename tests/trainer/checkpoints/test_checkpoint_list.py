"""The list of checkpoints, as TensorFlow writes and reads it."""

from __future__ import annotations

import shutil

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.storage import patience
from tests.pipeline.read_faults import faults
from trainer.checkpoints import checkpoint_list


def test_without_a_list_or_with_a_damaged_one_it_is_empty(tmp_path):
    folder = str(tmp_path)
    assert checkpoint_list.read(folder) == []
    for content in (b"", b"model_checkpoint_pa", b"\xff\xfe"):
        (tmp_path / "checkpoint").write_bytes(content)
        assert checkpoint_list.read(folder) == []


def test_what_tensorflow_writes_is_read_the_newest_first(tmp_path):
    folder = str(tmp_path)
    paths = [f"{folder}/model.ckpt-{step}" for step in (3, 12, 20)]
    tf.compat.v1.train.update_checkpoint_state(folder, paths[2], paths)
    assert not checkpoint_list.is_relative(folder)
    assert checkpoint_list.read(folder) == paths[::-1]


def test_what_is_written_is_relative_and_tensorflow_reads_it(tmp_path):
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    paths = [f"{first}/model.ckpt-{step}" for step in (20, 12)]
    checkpoint_list.write(str(first), paths)
    assert checkpoint_list.is_relative(str(first))
    assert checkpoint_list.read(str(first)) == paths
    shutil.copytree(first, copy)
    state = tf.train.get_checkpoint_state(str(copy))
    assert state.model_checkpoint_path == f"{copy}/model.ckpt-20"
    assert list(state.all_model_checkpoint_paths) == [f"{copy}/model.ckpt-{s}" for s in (12, 20)]


def test_absolute_paths_of_a_folder_that_was_copied_mean_those_in_the_copy(tmp_path):
    """What lies elsewhere alone, is there."""
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    paths = [f"{first}/model.ckpt-{step}" for step in (3, 12)]
    tf.compat.v1.train.update_checkpoint_state(str(first), paths[1], paths)
    (first / "model.ckpt-12.index").touch()
    shutil.copytree(first, copy)
    assert checkpoint_list.read(str(copy)) == [f"{copy}/model.ckpt-12", f"{first}/model.ckpt-3"]


@faults
def test_one_that_cannot_be_read_is_not_taken_for_none(open_to_all, monkeypatch, fault):
    checkpoint_list.write(open_to_all, [f"{open_to_all}/model.ckpt-3"])
    monkeypatch.setattr(patience, "PATIENCE", 0.0)
    with fault(open_to_all), pytest.raises(errors.RetryableError, match="checkpoint': cannot be"):
        checkpoint_list.read(open_to_all)
    assert checkpoint_list.read(open_to_all) == [f"{open_to_all}/model.ckpt-3"]
