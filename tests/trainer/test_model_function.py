"""The function that the Estimator calls."""

from __future__ import annotations

import copy
import types

import pytest

from pipeline.cluster import topology
from pipeline.config import config_file
from trainer import model_function, models


def test_a_deep_copy_of_a_model_function_is_the_same_object(small_records):
    """For several hosts, TensorFlow copies what the Estimator was given."""
    task = topology.Task("chief", 0, types.MappingProxyType({"chief": ("h:1",)}))
    model = models.model("mnist_mlp", {}, None, transforms=None)
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
    assert model_function.largest_whole(config_file.load("mnist", settings)) == size
    settings.append("cluster.partition_bytes=1000")
    assert model_function.largest_whole(config_file.load("mnist", settings)) == 1000
