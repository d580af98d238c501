"""What TensorFlow's strategies are made of."""

from __future__ import annotations

import copy

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from pipeline.cluster import topology
from pipeline.config import config_file, strategy_table
from trainer.distribution import strategies

MODE = "cluster.strategy=parameter_server_strategy"
CLUSTER = {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)}


@pytest.mark.parametrize(
    ("settings", "devices"),
    [
        ((), ["GPU:0"]),  # as many as `gpus.with_replicas` has counted
        (("cluster.replicas=2",), ["GPU:0", "GPU:1"]),
        (("cluster.devices=[/gpu:1]",), ["GPU:1"]),
        (("cluster.devices=[/cpu:0,/cpu:1]",), ["CPU:0", "CPU:1"]),
    ],
)
def test_a_process_on_parameter_servers_has_the_replicas_of_the_config(
    monkeypatch, settings, devices
):
    """By which records are shared and steps counted, whatever GPUs TensorFlow sees."""
    task = topology.Task("worker", 0, CLUSTER)
    monkeypatch.setenv("TF_CONFIG", task.tf_config())
    gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(2)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(context, "num_gpus", lambda: len(gpus))
    cluster = config_file.load("mnist", [MODE, *settings]).cluster
    train = strategies.build_distribution(cluster, task).train
    member = {"cluster_spec": CLUSTER, "task_type": "worker", "task_id": 0}
    copied = copy.deepcopy(train)
    copied.configure(tf.compat.v1.ConfigProto(), **member)  # as Estimator does
    for one in (train, copied):
        place = "/job:worker/replica:0/task:0/device"
        assert one.extended.worker_devices == [f"{place}:{device}" for device in devices]
    assert train.num_replicas_in_sync == topology.replicas_per_process(cluster)


@pytest.mark.parametrize(
    ("settings", "devices"),
    [
        (["eval_strategy=mirrored", "replicas=3"], ["/cpu:0", "/cpu:1", "/cpu:2"]),
        (["eval_strategy=mirrored", "devices=[/cpu:2,/cpu:4]"], ["/cpu:2", "/cpu:4"]),
        (["strategy=mirrored", "devices=[/cpu:2,/cpu:4]"], ["/cpu:2"]),
    ],
)
def test_an_evaluation_has_replicas_of_its_own(settings, devices):
    """Not those of training, which may have one alone or more."""
    cluster = config_file.load("mnist", [f"cluster.{one}" for one in settings]).cluster
    assert strategies.list_evaluation_devices(cluster) == devices


def test_an_evaluator_has_the_devices_of_its_evaluation():
    cluster = config_file.load(
        "mnist", ["cluster.eval_strategy=mirrored", "cluster.replicas=3"]
    ).cluster
    found = strategies.build_distribution(cluster, topology.Task(topology.EVALUATOR, 0, CLUSTER))
    assert found.train is None
    assert found.evaluate.num_replicas_in_sync == 3
    assert found.cpu_devices == 3


def test_strategies_are_known_by_the_classes_that_tensorflow_has():
    names = [name for one in strategy_table.STRATEGIES.values() for name in one.classes]
    public = (tf.distribute, tf.distribute.experimental, tf.compat.v1.distribute)
    older = {"CollectiveAllReduceStrategy"}  # what MultiWorkerMirroredStrategy was called
    known = {name for name in names if any(hasattr(one, name) for one in public)}
    assert known | older == {*names} and len(names) == len({*names})
