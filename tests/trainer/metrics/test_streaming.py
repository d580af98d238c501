"""Metrics by group of an evaluation as training has it, against `make evaluate`."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.models.base import metrics_of_groups
from tests.trainer import small_table, user_code
from trainer.metrics import slice_metrics, streaming
from trainer.metrics.streaming import Collector


def test_an_evaluation_reports_what_make_evaluate_does(tmp_path):
    table = small_table.Table(tmp_path, "eval.group=day", "eval.top_k=2")
    inputs = table.records.build_eval_input_fn("eval")
    found = table.estimator.evaluate(inputs, checkpoint_path=table.checkpoint)
    again = table.estimator.evaluate(inputs, checkpoint_path=table.checkpoint)
    judged = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=[]
    )[None]
    for name, one in judged.rows[0].metrics.items():
        assert found[name] == again[name] == pytest.approx(one.value, abs=1e-6), name
    assert set(metrics_of_groups(2)) < set(judged.rows[0].metrics)
    told = "Groups by day that hold both labels and count in grouped_auc, ndcg@2, mrr@2, hit_rate@2"
    counted = r": \d+ of \d+; left out: \d+ \(\d+ of one record, "
    assert re.match(told + counted, judged.notes[0])
    assert judged.notes[-1] == "Records without day, in no group: 10."


def test_no_group_with_both_labels():
    collector = Collector("user", 10)
    for n in range(3):
        collector.add(np.array([n, n]), np.array([n % 2, n % 2]), np.array([0.1, 0.2]))
    assert np.isnan(collector.compute_values()).all()
    assert collector.find_problem() == (
        "Groups by user that hold both labels: none of 3 (2 of more with negatives only, 1 of more "
        "with positives only); grouped_auc, ndcg@10, mrr@10, hit_rate@10 are not defined."
    )


def test_why_metrics_are_not_defined_is_reported(tmp_path):
    """Of groups of one, as by a column that identifies rows."""

    def made(split: str) -> list[bytes]:
        return [
            record.replace(b"\x01x", b"\x01" + bytes([n % 100]))
            for n, record in enumerate(small_table.payloads(split))
        ]

    settings = ("eval.group=unused", "eval.metric=grouped_auc")
    table = small_table.Table(tmp_path, *settings, made=made)
    reported: list[str] = []
    found = table.estimator.evaluate(
        table.records.build_eval_input_fn("eval"),
        checkpoint_path=table.checkpoint,
        hooks=[streaming.UndefinedHook("eval", reported.append)],
    )
    assert np.isnan(found["grouped_auc"])
    (line,) = reported
    assert line.startswith("split eval: Groups by unused that hold both labels: none of 100 (100 ")


def test_a_model_of_the_users_that_predicts_numbers(tmp_path):
    overrides = (f"model={{name: '{user_code.__name__}:regressor'}}", "eval.group=day")
    table = small_table.Table(tmp_path, *overrides, "eval.metric=loss")
    with tf.Graph().as_default():
        batches = table.records.build_eval_input_fn("eval")()
        given = tf.compat.v1.data.make_initializable_iterator(batches).get_next()
        with pytest.raises(
            errors.UsageError,
            match=r"eval.group: metrics by group need 'probabilities' of two classes; in "
            "evaluation the model predicts predictions",
        ):
            table.estimator.model_fn(*given, tf.estimator.ModeKeys.EVAL, table.estimator.config)
