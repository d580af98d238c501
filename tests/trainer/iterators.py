"""Which iterators of a graph have an autotuner.

As a module it prints them as JSON for each strategy named on the command line, of training and of
evaluation. Strategies need a process of their own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import dataset_options_pb2

# The ops that start to read a dataset, which is their first input.
STARTING = ("MakeIterator", "MultiDeviceIteratorInit")
CLUSTER = {"chief": ["localhost:1"], "worker": ["localhost:2"]}


def list_started(graph: Any) -> list[Any]:
    return [op for op in graph.get_operations() if op.type in STARTING]


def list_tuned(graph: Any) -> list[str]:
    """Returns the names of the ops that start an iterator with an autotuner."""
    return [op.name for op in list_started(graph) if not _is_off(op.inputs[0])]


def _is_off(dataset: Any) -> bool:
    """Options hold for all datasets after the one that has them."""
    if dataset.dtype != tf.variant:
        return False
    if dataset.op.type == "OptionsDataset":
        options = dataset_options_pb2.Options.FromString(dataset.op.get_attr("serialized_options"))
        autotune = options.autotune_options
        if autotune.HasField("enabled") and not autotune.enabled:
            return True
    return any(_is_off(before) for before in dataset.op.inputs)


def _list_of_strategy(name: str) -> dict[str, Any]:
    from pipeline import config
    from pipeline.cluster import topology
    from pipeline.config.strategy_table import STRATEGIES
    from trainer.distribution import autotuner, strategies

    row = STRATEGIES[name]
    cluster = CLUSTER if row.own_evaluator else {}
    if row.servers:
        cluster = {**CLUSTER, "ps": ["localhost:3"]}
    evaluating = name if row.evaluates else "none"
    settings = config.Cluster(strategy=name, eval_strategy=evaluating)
    task = topology.Task("chief", 0, {role: tuple(a) for role, a in cluster.items()})
    os.environ["TF_CONFIG"] = task.tf_config()
    made = strategies.build_distribution(settings, task)
    found = {}
    for part, strategy in (("train", made.train), ("evaluate", made.evaluate)):
        if strategy is None:
            continue
        with tf.Graph().as_default() as graph, strategy.scope():
            strategy.make_input_fn_iterator(
                lambda context: tf.data.Dataset.range(9).with_options(autotuner.OPTIONS)
            ).get_next()
            found[part] = {"started": len(list_started(graph)), "tuned": list_tuned(graph)}
    return found


if __name__ == "__main__":
    tf.compat.v1.disable_eager_execution()
    print(json.dumps({name: _list_of_strategy(name) for name in sys.argv[1:]}))
