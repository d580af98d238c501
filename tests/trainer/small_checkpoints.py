"""Real checkpoints of one small variable."""

from __future__ import annotations

import pathlib

import tensorflow as tf


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
