"""The function that the Estimator calls."""

from __future__ import annotations

import copy
import types

from pipeline.cluster import topology
from trainer import model_function, models


def test_it_is_copied_as_functions_are(small_records):
    """For several hosts, TensorFlow copies what the Estimator was given."""
    task = topology.Task("chief", 0, types.MappingProxyType({"chief": ("h:1",)}))
    model = models.model("mnist_mlp", {}, None, None)
    made = model_function.ModelFunction(model, small_records.job, task, None)
    assert copy.deepcopy(made) is made
