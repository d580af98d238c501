"""What a step on servers cannot do without: the parameters of the network and the rows of tables
that a batch asks for are sent to a process, and as many bytes back, as gradients are. Nothing is
read and nothing computed.

Training on servers takes the processor seconds of a single process and these, at least.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.peers import measure
from benchmarks.peers.servers import keras_servers

v1 = tf.compat.v1
_WARM_UP, _STEPS = 50, 500


def _list_shapes(given: dict[str, Any]) -> list[tuple[int, int]]:
    """Returns the shapes of the matrices, and of the rows and weights of ids that the first batch
    asks for."""
    columns = len(given["ids"]) + len(given["lists"])
    units = [len(given["numbers"]) + columns * given["width"], *given["hidden_units"], 1]
    arrays = (f"{given['arrays']}/train/{of['name']}.npy" for of in given["lists"])
    lists = [np.load(path, mmap_mode="r")[: given["batch_size"]] for path in arrays]
    ids = np.load(f"{given['arrays']}/train/ids.npy", mmap_mode="r")[: given["batch_size"]]
    rows = sum(len(np.unique(column[column >= 0])) for column in [*ids.T, *lists])
    return [*itertools.pairwise(units), (rows, given["width"]), (rows, 1)]


def _build_step(shapes: list[tuple[int, int]]) -> tf.Operation:
    back = []
    for number, shape in enumerate(shapes):
        with tf.device("/job:ps"):
            held = v1.get_variable(f"held_{number}", shape)
        with tf.device("/job:worker"):
            there = tf.identity(held)
        with tf.device("/job:ps"):
            back.append(tf.identity(there).op)
    return tf.group(*back)


def main(given: dict[str, Any]) -> None:
    """Sends, and reports examples/s as if each step were on a batch."""
    server, worker = (f"localhost:{port}" for port in keras_servers.find_free_ports(2))
    cluster = {"ps": [server], "worker": [worker]}
    # Otherwise it is optimized away, as nothing uses what is sent.
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    with keras_servers.run_servers(cluster, ["ps"]), tf.Graph().as_default():
        step = _build_step(_list_shapes(given))
        own = tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name="worker", task_index=0)
        with v1.Session(own.target, config=config) as session:
            session.run(v1.global_variables_initializer())
            meter = measure.Meter({**given, "warm_up": _WARM_UP, "steps": _STEPS})
            for _ in range(_STEPS):
                session.run(step)
                meter.step()
    measure.report(**meter.result())


if __name__ == "__main__":
    main(measure.read_settings())
