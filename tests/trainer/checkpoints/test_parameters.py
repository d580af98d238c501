"""Parameters of checkpoints, averaged ones and cut ones among them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from trainer.checkpoints import shapes
from trainer.checkpoints.parameters import Parameters

v1 = tf.compat.v1
KERNEL = np.ones([3, 2], np.float32)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A dense layer, its kernel cut into two parts, and averages of all that is trained."""
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2)):
            v1.get_variable("net/kernel", [3, 2], initializer=v1.ones_initializer())
        v1.get_variable("net/bias", initializer=np.ones(2, np.float32))
        v1.get_variable("net/moving_mean", initializer=5.0, trainable=False)
        average = tf.train.ExponentialMovingAverage(0.5)
        kept = average.apply(v1.trainable_variables())
        session.run(v1.global_variables_initializer())
        session.run([v.assign_add(tf.ones_like(v)) for v in v1.trainable_variables()])
        session.run(kept)
        folder = tmp_path_factory.mktemp("parameters")
        return v1.train.Saver().save(session, str(folder / "model.ckpt"))


def test_values_are_those_of_the_checkpoint(checkpoint):
    found = Parameters(checkpoint)
    np.testing.assert_array_equal(found("net/kernel"), KERNEL + 1)
    np.testing.assert_array_equal(found("net/bias"), [2, 2])


def test_averages_take_the_place_of_what_has_one(checkpoint):
    found = Parameters(checkpoint, averaged=True)
    np.testing.assert_array_equal(found("net/kernel"), KERNEL + 0.5)
    np.testing.assert_array_equal(found("net/bias"), [1.5, 1.5])
    assert found("net/moving_mean") == 5.0


def test_a_layer_gets_its_weights_by_their_names(checkpoint):
    layer = tf.keras.layers.Dense(2)
    layer.build([None, 3])
    Parameters(checkpoint).load(layer, "net")
    np.testing.assert_array_equal(layer.kernel, KERNEL + 1)


def test_a_layer_of_another_shape_is_refused(checkpoint):
    layer = tf.keras.layers.Dense(4)
    layer.build([None, 3])
    with pytest.raises(shapes.OtherShapes, match=r"its net/kernel has the shape \[3, 2\], that of"):
        Parameters(checkpoint).load(layer, "net")


def test_a_name_there_is_not(checkpoint):
    with pytest.raises(
        errors.ModelError,
        match=r"has no 'net/kernels' \(did you mean 'net/kernel.*'\?\), which its Keras form "
        "needs; it was trained with other code",
    ):
        Parameters(checkpoint)("net/kernels")
