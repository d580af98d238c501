"""The function that the Estimator calls."""

from __future__ import annotations

import copy
import types

import pytest
import tensorflow as tf

from pipeline.cluster import topology
from pipeline.config import config_file
from trainer import model_function, models, optimizers


def test_a_deep_copy_of_a_model_function_is_the_same_object(small_records):
    """For several hosts, TensorFlow copies what the Estimator was given."""
    task = topology.Task("chief", 0, types.MappingProxyType({"chief": ("h:1",)}))
    model = models.build_model("mnist_mlp", {}, None, transforms=None)
    made = model_function.ModelFunction(model, small_records.job, task, position=None)
    assert copy.deepcopy(made) is made


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("mnist_cnn", None),
        ("{name: keras, params: {network: 'a.b:network'}}", 4 << 20),
        ("{name: 'a.b:model_fn', params: {}}", 4 << 20),
    ],
)
def test_only_large_variables_of_users_code_are_cut_unless_they_say_so(model, size):
    key = "model.name" if size is None else "model"
    settings = [f"{key}={model}", "cluster={strategy: parameter_server}"]
    assert model_function.find_largest_whole(config_file.load("mnist", settings)) == size
    settings.append("cluster.partition_bytes=1000")
    assert model_function.find_largest_whole(config_file.load("mnist", settings)) == 1000


def test_without_a_ledger_nothing_stays_in_the_graph_that_no_checkpoint_can_hold(
    small_records, tmp_path
):
    """Each save would warn of it."""

    def model_fn(features, labels, mode, params):
        loss = tf.compat.v1.get_variable("w", initializer=0.0) * tf.reduce_mean(features["x"])
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=optimizers.train_op(loss, params["optimizer"])
        )

    task = topology.Task("chief", 0, {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)})
    job = small_records.config("cluster={strategy: parameter_server_sync, workers: 1}")
    made = model_function.ModelFunction(models.BuiltModel(model_fn), job, task, position=None)
    params = {"optimizer": optimizers.Updates("sgd", 1.0, synchronize=(1, 2))}
    with tf.Graph().as_default() as graph:
        config = tf.estimator.RunConfig(model_dir=str(tmp_path))
        spec = made({"x": tf.constant([1.0])}, None, "train", params, config)
        left = [key for key in graph.get_all_collection_keys() if key.startswith("pipeline/")]
    assert spec.training_hooks
    assert not {optimizers.TURNS, optimizers.PLACES} & set(left)
