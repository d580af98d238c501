"""Reading real checkpoints, and ones that cannot be read."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

from pipeline import errors
from trainer import checkpoints


def save(folder: pathlib.Path, *steps: int) -> list[str]:
    """Saves one variable and the global step, once for each of `steps`."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        v1.get_variable("weights", [100], initializer=v1.zeros_initializer())
        saver = v1.train.Saver()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            paths = []
            for number in steps:
                session.run(step.assign(number))
                paths.append(saver.save(session, str(folder / "model.ckpt"), global_step=step))
    return paths


def test_the_newest_is_found_and_its_step_read(tmp_path):
    paths = save(tmp_path, 3, 12)
    assert checkpoints.newest(str(tmp_path)) == paths[1]
    assert checkpoints.step_of(paths[0]) == 3
    assert checkpoints.current_step(str(tmp_path)) == 12


def test_without_checkpoints_training_begins_at_0(tmp_path):
    assert checkpoints.newest(str(tmp_path)) is None
    assert checkpoints.current_step(str(tmp_path)) == 0
    assert checkpoints.current_step(str(tmp_path / "absent")) == 0


def _cut(path: pathlib.Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize(
    "damage",
    [
        lambda prefix: _cut(pathlib.Path(f"{prefix}.index"), 50),
        lambda prefix: _cut(pathlib.Path(f"{prefix}.index"), 0),
        lambda prefix: pathlib.Path(f"{prefix}.index").write_bytes(b"x" * 300),
        lambda prefix: _cut(pathlib.Path(f"{prefix}.data-00000-of-00001"), 4),
        lambda prefix: pathlib.Path(f"{prefix}.data-00000-of-00001").unlink(),
    ],
    ids=["index cut", "index empty", "index altered", "data cut", "data gone"],
)
def test_one_that_cannot_be_read_is_an_error_and_not_step_0(tmp_path, damage):
    (prefix,) = save(tmp_path, 7)
    damage(prefix)
    with pytest.raises(
        errors.DataError, match=f"checkpoint '{prefix}': cannot be read .*Remove it, or choose"
    ):
        checkpoints.current_step(str(tmp_path))


def test_one_that_is_gone_is_an_error_and_not_step_0(tmp_path):
    (prefix,) = save(tmp_path, 7)
    for path in tmp_path.glob("model.ckpt-7*"):
        path.unlink()
    with pytest.raises(errors.DataError, match=f"checkpoint '{prefix}': is gone, though the list"):
        checkpoints.current_step(str(tmp_path))


def test_one_without_a_global_step_is_an_error(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("weights", [1], initializer=v1.zeros_initializer())
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    with pytest.raises(errors.DataError, match="global_step"):
        checkpoints.step_of(path)
