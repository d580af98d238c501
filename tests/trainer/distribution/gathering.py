"""One of two processes that hold a copy of a table each, and train it on batches of any number of
ids: `python -m tests.trainer.distribution.gathering OPTIMIZER DENSE_ROWS FOLDER`, with
`TF_CONFIG`. Each writes the table it ends with."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import tensorflow as tf

from pipeline import config
from pipeline.cluster import topology
from trainer import optimizers
from trainer.distribution import strategies

ROWS, WIDTH, STEPS, RATE = 2000, 4, 25, 0.1
SCALE = np.arange(1.0, WIDTH + 1)
_v1 = tf.compat.v1


def batches(rank: int) -> list[np.ndarray]:
    """Returns the ids of each step of a process; some of them are there twice, some have none."""
    rng = np.random.default_rng(rank)
    sizes = [0, 1, 300, 64, 65, 2, 128, *rng.integers(0, 500, STEPS)]
    return [rng.integers(0, ROWS // 4, size) for size in sizes]


def main(name: str, dense_rows: str, folder: str) -> None:
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    rank = int(task["type"] == "worker")
    own = topology.Task(task["type"], 0, {"chief": ("h:1",), "worker": ("h:2",)})
    cluster = config.Cluster(strategy="multi_worker_mirrored")
    strategy = strategies.build_distribution(cluster, own).train
    how = optimizers.Updates(name, RATE, dense_rows=int(dense_rows))

    def model_fn(features, labels, mode, params):
        table = _v1.get_variable("table", [ROWS, WIDTH], initializer=_v1.ones_initializer())
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, features) * tf.constant(SCALE, "float"))
        update = optimizers.train_op(loss, how)
        kinds = sorted({op.type for op in tf.compat.v1.get_default_graph().get_operations()})
        with open(f"{folder}/ops-{rank}.json", "w", encoding="utf-8") as file:
            json.dump([kind for kind in kinds if kind.startswith("Collective")], file)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)

    def input_fn():
        rows = lambda: ((ids, 0) for ids in batches(rank))  # noqa: E731
        kinds = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64))
        return tf.data.Dataset.from_generator(rows, output_signature=kinds)

    class Keep(_v1.train.SessionRunHook):
        def end(self, session):
            [table] = _v1.trainable_variables()
            np.save(f"{folder}/{rank}.npy", session.run(table.values[0]))

    run = tf.estimator.RunConfig(f"{folder}/model", train_distribute=strategy)
    estimator = tf.estimator.Estimator(model_fn, config=run, params={})
    train = tf.estimator.TrainSpec(input_fn, max_steps=STEPS, hooks=[Keep()])
    tf.estimator.train_and_evaluate(estimator, train, tf.estimator.EvalSpec(input_fn, steps=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
