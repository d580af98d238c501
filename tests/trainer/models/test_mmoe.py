"""`mmoe` against its formula in NumPy, in the graph, for one label and for several."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import model_config
from tests.pipeline.feature_tables import contents, make
from trainer import models, optimizers
from trainer.features.transforms import Transforms

v1 = tf.compat.v1
ROWS = 20
GOALS = {
    "a": {"task": "classification", "classes": 2, "weight": 1.0},
    "b": {"task": "classification", "classes": 3, "weight": 2.0},
    "c": {"task": "regression", "offset": 3.0, "scale": 2.0, "weight": 0.5},
}
PARAMS = {"experts": 3, "hidden_units": [6, 5], "tower_units": [4]}


def _logits(read, x, width_of):
    """Returns the logits of each label, by the paper's formulas 6 to 8."""

    def dense(y, scope, *, bias=True):
        y = y @ read[f"{scope}/kernel"]
        return y + read[f"{scope}/bias"] if bias else y

    def network(y, scope, layers):
        for number in range(layers):
            y = np.maximum(dense(y, f"{scope}/hiddenlayer_{number}"), 0)
        return y

    experts = np.stack([network(x, f"mmoe/expert_{n}", 2) for n in range(3)], axis=1)
    found = []
    for n in range(len(width_of)):
        gate = np.exp(dense(x, f"mmoe/gate_{n}", bias=False))
        gate /= gate.sum(axis=1, keepdims=True)
        tower = network((experts * gate[:, :, None]).sum(axis=1), f"mmoe/tower_{n}", 1)
        found.append(dense(tower, f"mmoe/tower_{n}/logits"))
        assert found[-1].shape[1] == width_of[n]
    return found


@pytest.mark.parametrize("several", [False, True])
def test_logits_equal_numpy(several):
    features = {"delay": {"steps": [{"missing": {"fill": 0}}]}, "weight": {}}
    job = make(features, model={"name": "mmoe", "params": PARAMS})
    transforms = Transforms(job, contents(job))
    params = {**model_config.params(job.model), "optimizer": optimizers.Updates("sgd", 0.1)}
    if several:
        params[model_config.GOALS] = GOALS
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        model = models.build_model("mmoe", params, tf.estimator.RunConfig(), transforms=transforms)
        given = {"delay": tf.constant(x[:, 0]), "weight": tf.constant(x[:, 1])}
        spec = model.model_fn(features=given, labels=None, mode="infer", config=None)
        session.run(v1.global_variables_initializer())
        read = {v.op.name: session.run(v) for v in v1.trainable_variables()}
        outputs = spec.export_outputs["serving_default"].outputs
        found = {name: session.run(tensor) for name, tensor in outputs.items()}
    if not several:
        [logits] = _logits(read, x, [1])
        sigmoid = 1 / (1 + np.exp(-logits[:, 0]))
        np.testing.assert_allclose(found["probabilities"][:, 1], sigmoid, atol=1e-6)
        return
    a, b, c = _logits(read, x, [1, 3, 1])
    np.testing.assert_allclose(
        found["a/probabilities"][:, 1], 1 / (1 + np.exp(-a[:, 0])), atol=1e-6
    )
    b = np.exp(b)
    np.testing.assert_allclose(
        found["b/probabilities"], b / b.sum(axis=1, keepdims=True), atol=1e-6
    )
    np.testing.assert_array_equal(found["b/class"], b.argmax(axis=1))
    np.testing.assert_allclose(found["c/prediction"], c[:, 0] * 2 + 3, rtol=1e-5)
