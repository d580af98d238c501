"""What TensorFlow's strategies are made of."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.eager import context

from pipeline.cluster import topology
from pipeline.config import config_file
from trainer.distribution import strategies

CLUSTER = {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)}


def test_a_process_on_parameter_servers_is_one_replica_however_many_gpus(monkeypatch):
    """As `cluster.replicas` says, by which records are shared and steps counted."""
    task = topology.Task("worker", 0, CLUSTER)
    monkeypatch.setenv("TF_CONFIG", task.tf_config())
    gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(2)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(context, "num_gpus", lambda: len(gpus))
    cluster = config_file.load("mnist", ["cluster.strategy=parameter_server_strategy"]).cluster
    train = strategies.distribution(cluster, task).train
    assert train.extended.worker_devices == ["/job:worker/replica:0/task:0/device:GPU:0"]
    assert train.num_replicas_in_sync == topology.replicas_per_process(cluster) == 1
