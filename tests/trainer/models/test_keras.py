"""Keras networks as Estimators: they learn with the optimizer of the config, and serve."""

from __future__ import annotations

import gc
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.models.keras import Keras
from tests.pipeline.feature_tables import contents, make
from trainer import models, optimizers
from trainer.export import serving_graph
from trainer.features.transforms import WEIGHT, Transforms

NETWORKS = "tests.trainer.models.networks"
DELAY = {"steps": [{"missing": {"fill": 0}}, "z_score"]}
FEATURES = {"delay": DELAY, "carrier": {"steps": ["vocabulary"]}}
RNG = np.random.default_rng(1)
ROWS = {
    "delay": RNG.normal(10, 5, 300).astype(np.float32),
    "carrier": RNG.choice(["UA", "AA", "??"], 300),
}
ROWS["late"] = (ROWS["delay"] > 10).astype(np.int64)


def _estimator(folder, network, features=FEATURES, rate=0.05, **params):
    params = {"network": f"{NETWORKS}:{network}", **params}
    job = make(features, model={"name": "keras", "params": params})
    transforms = Transforms(job, contents(job))
    params = {**job.model.params, "optimizer": optimizers.Updates("adam", rate)}
    config = tf.estimator.RunConfig(str(folder), tf_random_seed=1)
    model = models.build_model("keras", params, config, transforms=transforms)
    return transforms, tf.estimator.Estimator(
        model.model_fn, config=config, params=params, warm_start_from=model.warm_start_from
    )


def _input_fn(transforms, rows=ROWS):
    def build():
        data = tf.data.Dataset.from_tensors(rows).repeat()
        return data.map(lambda batch: transforms.examples(batch, training=True))

    return build


@pytest.mark.parametrize("width", [1, 2])
def test_a_network_of_several_inputs_learns_and_is_served(tmp_path, width):
    transforms, estimator = _estimator(tmp_path, "mixed", arguments={"width": width})
    estimator.train(_input_fn(transforms), steps=400)
    found = estimator.evaluate(_input_fn(transforms), steps=1)
    assert found["global_step"] == 400
    assert found["accuracy"] > 0.8
    assert set(found) - {"global_step"} == set(Keras(network="a:b").metrics)
    path = estimator.export_saved_model(
        str(tmp_path / "export"), serving_graph.build_serving_input_fn(transforms)
    )
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    answer = serve(delay=tf.constant([0.0, 20.0, np.nan]), carrier=tf.constant(["UA", "??", ""]))
    assert answer["class"].numpy()[:2].tolist() == [0, 1]
    np.testing.assert_allclose(answer["probabilities"].numpy().sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("network", ["columns_of_one", "column_of_one"])
def test_features_may_be_columns_of_one(tmp_path, network):
    features = FEATURES if network == "columns_of_one" else {"delay": DELAY}
    transforms, estimator = _estimator(tmp_path, network, features)
    estimator.train(_input_fn(transforms), steps=400)
    assert estimator.evaluate(_input_fn(transforms), steps=1)["accuracy"] > 0.8


def test_weights_the_network_comes_with_are_where_training_begins(tmp_path):
    features = {"delay": {"steps": [{"missing": {"fill": 0}}]}}
    transforms, estimator = _estimator(tmp_path, "started", features, rate=1e-9, task="regression")
    estimator.train(_input_fn(transforms), steps=1)
    [answer] = estimator.predict(
        lambda: tf.data.Dataset.from_tensors({"delay": tf.constant([2.0])})
    )
    assert answer["prediction"] == pytest.approx(6.0, rel=1e-5)


def test_they_are_kept_for_as_long_as_the_estimator(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = _estimator(tmp_path / "run", "mixed")
    assert list(tmp_path.glob("keras-*/keras/*.index"))
    del made
    gc.collect()
    assert not list(tmp_path.glob("keras-*"))


def test_examples_without_weight_do_not_count(tmp_path):
    """Of those that do, the label is 1 always."""
    transforms, estimator = _estimator(tmp_path, "mixed")

    def input_fn():
        weights = ROWS["late"].astype(np.float32)
        data = _input_fn(transforms)()
        return data.map(lambda x, label: ({**x, WEIGHT: tf.constant(weights)}, label))

    estimator.train(input_fn, steps=400)
    rows = {name: ROWS[name] for name in ("delay", "carrier")}
    answers = estimator.predict(lambda: tf.data.Dataset.from_tensors(rows).map(transforms.features))
    found = [int(answer["class"]) for answer in answers]
    assert np.mean(found) > 0.7
    # As slices of an evaluation are predicted, whose examples have weights.
    with_weights = estimator.predict(lambda: input_fn().take(1))
    assert [int(answer["class"]) for answer in with_weights] == found


@pytest.mark.parametrize(
    ("network", "params", "message"),
    [
        ("no_model", {}, r"networks:no_model': must return a tf\.keras\.Model, got 3"),
        ("mixed", {"classes": 3}, "must have one output of width 3, has 1 of width 1"),
        ("not_built", {}, r"outputs are not known yet; begin it with a tf\.keras\.Input f"),
        ("subclass", {}, r"outputs are not known yet; begin it with a tf\.keras\.Input f"),
        ("mxed", {}, r"has no 'mxed' \(did you mean 'mixed'\?\)"),
    ],
)
def test_networks_that_do_not_fit(tmp_path, network, params, message):
    with pytest.raises(errors.UsageError, match=message):
        _estimator(tmp_path, network, **params)


def test_an_input_that_is_no_feature(tmp_path):
    with pytest.raises(errors.UsageError, match="has an input 'carrier', the features are delay"):
        _estimator(tmp_path, "mixed", {"delay": DELAY, "x": {"of": "time", "steps": ["z_score"]}})
