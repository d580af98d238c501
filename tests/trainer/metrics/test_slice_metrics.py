"""Slices of a split, with a real model, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import changed_model, small_table
from trainer.metrics import probabilities, slice_metrics


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return small_table.Table(tmp_path_factory.mktemp("classes"))


def _values(name, kind):
    parsed = [tf.train.Example.FromString(p).features.feature for p in small_table.payloads("eval")]
    return [list(getattr(f[name], kind).value) for f in parsed]


def test_slices_of_texts(table):
    judged = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=["carrier"]
    )[None]
    rows = judged.rows
    assert [row.slice for row in rows] == [
        "all",
        "carrier=(empty)",
        "carrier=AA",
        "carrier=UA",
        "carrier=ZZ",
    ]
    assert [row.records for row in rows] == [100, 25, 25, 25, 25]
    labels = np.array(_values("late", "int64_list"))[:, 0]
    for row, chosen in zip(
        rows, [slice(None), *(slice(n, None, 4) for n in (3, 0, 1, 2))], strict=True
    ):
        assert row.baseline["accuracy"] == pytest.approx(np.mean(labels[chosen] == 0))
    # Who is never late has no area.
    every = ["accuracy", "auc", *probabilities.NAMES]
    never = ["accuracy", "log_loss"]
    assert [list(row.metrics) for row in rows] == [every, never, every, never, never]
    assert judged.notes == (
        "Only one label occurs in carrier=(empty), carrier=UA, carrier=ZZ: auc, "
        "normalized_entropy, calibration, average_precision are not defined there.",
    )
    assert all(row.baseline.get("auc", 0.5) == 0.5 for row in rows)
    assert [row.baseline.keys() for row in rows] == [row.metrics.keys() for row in rows]
    assert rows[0].metrics["accuracy"].value == pytest.approx(
        np.average([row.metrics["accuracy"].value for row in rows[1:]])
    )


def test_accuracy_equals_the_estimator_s(table):
    row = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=[]
    )[None].rows[0]
    metrics = table.estimator.evaluate(
        table.records.build_eval_input_fn("eval"), checkpoint_path=table.checkpoint
    )
    assert row.metrics["accuracy"].value == pytest.approx(metrics["accuracy"], abs=1e-6)
    assert row.metrics["auc"].value == pytest.approx(metrics["auc"], abs=1e-6)
    assert row.metrics["log_loss"].value == pytest.approx(metrics["average_loss"], abs=1e-6)


def test_numbers_are_cut_into_quarters(table):
    rows = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=["dep time"]
    )[None].rows
    assert [row.records for row in rows[1:]] == [22, 21, 21, 21, 15]
    assert rows[-1].slice == "dep time missing"
    assert rows[1].slice.startswith("dep time ") and " to " in rows[1].slice


def test_whole_numbers_that_are_missing_are_no_values(table):
    rows = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=["day"]
    )[None].rows
    absent = sum(not value for value in _values("day", "int64_list"))
    assert (rows[-1].slice, rows[-1].records) == ("day missing", absent)
    assert rows[1].slice == f"day 1 to {np.quantile(_present('day'), 0.25):g}"
    assert sum(row.records for row in rows[1:]) == 100


def _present(name):
    return [value for values in _values(name, "int64_list") for value in values]


def test_a_column_the_model_does_not_take(table):
    rows = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=["unused"]
    )[None].rows
    assert [(row.slice, row.records) for row in rows] == [("all", 100), ("unused=x", 100)]


def test_a_regression(tmp_path):
    table = small_table.Table(
        tmp_path, "model={name: linear, params: {task: regression}}", "eval.metric=loss"
    )
    row = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=[]
    )[None].rows[0]
    labels = np.array(_values("late", "int64_list"))[:, 0]
    assert row.baseline["rmse"] == pytest.approx(np.std(labels))
    metrics = table.estimator.evaluate(
        table.records.build_eval_input_fn("eval"), checkpoint_path=table.checkpoint
    )
    assert row.metrics["rmse"].value == pytest.approx(metrics["average_loss"] ** 0.5, rel=1e-5)
    assert row.metrics["rmse"].low < row.metrics["rmse"].value < row.metrics["rmse"].high


def test_the_mean_of_large_labels_is_not_rounded():
    labels = np.full(777, 1e9, np.float32)
    found = {slice_metrics.LABEL: labels, "prediction": labels}
    metrics, baseline = slice_metrics.measure_numbers(found, np.ones(777, bool))
    assert metrics["rmse"].value == 0
    assert baseline == {"mean_absolute_error": 0, "rmse": 0}


@pytest.mark.parametrize("label", ["input", "late", "class"])
def test_labels_of_any_name_are_told_from_our_own_inputs(label):
    batch = {
        f"{label}/class": np.array([1, 0, 1]),
        f"{label}/probabilities": np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]),
        "other/class": np.array([0, 0, 0]),
        f"input/label/{label}": np.array([1, 0, 0]),
        "input/label/other": np.array([0, 1, 1]),
        f"input/there/{label}": np.array([True, True, False]),
        "input/there/other": np.array([True, True, True]),
        "input/slice/item": np.array([b"a", b"b", b"a"]),
        slice_metrics.GROUP: np.array([1, 2, 1]),
    }
    found = slice_metrics._select_label(batch, label)
    wanted = {"class", "probabilities", "input/label", "input/slice/item", slice_metrics.GROUP}
    assert set(found) == wanted
    assert found["input/label"].tolist() == [1, 0]
    assert found["input/slice/item"].tolist() == [b"a", b"b"]
    assert found["class"].tolist() == [1, 0]


def test_a_checkpoint_of_a_changed_model_is_refused(tmp_path):
    table, checkpoint = changed_model.build(tmp_path)
    with changed_model.expect_refusal(checkpoint):
        slice_metrics.evaluate(table.records, table.estimator, checkpoint, split="eval", slices=[])
