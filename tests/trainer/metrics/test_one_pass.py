"""Metrics and predictions of one pass: against two passes, and against scikit-learn."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from pipeline.console import work
from tests.trainer import changed_model, small_table, user_code
from trainer.input.dataset import RecordDataset
from trainer.metrics import one_pass, slice_metrics

OF_SIZE = re.sub(r"(?ms)^features:.*?^model:", "features: {size: {}}\nmodel:", small_table.CONFIG)
KERAS = "model={name: keras, params: {network: 'tests.trainer.user_code:small_network'%s}}"


class _Counting(RecordDataset):
    """Counts how often a split is read."""

    passes = 0

    def read_serialized(self, split):
        self.passes += 1
        return super().read_serialized(split)


def _table(folder, *overrides, text=small_table.CONFIG):
    table = small_table.Table(folder, *overrides, text=text)
    table.records = _Counting(table.job, table.records_path, table.contents)
    return table


def _evaluated(table, slices=("carrier", "dep time")):
    found = one_pass.evaluate(
        table.records,
        table.estimator,
        table.checkpoint,
        split="eval",
        slices=slices,
        name="eval_again",
    )
    assert table.records.passes == 1
    return found


def _values(row):
    return {
        (name, part): value
        for name, estimate in row.metrics.items()
        for part, value in dataclasses.asdict(estimate).items()
        if part != "units"
    }


def _units(row):
    return {name: estimate.units for name, estimate in row.metrics.items()}


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (["eval.group=day"], small_table.CONFIG),
        (["model={name: linear, params: {task: regression}}", "eval.metric=loss"], None),
        ([KERAS % "", "eval.group=day"], OF_SIZE),
        ([KERAS % ", task: regression", "eval.metric=loss"], OF_SIZE),
        ([f"model={{name: '{user_code.__name__}:classifier'}}"], OF_SIZE),
        ([f"model={{name: '{user_code.__name__}:regressor'}}", "eval.metric=loss"], OF_SIZE),
        ([f"model={{name: '{user_code.__name__}:own_head_model_fn'}}"], OF_SIZE),
    ],
    ids=["linear", "regression", "keras", "keras of numbers", "canned", "canned of numbers", "own"],
)
def test_it_finds_what_two_passes_find(tmp_path, overrides, text):
    table = _table(tmp_path, *overrides, text=text or small_table.CONFIG)
    found = _evaluated(table)
    of_estimator = table.estimator.evaluate(
        table.records.build_eval_input_fn("eval"), checkpoint_path=table.checkpoint
    )
    assert found.metrics == pytest.approx(of_estimator, rel=0, abs=0, nan_ok=True)
    served = slice_metrics.evaluate(
        table.records,
        table.estimator,
        table.checkpoint,
        split="eval",
        slices=["carrier", "dep time"],
    )
    (result,) = found.results.values()
    assert len(result.rows) > 5
    for ours, theirs in zip(result.rows, served[None].rows, strict=True):
        assert (ours.slice, ours.records) == (theirs.slice, theirs.records)
        assert ours.baseline == theirs.baseline
        assert _units(ours) == _units(theirs)
        assert _values(ours) == pytest.approx(_values(theirs), rel=1e-5)  # of another graph
    assert result.notes == served[None].notes


def test_against_scikit_learn(tmp_path):
    table = _table(tmp_path)
    found = _evaluated(table)
    batches = slice_metrics.score_batches(
        table.records, table.estimator, table.checkpoint, split="eval", slices=[], hooks=()
    )
    labels, p = map(
        np.concatenate,
        zip(*((b[slice_metrics.LABEL], b["probabilities"][:, 1]) for b in batches), strict=True),
    )
    loss, area = sklearn_metrics.log_loss(labels, p), sklearn_metrics.roc_auc_score(labels, p)
    ours = found.results[None].rows[0].metrics
    assert found.metrics["average_loss"] == pytest.approx(loss, abs=1e-6)
    assert ours["log_loss"].value == pytest.approx(loss, abs=1e-6)
    assert ours["auc"].value == pytest.approx(area, abs=1e-12)
    assert found.metrics["auc"] == pytest.approx(area, abs=1e-6)
    precision = sklearn_metrics.average_precision_score(labels, p)
    assert found.metrics["average_precision"] == pytest.approx(precision, abs=1e-6)


def test_the_log_loss_of_several_classes_against_scikit_learn(tmp_path):
    table = _table(tmp_path, "model={name: linear, params: {classes: 3}}", "eval.metric=log_loss")
    found = _evaluated(table)
    batches = slice_metrics.score_batches(
        table.records, table.estimator, table.checkpoint, split="eval", slices=[], hooks=()
    )
    labels, p = map(
        np.concatenate,
        zip(*((b[slice_metrics.LABEL], b["probabilities"]) for b in batches), strict=True),
    )
    loss = sklearn_metrics.log_loss(labels, p, labels=[0, 1, 2])
    assert found.metrics["log_loss"] == pytest.approx(loss, abs=1e-6)
    assert found.results[None].reported["log_loss"].value == pytest.approx(loss, abs=1e-6)


def test_a_model_whose_evaluation_predicts_nothing(tmp_path):
    table = _table(
        tmp_path,
        f"model={{name: '{user_code.__name__}:embedding_model_fn'}}",
        "eval.metric=loss",
        text=OF_SIZE,
    )
    found = _evaluated(table, slices=())
    assert set(found.metrics) == {"loss", "global_step"}
    assert found.results is None


def test_records_are_counted_as_they_are_read(tmp_path):
    table = _table(tmp_path)
    counts: list[int] = []
    with work.count_work(counts.append):
        _evaluated(table, slices=())
    assert counts == [40, 40, 20]


def test_of_a_large_split_one_record_in_so_many_is_kept(tmp_path):
    table = _table(tmp_path)
    hook = one_pass.SliceHook(table.records, [], every=3)
    table.estimator.evaluate(
        table.records.build_eval_input_fn("eval"), hooks=[hook], checkpoint_path=table.checkpoint
    )
    found = hook.get_results()[None]
    assert (found.rows, found.every) == ([], 3)
    assert found.notes == (
        "Intervals are of one record in 3, 34 of 100, and narrower by the root of that.",
    )
    records = [tf.train.Example.FromString(one) for one in small_table.payloads("eval")]
    labels = [one.features.feature["late"].int64_list.value[0] for one in records]
    assert found.reported["label/mean"].value == pytest.approx(np.mean(labels[::3]))
    assert sum(one.count for one in found.summary.calibration()) == 100


@pytest.mark.parametrize(
    ("classes", "shape"), [(np.zeros([2, 4], int), [2, 4, 3]), (np.array([b"a", b"b"]), [2, 3])]
)
def test_a_model_whose_classes_are_no_labels_is_not_evaluated_by_record(tmp_path, classes, shape):
    """One that names a class for each pixel, or by its name where labels are numbers."""
    table = _table(tmp_path)
    with tf.Graph().as_default():
        predictions = {"class": tf.constant(classes), "probabilities": tf.zeros(shape)}
        one_pass.watch(predictions, tf.constant([0, 1]), {})
        hook = one_pass.SliceHook(table.records, [])
        hook.begin()
        assert hook.get_results() is None


@pytest.mark.parametrize("overrides", [(), (changed_model.AVERAGED,)], ids=["plain", "averaged"])
def test_a_checkpoint_of_a_changed_model_is_refused(tmp_path, overrides):
    table, checkpoint = changed_model.build(tmp_path, *overrides)
    with changed_model.expect_refusal(checkpoint):
        one_pass.evaluate(
            table.records, table.estimator, checkpoint, split="eval", slices=(), name="eval_again"
        )
