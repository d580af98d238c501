"""Canned Estimators on a small table: they learn, serve raw columns, and equal their formulas."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.feature_tables import contents, make
from trainer import models, optimizers
from trainer.distribution import balanced_tables, placement
from trainer.export import serving_graph
from trainer.features.transforms import Transforms

ROWS = 400
FEATURES = {
    "delay": {"steps": [{"missing": {"fill": "mean", "indicator": True}}, "z_score"]},
    "carrier": {"steps": ["vocabulary"]},
    "day": {"steps": [{"ngrams": {"buckets": 20}}]},
    "route": {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 30}}]},
}
NAMES = ("linear", "dnn", "dnn_linear_combined")


def _rows() -> dict[str, np.ndarray]:
    """Late are flights that leave late, but for those of UA."""
    rng = np.random.default_rng(1)
    delay = rng.normal(10, 5, ROWS).astype(np.float32)
    carrier = rng.choice(["UA", "AA", "DL", "??"], ROWS)
    late = 2 * delay - 20 - 10 * (carrier == "UA")
    delay[::17] = np.nan
    return {
        "delay": delay,
        "carrier": carrier,
        "day": np.array(["some words", ""] * (ROWS // 2)),
        "origin": rng.choice(["EWR", "JFK"], ROWS),
        "late": late.astype(np.int64),
    }


def _job(name, task):
    label = {"threshold": 0} if task == "classification" else {}
    return make(FEATURES, label, model={"name": name, "params": {"task": task}})


class Trained:
    """A model trained for some steps on all rows at once."""

    def __init__(self, name, task, folder, steps=150):
        job = _job(name, task)
        self.transforms = Transforms(job, contents(job))
        params = {**job.model.params, "optimizer": optimizers.Updates("adam", 0.05)}
        config = tf.estimator.RunConfig(str(folder), tf_random_seed=1)
        model = models.build_model(name, params, config, transforms=self.transforms)
        self.estimator = tf.estimator.Estimator(model.model_fn, config=config)
        self.estimator.train(self.input_fn(training=True), steps=steps)
        self.metrics = self.estimator.evaluate(self.input_fn(training=False), steps=1)

    def input_fn(self, *, training):
        def build():
            data = tf.data.Dataset.from_tensors(_rows()).repeat()
            return data.map(lambda rows: self.transforms.examples(rows, training=training))

        return build

    def serve(self, rows):
        receiver = serving_graph.build_serving_input_fn(self.transforms)
        path = self.estimator.export_saved_model(self.estimator.model_dir + "/export", receiver)
        model = tf.saved_model.load(path.decode()).signatures["serving_default"]
        return {
            n: t.numpy() for n, t in model(**{n: tf.constant(v) for n, v in rows.items()}).items()
        }


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    made = {}

    def get(name, task):
        if (name, task) not in made:
            made[name, task] = Trained(name, task, tmp_path_factory.mktemp(f"{name}-{task}"))
        return made[name, task]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_classifiers_learn(trained, name):
    found = trained(name, "classification").metrics
    assert found["auc"] > 0.9
    assert found["global_step"] == 150


@pytest.mark.parametrize("name", NAMES)
def test_regressors_learn(trained, name):
    found = trained(name, "regression").metrics
    assert found["average_loss"] < 0.3 * _rows()["late"].var()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_raw_columns_are_served_as_the_estimator_predicts(trained, task):
    """Missing and unknown values among them; the label is not asked for."""
    model = trained("dnn_linear_combined", task)
    rows = {name: values for name, values in _rows().items() if name != "late"}
    served = model.serve(rows)
    wanted = list(
        model.estimator.predict(
            lambda: tf.data.Dataset.from_tensors(rows).map(model.transforms.features)
        )
    )
    key, of = ("prediction", "predictions") if task == "regression" else ("probabilities",) * 2
    np.testing.assert_allclose(
        served[key].reshape(ROWS, -1), np.stack([row[of] for row in wanted]), rtol=1e-6, atol=1e-6
    )


def test_the_linear_part_gets_ids_and_the_network_numbers(trained):
    names = trained("dnn_linear_combined", "classification").estimator.get_variable_names()
    wide = {
        n.split("/")[2] for n in names if n.startswith("linear/linear_model/") and "weights" in n
    }
    assert wide == {"bias_weights", "carrier", "day", "route"}
    embedded = {n for n in names if n.startswith("dnn/") and "embedding_weights" in n}
    assert len([n for n in embedded if "Adam" not in n]) == 1  # carrier is one-hot


def test_the_linear_model_is_its_formula(trained):
    """Logits are worked out by hand from the weights of the checkpoint."""
    model = trained("linear", "regression")
    value = model.estimator.get_variable_value
    weights = "linear/linear_model/{}/weights"
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rows = {n: tf.constant(v[:20]) for n, v in _rows().items() if n != "late"}
        made = model.transforms.features(rows)
        session.run(tf.compat.v1.tables_initializer())
        x = session.run(made)
    wanted = value("linear/linear_model/bias_weights") + sum(
        x[name][:, None] * value(weights.format(name)) for name in ("delay", "delay_missing")
    )
    for name in ("carrier", "route"):
        wanted = wanted + value(weights.format(name))[x[name]]
    bag = np.vstack([value(weights.format("day")), np.zeros((1, 1))])  # -1 is no id
    wanted = wanted + bag[x["day"]].sum(axis=1)
    served = model.serve({n: v[:20] for n, v in _rows().items() if n != "late"})
    np.testing.assert_allclose(served["prediction"], wanted[:, 0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_large_variables_are_cut_over_the_servers(name, tmp_path):
    """Although canned Estimators bring a partitioner of their own."""
    job = _job(name, "classification")
    transforms = Transforms(job, contents(job))
    params = {**job.model.params, "optimizer": optimizers.Updates("adam", 0.05)}
    config = tf.estimator.RunConfig(str(tmp_path))
    with tf.Graph().as_default(), placement.cut(2, largest=60):
        tf.compat.v1.train.create_global_step()
        features, labels = transforms.examples(
            {column: tf.constant(values) for column, values in _rows().items()}, training=True
        )
        models.build_model(name, params, config, transforms=transforms).model_fn(
            features, labels, "train", config
        )
        parts = collections.Counter(
            info.full_name
            for variable in tf.compat.v1.trainable_variables()
            if (info := variable._get_save_slice_info()) is not None
        )
        own = [balanced_tables.find_part(v) for v in tf.compat.v1.trainable_variables()]
        balanced = {part.full_name for part in own if part is not None}
    tables = [full for full in parts if "day" in full or "route" in full]
    assert len(tables) == {"dnn_linear_combined": 3}.get(name, 2)
    assert {parts[full] for full in tables} == {2}
    assert set(tables) <= balanced


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_equal_but_for_case_keep_theirs_in_checkpoints(name, tmp_path):
    same = {"steps": [{"hash": {"buckets": 20}}], "embedding": 4, "part": "both"}
    features = {n: {"of": "carrier", **same} for n in ("CARRIER", "carrier")}
    job = make(features, {"threshold": 0}, model={"name": name})
    transforms = Transforms(job, contents(job))
    config = tf.estimator.RunConfig(str(tmp_path))
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        made = models.build_model(name, {}, config, transforms=transforms)
        given = {n: tf.constant([1, 2], tf.int64) for n in features}
        made.model_fn(given, None, tf.estimator.ModeKeys.PREDICT, config)
        found = [v._get_save_slice_info() for v in tf.compat.v1.trainable_variables()]
    called = {part.full_name for part in found if part is not None}
    for feature in features:
        wide, deep = (
            f"linear/linear_model/{feature}/weights",
            f"dnn/input_from_feature_columns/input_layer/{feature}_embedding/embedding_weights",
        )
        assert (wide in called) == (name != "dnn")
        assert (deep in called) == (name != "linear")
