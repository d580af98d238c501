"""tf.keras under `ParameterServerStrategy`: a coordinator, workers and servers, steps scheduled by
`ClusterCoordinator`, of which `fit` makes as many at a time as `steps_per_execution`."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import time
from typing import Any

import tensorflow as tf

from benchmarks.peers import measure
from benchmarks.peers.training import keras_fit, tf_input

_AT_A_TIME = 10  # steps, so that the coordinator is not what limits


def _serve(spec: dict[str, list[str]], role: str, index: int) -> None:
    tf.distribute.Server(tf.train.ClusterSpec(spec), job_name=role, task_index=index).join()


def _free(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return found


class _Steps(tf.keras.callbacks.Callback):
    """Notes the ends of epochs: of two, the first is the warm-up."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[float, float]] = []

    def on_epoch_end(self, epoch, logs=None):
        self.marks.append((time.time(), measure.processor_seconds()))


def main(given: dict[str, Any]) -> None:
    """Starts the servers, trains, and scores the test split."""
    os.environ.setdefault(measure.ROOT, str(os.getpid()))
    spec = {"worker": _free(given["workers"]), "ps": _free(given["servers"])}
    context = multiprocessing.get_context("spawn")
    others = [
        context.Process(target=_serve, args=(spec, role, index), daemon=True)
        for role, addresses in spec.items()
        for index in range(len(addresses))
    ]
    for other in others:
        other.start()
    task = {"type": "chief", "index": 0}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": spec | {"chief": _free(1)}, "task": task})
    strategy = tf.distribute.experimental.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )
    with strategy.scope():
        made = keras_fit.model(given, steps_per_execution=_AT_A_TIME)
    steps, warm_up, callback = given["steps"], given["warm_up"], _Steps()
    rows = tf.keras.utils.experimental.DatasetCreator(lambda _: tf_input.train(given))
    made.fit(rows, steps_per_epoch=warm_up, epochs=1, callbacks=[callback], verbose=0)
    made.fit(rows, steps_per_epoch=steps - warm_up, epochs=1, callbacks=[callback], verbose=0)
    (began, before), (ended, after) = callback.marks
    marks = measure.Mark(0, began, before), measure.Mark(steps - warm_up, ended, after)
    plain = keras_fit.model(given)
    plain.set_weights(made.get_weights())
    auc = keras_fit.test_auc(plain, given)
    measure.report(**measure.of_marks(*marks, given["batch_size"]), auc=auc)
    for other in others:
        other.kill()


if __name__ == "__main__":
    main(measure.settings())
