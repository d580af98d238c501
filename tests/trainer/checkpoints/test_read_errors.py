"""What failures to read a checkpoint are said to mean, while training deletes some."""

from __future__ import annotations

import os
import re

import pytest
import tensorflow as tf

from pipeline import errors
from tests.trainer import small_checkpoints
from trainer.checkpoints import checkpoint_files, read_errors

v1 = tf.compat.v1


def _restore(path):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("weights", [100])
        v1.train.Saver().restore(session, path)


def _told(path):
    return (
        rf"^checkpoint '{re.escape(path)}': was deleted while it was read: a run that trains keeps "
        r"the newest train\.keep_checkpoints, and the best\. Run the same command again; if"
    )


@pytest.mark.parametrize("read", [_restore, checkpoint_files.read_step])
def test_one_that_is_gone_was_deleted(tmp_path, read):
    (path,) = small_checkpoints.save(tmp_path, 3)
    small_checkpoints.remove(path)
    with pytest.raises(read_errors.Deleted, match=_told(path)) as raised, read_errors.explain(path):
        read(path)
    assert raised.value.exit_code == 75


@pytest.mark.parametrize("damage", [small_checkpoints.cut_data, small_checkpoints.flip_data])
def test_one_that_is_damaged_is_said_to_be(tmp_path, damage):
    (path,) = small_checkpoints.save(tmp_path, 3)
    damage(path)
    told = rf"^checkpoint '{re.escape(path)}': is damaged \(.*weights.*\)\. Take another with --ch"
    with pytest.raises(errors.DataError, match=told), read_errors.explain(path):
        _restore(path)


def test_one_without_its_data_is_damaged(tmp_path):
    (path,) = small_checkpoints.save(tmp_path, 3)
    os.remove(f"{path}.data-00000-of-00001")
    told = r"is damaged \(.*00001 is missing\)\. Take another"
    with pytest.raises(errors.DataError, match=told), read_errors.explain(path):
        _restore(path)


def test_other_errors_stay(tmp_path):
    (path,) = small_checkpoints.save(tmp_path, 3)
    for error in (ValueError("other"), errors.DataError("other"), KeyError("other")):
        with pytest.raises(type(error), match="other"), read_errors.explain(path):
            raise error
    small_checkpoints.remove(path)
    with pytest.raises(errors.ModelError, match="other"), read_errors.explain(path):
        raise errors.ModelError("other")


def test_one_that_is_deleted_while_it_is_checked(tmp_path, monkeypatch):
    early, _ = small_checkpoints.save(tmp_path, 3, 7)
    real = checkpoint_files.find_problem

    def find_problem(path, **given):
        small_checkpoints.remove(path)
        return real(path, **given)

    monkeypatch.setattr(checkpoint_files, "find_problem", find_problem)
    with pytest.raises(read_errors.Deleted, match=_told(early)):
        read_errors.find_intact(str(tmp_path), "3")


def test_of_all_those_that_are_deleted_are_left_out(tmp_path, capsys):
    paths = small_checkpoints.save(tmp_path, 3, 5, 7)
    small_checkpoints.remove(paths[1])
    read = checkpoint_files.read_step
    assert read_errors.visit(paths, "all", read) == [3, 7]
    assert capsys.readouterr().err == (
        f"warning: checkpoint {paths[1]!r} was deleted while it was read; it is left out\n"
    )
    with pytest.raises(read_errors.Deleted, match=_told(paths[1])):
        read_errors.visit(paths[1:2], "5", read)
    small_checkpoints.remove(paths[0])
    with pytest.raises(read_errors.Deleted, match=_told(paths[1])):
        read_errors.visit(paths[:2], "all", read)
