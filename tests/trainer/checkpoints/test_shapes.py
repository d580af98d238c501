"""A checkpoint of a model whose variables had other shapes: TensorFlow restores it all the same."""

from __future__ import annotations

import pytest
import tensorflow as tf

from trainer.checkpoints import shapes
from trainer.distribution import placement

v1 = tf.compat.v1


def _build(width):
    v1.get_variable("kernel", [3, width], use_resource=True)
    v1.get_variable("counts", [width], use_resource=True, trainable=False)


def _save(folder, width, parts=1):
    with tf.Graph().as_default(), v1.Session() as session, placement.cut(parts, 10):
        _build(width)
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(folder / "model.ckpt"), 7)


def _look(checkpoint, width, parts=1):
    with tf.Graph().as_default(), placement.cut(parts, 10):
        _build(width)
        shapes.ShapesHook(lambda: checkpoint).begin()


@pytest.mark.parametrize("parts", [1, 2])
def test_other_shapes_are_refused(tmp_path, parts):
    checkpoint = _save(tmp_path, 8, parts)
    for now in (1, 2):
        _look(checkpoint, 8, now)
        with pytest.raises(shapes.OtherShapes) as raised:
            _look(checkpoint, 6, now)
        assert str(raised.value) == (
            f"checkpoint {checkpoint!r}: is of another model: its kernel has the shape [3, 8], "
            "that of the model now [3, 6]. Change the model back, or choose a new RUN="
        )


def test_what_is_not_there_is_left_to_who_restores_it(tmp_path):
    _look(None, 8)
    _look(str(tmp_path / "model.ckpt-7"), 8)
    checkpoint = _save(tmp_path, 8)
    with tf.Graph().as_default():
        v1.get_variable("other", [4], use_resource=True)
        shapes.ShapesHook(lambda: checkpoint).begin()


def test_a_saver_of_the_model_may_rename(tmp_path):
    checkpoint = _save(tmp_path, 8)
    with tf.Graph().as_default():
        _build(6)
        v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver())
        shapes.ShapesHook(lambda: checkpoint).begin()
