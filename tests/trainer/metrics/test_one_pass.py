"""Metrics and predictions of one pass: against two passes, and against scikit-learn."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from pipeline.console import work
from tests.trainer import small_table, user_code
from trainer.input.dataset import RecordDataset
from trainer.metrics import one_pass, slice_metrics

OF_SIZE = re.sub(r"(?ms)^features:.*?^model:", "features: {size: {}}\nmodel:", small_table.CONFIG)
KERAS = "model={name: keras, params: {network: 'tests.trainer.user_code:small_network'%s}}"


class _Counting(RecordDataset):
    """Counts how often a split is read."""

    passes = 0

    def serialized(self, split):
        self.passes += 1
        return super().serialized(split)


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
    }


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
        table.records.eval_input_fn("eval"), checkpoint_path=table.checkpoint
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
        assert _values(ours) == pytest.approx(_values(theirs), rel=1e-5)  # of another graph
    assert result.notes == served[None].notes


def test_against_scikit_learn(tmp_path):
    table = _table(tmp_path)
    found = _evaluated(table)
    batches = slice_metrics.scored(
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
    assert found.metrics["auc"] == pytest.approx(area, abs=2e-3)  # counts in buckets


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
