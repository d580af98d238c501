"""A model whose trained parameters count how often each record was applied.

The loss of a batch adds -1 for each of its records to the gradient of that record's own parameter;
plain SGD at rate 1 then adds 1 to it, along whatever path the strategy takes. So the parameters of
a checkpoint count all updates that it really holds, of every replica and process, in every mode.
The model knows nothing of blocks, sessions or the ledger.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from pipeline import storage
from pipeline.records import manifest, tfrecord
from trainer import optimizers
from trainer.heads import heads

MODEL = f"{__name__}:model_fn"
# What a job needs to be witnessed. The rate of the rest of the model is `_RATE`.
SETTINGS = (f"model.name={MODEL}", "train.optimizer={name: sgd, learning_rate: 1}")
VARIABLE = "witness"
# Records are identified by a hash of their pixels; a few share one.
NAMES = 65_537
_RATE = 0.1
# Odd, so that no pixel goes unseen.
_PIXELS = np.random.default_rng(1).integers(0, 2**31, (28, 28, 1), np.int64) | 1


def model_fn(features, labels, mode, params):
    """Softmax regression on `image`, `[batch, 28, 28, 1]` uint8, and the counts."""
    x = tf.compat.v1.layers.flatten(tf.cast(features["image"], tf.float32) / 255.0)
    logits = tf.compat.v1.layers.dense(x, params["classes"], name="linear")
    if mode != tf.estimator.ModeKeys.TRAIN:
        return heads.build_estimator_spec(logits, features, labels, mode=mode, params=params)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    how = params["optimizer"]
    train_op = optimizers.train_op(_RATE * loss - _sum_seen(features["image"], how), how)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _sum_seen(images, how):
    """The sum of the parameters of the records of a batch, times the number of gradients that the
    strategy averages."""
    count = tf.compat.v1.get_variable(
        VARIABLE, [NAMES], tf.float32, initializer=tf.compat.v1.zeros_initializer()
    )
    names = tf.reduce_sum(tf.cast(images, tf.int64) * _PIXELS, [1, 2, 3]) % NAMES
    averaged = tf.distribute.get_strategy().num_replicas_in_sync
    if how.synchronize is not None:
        averaged = how.synchronize[0]
    if how.dense_rows is None:
        # A sparse update adds in place; concurrent dense ones would overwrite each other.
        return averaged * tf.reduce_sum(tf.gather(count, names))
    # Sparse gradients cannot be all-reduced.
    here = tf.math.unsorted_segment_sum(tf.ones_like(names), names, NAMES)
    return averaged * tf.reduce_sum(count * tf.cast(here, tf.float32))


def read_names(folder: str, contents: manifest.Manifest) -> np.ndarray:
    """Returns the name of each train record, `[records]` int64, in the order of the manifest."""
    names = []
    for shard in contents.split("train").shards:
        for payload in tfrecord.read(storage.join(folder, shard.path)):
            example = tf.train.Example.FromString(payload)
            (image,) = example.features.feature["image"].bytes_list.value
            pixels = np.frombuffer(image, np.uint8).reshape(_PIXELS.shape).astype(np.int64)
            names.append(int((pixels * _PIXELS).sum() % NAMES))
    return np.array(names)


def read_applied(checkpoint: str) -> np.ndarray:
    """Returns how often the records of each name were applied, `[NAMES]` int64.

    Raises `AssertionError` for a part of a record: an update that was applied by half.
    """
    found = tf.train.load_variable(checkpoint, VARIABLE)
    whole = np.rint(found)
    # Averages of three or five are as exact as float32.
    np.testing.assert_allclose(found, whole, atol=1e-3, rtol=0, err_msg="applied in part")
    return whole.astype(np.int64)
