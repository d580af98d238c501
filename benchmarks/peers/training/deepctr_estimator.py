"""DeepCTR's `WDLEstimator`: an Estimator, too, with `tf.feature_column`s as its documentation has
them. It writes a checkpoint as often as ours, in a folder that is thrown away."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
from deepctr.estimator import WDLEstimator

from benchmarks.peers import measure
from benchmarks.peers.training import tf_input

columns = tf.feature_column


class _Measure(tf.compat.v1.train.SessionRunHook):
    def __init__(self, meter: measure.Meter) -> None:
        self._meter = meter

    def after_run(self, run_context, run_values):
        self._meter.step()


def _build_features(
    given: dict[str, Any], rows: tf.data.Dataset, *, labelled: bool
) -> tf.data.Dataset:
    """Turns lists into sparse tensors, which feature columns take."""
    lists = [of["name"] for of in given["lists"]]

    def make_sparse(features, label):
        found = {**features, **{name: features[name].to_sparse() for name in lists}}
        return (found, label) if labelled else found

    return rows.map(make_sparse)


def main(given: dict[str, Any]) -> None:
    """Trains, and scores the test split."""
    ids = [
        columns.categorical_column_with_identity(of["name"], len(of["values"]) + 1)
        for of in (*given["ids"], *given["lists"])
    ]
    numbers = columns.numeric_column("numbers", [2 * len(given["numbers"])])
    vectors = [columns.embedding_column(column, given["width"], "mean") for column in ids]
    rate = given["learning_rate"]
    with tempfile.TemporaryDirectory() as folder:
        made = WDLEstimator(
            ids,
            [numbers, *vectors],
            given["hidden_units"],
            l2_reg_linear=0,
            l2_reg_embedding=0,
            seed=given["seed"],
            model_dir=folder,
            config=tf.estimator.RunConfig(
                tf_random_seed=given["seed"], save_checkpoints_steps=given["save_steps"]
            ),
            linear_optimizer=tf.compat.v1.train.AdamOptimizer(rate),
            dnn_optimizer=tf.compat.v1.train.AdamOptimizer(rate),
        )
        meter = measure.Meter(given)
        made.train(
            lambda: _build_features(given, tf_input.read_train(given), labelled=True),
            hooks=[_Measure(meter)],
            steps=given["steps"],
        )
        scored = made.predict(
            lambda: _build_features(given, tf_input.read_test(given), labelled=False)
        )
        score = np.array([one["pred"] for one in scored])
    label = list(tf_input.read_test(given).map(lambda _, y: y).unbatch().as_numpy_iterator())
    measure.report(**meter.result(), auc=measure.compute_auc(label, score))


if __name__ == "__main__":
    main(measure.read_settings())
