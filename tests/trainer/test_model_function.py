"""The function that the Estimator calls."""

from __future__ import annotations

import copy
import types

from pipeline.cluster import topology
from trainer import model_function, models


def test_a_deep_copy_of_a_model_function_is_the_same_object(small_records):
    """For several hosts, TensorFlow copies what the Estimator was given."""
    task = topology.Task("chief", 0, types.MappingProxyType({"chief": ("h:1",)}))
    model = models.model("mnist_mlp", {}, None, transforms=None)
    made = model_function.ModelFunction(model, small_records.job, task, position=None)
    assert copy.deepcopy(made) is made
