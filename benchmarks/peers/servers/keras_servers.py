"""tf.keras under `tf.distribute.ParameterServerStrategy`, with a loop by hand as its guide has it
(https://www.tensorflow.org/tutorials/distribute/parameter_server_training). A coordinator of its
own hands out the steps. The features lie in memory, ready made. It writes no checkpoints."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.peers import measure
from benchmarks.peers.training import keras_fit

_TASK, _CLUSTER = "PYTHON_BENCH_PEERS_TASK", "PYTHON_BENCH_PEERS_CLUSTER"


@contextlib.contextmanager
def run_servers(
    cluster: dict[str, list[str]], jobs: Sequence[str] = ("worker", "ps")
) -> Iterator[None]:
    """Runs a process for each worker and server, or of some jobs only, and ends them."""
    command, started = [sys.executable, "-m", "benchmarks.peers.servers.keras_servers"], []
    try:
        for job in jobs:
            for index in range(len(cluster[job])):
                own = {_TASK: json.dumps([job, index]), _CLUSTER: json.dumps(cluster)}
                started.append(subprocess.Popen(command, env=os.environ | own))
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def serve() -> None:
    """Is a worker or a server until it is ended."""
    job, index = json.loads(os.environ[_TASK])
    spec = tf.train.ClusterSpec(json.loads(os.environ[_CLUSTER]))
    tf.distribute.Server(spec, job_name=job, task_index=index, protocol="grpc").join()


def find_free_ports(count: int) -> list[int]:
    """Returns ports that are free now."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in held]


def build_dataset(given: dict[str, Any]) -> tf.data.Dataset:
    """Returns shuffled batches without end, from arrays."""
    folder = f"{given['arrays']}/train"
    lists = {of["name"]: np.load(f"{folder}/{of['name']}.npy") for of in given["lists"]}
    numbers, ids, label = (np.load(f"{folder}/{n}.npy") for n in ("numbers", "ids", "label"))

    def look(places):
        features = {"numbers": tf.gather(numbers, places)}
        of_rows = tf.cast(tf.gather(ids, places), tf.int64)
        for number, of in enumerate(given["ids"]):
            features[of["name"]] = of_rows[:, number]
        for name, values in lists.items():
            items = tf.cast(tf.gather(values, places), tf.int64)
            features[name] = tf.RaggedTensor.from_tensor(items, padding=-1)
        return features, tf.gather(label, places)

    order = tf.data.Dataset.range(len(label)).shuffle(len(label)).repeat()
    return order.batch(given["batch_size"], drop_remainder=True).map(look).prefetch(2)


def main(given: dict[str, Any], trainers: int, of_servers: int) -> None:
    """Trains, and scores the test split."""
    ports = find_free_ports(trainers + of_servers)
    addresses = [f"localhost:{port}" for port in ports]
    cluster = {"worker": addresses[:trainers], "ps": addresses[trainers:]}
    with run_servers(cluster):
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster), rpc_layer="grpc"
        )
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            made = keras_fit.build_model(given)
            adam = tf.keras.optimizers.legacy.Adam(given["learning_rate"])
        batches = iter(coordinator.create_per_worker_dataset(lambda: build_dataset(given)))

        def train_batch(features, label):
            with tf.GradientTape() as tape:
                logit = tf.squeeze(made(features, training=True), 1)
                losses = tf.nn.sigmoid_cross_entropy_with_logits(label, logit)
                loss = tf.reduce_mean(losses)
            variables = made.trainable_variables
            adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

        @tf.function
        def step(iterator):
            strategy.run(train_batch, args=next(iterator))

        marks = []
        for steps in (given["warm_up"], given["steps"] - given["warm_up"]):
            for _ in range(steps):
                coordinator.schedule(step, args=(batches,))
            coordinator.join()
            marks.append(measure.take_mark(given["warm_up"] if not marks else given["steps"]))
        weights = [variable.numpy() for variable in made.weights]
    alone = keras_fit.build_model(given)
    alone.set_weights(weights)
    found = measure.compute_rates(*marks, given["batch_size"])
    measure.report(**found, auc=keras_fit.score_test(alone, given))


if __name__ == "__main__":
    if _TASK in os.environ:
        serve()
    else:
        main(measure.read_settings(), *measure.read_sizes())
