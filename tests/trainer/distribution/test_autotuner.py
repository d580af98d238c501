"""No session of ours has tf.data's autotuner, which would hold it at its end for up to a minute."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from pipeline.config.strategy_table import STRATEGIES
from tests.trainer import iterators
from trainer import divergence_replay
from trainer.export import parity, parity_rows
from trainer.heads import heads
from trainer.input.dataset import RecordDataset
from trainer.input.window_feed import Feed
from trainer.metrics import slice_metrics
from trainer.monitoring import divergence


@pytest.fixture(scope="module")
def under_strategies(commands):
    printed = commands.run("tests.trainer.iterators", *STRATEGIES)
    found = json.loads(printed.splitlines()[-1])
    # The others train without a strategy object.
    made = {name: parts for name, parts in found.items() if parts}
    assert {name for name, row in STRATEGIES.items() if row.classes} <= set(made)
    return made


def test_no_iterator_of_a_strategy_has_an_autotuner(under_strategies):
    assert all(found["train"]["started"] >= 2 for found in under_strategies.values())
    assert {name: found["train"]["tuned"] for name, found in under_strategies.items()} == {
        name: [] for name in under_strategies
    }


def test_no_iterator_that_evaluates_has_an_autotuner(under_strategies):
    evaluating = {n: f["evaluate"] for n, f in under_strategies.items() if "evaluate" in f}
    assert set(evaluating) == {n for n in under_strategies if STRATEGIES[n].evaluates}
    assert not any(found["tuned"] for found in evaluating.values())


def _of_input(input_fn):
    with tf.Graph().as_default() as graph:
        tf.compat.v1.data.make_initializable_iterator(input_fn()).get_next()
        assert iterators.list_started(graph)
        return iterators.list_tuned(graph)


def test_the_input_of_a_single_process_has_no_autotuner(small_records):
    records = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    feed = Feed(records.list_blocks("train"), 0, 4)
    assert _of_input(records.build_train_input_fn(feed, 1)) == []
    assert _of_input(records.build_train_input_fn(feed, 2)) == []
    assert _of_input(records.build_eval_input_fn("eval")) == []
    assert _of_input(lambda: records.read_serialized("test")) == []


class _Predicts:
    """An Estimator that only keeps its input."""

    def __init__(self):
        self.input_fns = []

    def predict(self, input_fn, **_):
        self.input_fns.append(input_fn)
        return iter([])


def test_prediction_and_replay_have_no_autotuner(small_records, monkeypatch):
    records = RecordDataset(small_records.job, small_records.folder, small_records.contents)
    estimator = _Predicts()
    monkeypatch.setattr(heads, "build_answering_estimator", lambda *_, **__: estimator)
    gate, rows = parity.Gate(records), [parity_rows.ParityRow(b"")]
    gate.predict(rows, estimator, "", orders=gate.build_orders(rows))
    slice_metrics.evaluate(records, None, "", split="eval", slices=[])
    assert len(estimator.input_fns) == 2
    batch = divergence.RecordedBatch(1, None)
    for input_fn in (*estimator.input_fns, divergence_replay.build_input_fn(records, [batch])):
        assert _of_input(input_fn) == []


def test_an_iterator_that_has_one_is_found():
    assert _of_input(lambda: tf.data.Dataset.range(3)) != []
