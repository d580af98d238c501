"""A step that is saved a second time, with other parameters."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def save_again(run, step, factor=0.5):
    """Saves the checkpoint of a step with other parameters, as after a fall back to an older one
    with anything that is not bitwise reproducible."""
    prefix = f"{run.path}/model.ckpt-{step}"
    reader = tf.train.load_checkpoint(prefix)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    values = {n: v * np.float32(factor) if v.dtype == np.float32 else v for n, v in values.items()}
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=list(values.values()),
    )
    return prefix


def parameters(prefix):
    """What is trained, by TensorFlow's reader of checkpoints; exports have one too."""
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map()
    return {n: reader.get_tensor(n).tolist() for n in names if n.endswith(("kernel", "bias"))}
