"""The least a training loop can be: a session, batches from memory, nothing written.

    python -m benchmarks.bare_loop WARM_UP STEPS BATCH

prints examples per second. The network is the shipped one, called as the Estimator calls it.
"""

from __future__ import annotations

import gzip
import sys
import time

import numpy as np
import tensorflow as tf

from pipeline import storage
from pipeline.config import config_file
from trainer.models import mnist_cnn
from trainer.optimizers import Updates


def main(warm_up: int, steps: int, batch: int) -> None:
    """Trains on batches taken in turn from the training images."""
    job = config_file.load("mnist")
    files = job.data.inputs["train"]
    content = gzip.decompress(storage.open_file(files["images"]).read())
    images = np.frombuffer(content, np.uint8, offset=16).reshape(-1, 28, 28, 1)
    content = gzip.decompress(storage.open_file(files["labels"]).read())
    labels = np.frombuffer(content, np.uint8, offset=8)
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        image = v1.placeholder(tf.uint8, [None, 28, 28, 1])
        label = v1.placeholder(tf.int64, [None])
        params = {**job.model.params, "optimizer": Updates("adam", 1e-3)}
        spec = mnist_cnn.model_fn({"image": image}, label, tf.estimator.ModeKeys.TRAIN, params)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for step in range(warm_up + steps):
                if step == warm_up:
                    began = time.perf_counter()
                at = step * batch % (len(images) - batch)
                feed = {
                    image: images[at : at + batch],
                    label: labels[at : at + batch],
                }
                session.run([spec.train_op, spec.loss], feed)
    print(steps * batch / (time.perf_counter() - began))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
