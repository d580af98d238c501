"""A loss that is not finite ends training before anything of it is saved."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline import errors
from trainer.monitoring.finite_loss import FiniteLoss

_v1 = tf.compat.v1


def test_training_ends_at_the_step_whose_loss_is_not_finite():
    with tf.Graph().as_default():
        step = _v1.train.create_global_step()
        loss = tf.math.log(tf.cast(2 - step, tf.float32))
        _v1.losses.add_loss(loss)
        with tf.control_dependencies([loss]):
            train = _v1.assign_add(step, 1)
        with (
            _v1.train.MonitoredSession(hooks=[FiniteLoss()]) as session,
            pytest.raises(errors.ModelError, match=r"^the loss is (-inf|nan) at step \d$"),
        ):
            for _ in range(5):
                session.run(train)
