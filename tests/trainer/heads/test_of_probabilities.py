"""Metrics of an evaluation against those of all examples at once."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.process_help import ROOT, child_environment
from tests.support.sets import matrix
from trainer.heads.area import AreaUnderRoc
from trainer.heads.of_probabilities import RESULTS, AveragePrecision, OfProbabilities
from trainer.metrics import probabilities
from trainer.metrics.probabilities import Scored


def _found(labels, both, weights=None, batch=100):
    area = AreaUnderRoc()
    means = {name: OfProbabilities(name, result) for name, result in RESULTS.items()}
    for start in range(0, len(labels), batch):
        here = slice(start, start + batch)
        weighted = None if weights is None else weights[here][:, None]
        area.update_state(labels[here][:, None], both[here, 1:], weighted)
        for metric in means.values():
            metric.update_state(labels[here][:, None], both[here], weighted)
    found = {**means, "average_precision": AveragePrecision(area)}
    return {name: float(metric.result()) for name, metric in found.items()}


def _drawn(count, rate, seed=0):
    rng = np.random.default_rng(seed)
    labels = (rng.random(count) < rate).astype(np.float32)
    logits = (rng.normal(size=count) * 4 + 1.5 * labels - 1).astype(np.float32)
    logits[:3] = (200, -200, 0)
    return labels, tf.nn.softmax(np.stack([np.zeros_like(logits), logits], 1)).numpy()


@pytest.mark.parametrize("rate", [0.3, 0.01])
def test_they_are_those_of_make_evaluate(rate):
    labels, both = _drawn(3000, rate)
    scored = Scored(labels == 1, both[:, 1], np.where(labels == 1, both[:, 1], both[:, 0]))
    exact, _ = probabilities.compute_metrics(scored, rate)
    found = _found(labels, both)
    assert found.pop("accuracy_baseline") == pytest.approx(1 - labels.mean(), abs=1e-6)
    for name in RESULTS.keys() & found.keys():
        assert found[name] == pytest.approx(exact[name].value, abs=1e-6)
    precision = exact["average_precision"].value
    assert found["average_precision"] == pytest.approx(precision, abs=1e-6)


def test_weights_count_as_repeated_examples():
    labels, both = _drawn(300, 0.3)
    often = np.random.default_rng(3).integers(0, 4, 300)
    repeated = _found(np.repeat(labels, often), np.repeat(both, often, axis=0))
    assert _found(labels, both, often.astype(np.float32)) == pytest.approx(repeated, rel=1e-6)


@pytest.mark.parametrize(("label", "defined"), [(0, set()), (1, {"calibration"})])
def test_one_label_alone(label, defined):
    found = _found(np.full(5, label, np.float32), np.full((5, 2), 0.5, np.float32))
    assert {name for name, value in found.items() if np.isfinite(value)} == {
        "accuracy_baseline",
        "log_loss",
        *defined,
    }


# In a process of its own: a second CPU can only be had where TensorFlow has not begun.
_TWO_REPLICAS = """
import json, pathlib, sys
from tests.trainer import small_table
folder, model, *overrides = sys.argv[1:]
strategies = ([model], [model, *overrides])
one, two = (small_table.Table(pathlib.Path(folder), *given) for given in strategies)
found = []
for table in (one, two):
    rows = table.records.build_eval_input_fn("eval")
    metrics = table.estimator.evaluate(rows, checkpoint_path=one.checkpoint)
    found.append({name: float(value) for name, value in metrics.items()})
json.dump(found, sys.stdout)
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["mirrored", matrix("central_storage")])
@pytest.mark.parametrize(
    ("classes", "names"),
    [(2, {"accuracy", "auc", "recall", "label/mean", *RESULTS}), (3, {"accuracy", "log_loss"})],
)
def test_two_replicas_find_what_one_does(tmp_path, strategy, classes, names):
    model = f"model={{name: linear, params: {{classes: {classes}}}}}"
    overrides = [f"cluster.eval_strategy={strategy}", "cluster.replicas=2"]
    command = [sys.executable, "-c", _TWO_REPLICAS, str(tmp_path), model, *overrides]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=child_environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    alone, together = json.loads(done.stdout)
    assert names <= alone.keys()
    for name in {"auc", "average_precision"} & alone.keys():  # several replicas count in buckets
        assert together.pop(name) == pytest.approx(alone.pop(name), abs=2e-3)
    assert together == pytest.approx(alone, abs=1e-6, nan_ok=True)
