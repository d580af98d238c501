"""Several labels, from a CSV to predictions: every answer against NumPy on the parameters."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests import exports
from trainer.metrics import slice_metrics
from trainer.migration import migration

pytestmark = pytest.mark.slow

CONFIG = """
name: goals
data:
  source: csv
  inputs: {train: {files: rows.csv}}
  key: [id]
  columns:
    id: {type: int64}
    x: {type: float32}
    y: {type: float32}
    item: {type: int64, min: 0, max: 9}
    user: {type: int64, min: 0, max: 30}
    weight: {type: float32, min: 0}
    clicked: {type: int64, min: 0, max: 1}
    bought: {type: int64, min: 0, max: 1, missing: allow}
    mood: {type: string, allowed: [bad, fair, good], missing: allow}
    dwell: {type: float32, missing: allow}
  split: {eval: 0.2, test: 0.2}
  shards: {train: 2}
label: {weight: weight}
features:
  x: {}
  y: {}
  item: {steps: [{identity: {ids: 10}}], embedding: 3}
labels:
  clicked: {}
  bought: {weight: 2}
  mood: {vocabulary: true, classes: 3}
  dwell: {task: regression, offset: 3, scale: 2}
model: {name: mmoe, params: {experts: 3, hidden_units: [8], tower_units: [4]}}
train: {steps: 60, batch_size: 32, optimizer: {name: adam, learning_rate: 0.02}}
eval: {metric: clicked/auc, batch_size: 64, group: user}
"""
NAMES = ("id", "x", "y", "item", "user", "weight", "clicked", "bought", "mood", "dwell")
ROWS = 2000
_TABLE = "dnn/input_from_feature_columns/input_layer/item_embedding/embedding_weights"


def _rows(count=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        x, y = rng.normal(size=2).astype(np.float32)
        clicked = int(rng.random() < 1 / (1 + np.exp(-x)))
        made.append(
            {
                "id": number,
                "x": float(x),
                "y": float(y),
                "item": int(rng.integers(0, 10)),
                "user": int(rng.integers(0, 31)),
                "weight": number % 3 / 2,
                "clicked": clicked,
                "bought": int(y > 0) if clicked else None,
                "mood": None if number % 5 == 0 else ("bad", "fair", "good")[number % 3],
                "dwell": None if number % 4 == 0 else float(3 + 2 * x),
            }
        )
    return made


def _csv(rows):
    lines = [",".join(NAMES)]
    lines += [",".join("" if r[n] is None else str(r[n]) for n in NAMES) for r in rows]
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return exports.publish_table(tmp_path_factory.mktemp("goals"), _csv(_rows()), CONFIG)


def _by_hand(published, rows):
    """Returns what is served for rows, with NumPy alone, from the checkpoint."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(published.run.path))

    def dense(x, scope, *, bias=True):
        y = x @ reader.get_tensor(f"{scope}/kernel").astype(np.float64)
        return y + reader.get_tensor(f"{scope}/bias") if bias else y

    def softmax(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    vectors = reader.get_tensor(_TABLE)[[row["item"] for row in rows]]
    numbers = np.array([[row["x"], row["y"]] for row in rows])
    x = np.concatenate([vectors, numbers], axis=1)
    experts = np.stack(
        [np.maximum(dense(x, f"mmoe/expert_{n}/hiddenlayer_0"), 0) for n in range(3)], axis=1
    )
    logits = []
    for n in range(4):
        gate = softmax(dense(x, f"mmoe/gate_{n}", bias=False))
        mixed = (experts * gate[:, :, None]).sum(axis=1)
        tower = np.maximum(dense(mixed, f"mmoe/tower_{n}/hiddenlayer_0"), 0)
        logits.append(dense(tower, f"mmoe/tower_{n}/logits"))
    two = [1 / (1 + np.exp(-one[:, 0])) for one in logits[:2]]
    return {
        "clicked/probabilities": np.stack([1 - two[0], two[0]], axis=1),
        "bought/probabilities": np.stack([1 - two[1], two[1]], axis=1),
        "mood/probabilities": softmax(logits[2]),
        "dwell/prediction": logits[3][:, 0] * 2 + 3,
    }


def _of(published, split):
    """Returns the rows of a split, in the order of its records."""
    from trainer.input import parsing

    batches = published.records.read_serialized(split).rebatch(5000)
    [found] = [parsing.parse(b, published.job.data.columns) for b in batches]
    known = {row["id"]: row for row in _rows()}
    return [known[number] for number in found["id"].numpy().tolist()]


def test_metrics_are_those_of_rows_with_the_label(published):
    from sklearn import metrics

    found = published.estimator.evaluate(published.records.build_eval_input_fn("eval"))
    rows = _of(published, "eval")
    served = _by_hand(published, rows)
    bought = np.array([row["bought"] is not None for row in rows])
    labels = np.array([row["bought"] or 0 for row in rows])
    p = served["bought/probabilities"][:, 1]
    weights = np.array([row["weight"] for row in rows])
    by = {"sample_weight": weights[bought]}
    assert found["bought/auc"] == pytest.approx(
        metrics.roc_auc_score(labels[bought], p[bought], **by), abs=1e-4
    )
    assert found["bought/log_loss"] == pytest.approx(
        metrics.log_loss(labels[bought], p[bought], **by), rel=1e-4
    )
    mood = np.array([row["mood"] is not None for row in rows])
    named = np.array([row["mood"] or "" for row in rows])
    assert found["mood/log_loss"] == pytest.approx(
        metrics.log_loss(
            named[mood], served["mood/probabilities"][mood], sample_weight=weights[mood]
        ),
        rel=1e-4,
    )
    there = np.array([row["dwell"] is not None for row in rows])
    wanted = np.array([row["dwell"] or 0.0 for row in rows])
    squares = np.square(served["dwell/prediction"] - wanted)[there]
    mean = np.average(squares, weights=weights[there])
    assert found["dwell/average_loss"] == pytest.approx(mean, rel=1e-4)
    # As it is minimised: also over rows without the label, and in units of the scale, 2.
    assert len(rows) % 64  # the last batch is smaller
    total = np.sum(squares * weights[there])
    assert found["dwell/loss"] == pytest.approx(total / len(rows) / 2**2, rel=1e-4)
    of_each = {"clicked": 1, "bought": 2, "mood": 1, "dwell": 1}
    added = sum(weight * found[f"{name}/loss"] for name, weight in of_each.items())
    assert found["loss"] == pytest.approx(added, rel=1e-5)
    moods = np.array([("bad", "fair", "good").index(row["mood"] or "bad") for row in rows])
    named = np.array([row["mood"] is not None for row in rows])
    right = (served["mood/probabilities"].argmax(axis=1) == moods)[named]
    share = np.average(right, weights=weights[named])
    assert found["mood/accuracy"] == pytest.approx(share, abs=1e-6)
    assert {"clicked/grouped_auc", "bought/grouped_auc"} <= set(found)
    assert not any(name.startswith(("mood/grouped", "dwell/grouped")) for name in found)
    checkpoint = tf.train.latest_checkpoint(published.run.path)
    judged = slice_metrics.evaluate(
        published.records,
        published.estimator,
        checkpoint,
        split="eval",
        slices=["item"],
    )["bought"]
    assert judged.rows[0].records == bought.sum()
    # There each counts once, as in metrics of groups everywhere.
    assert judged.rows[0].metrics["auc"].value == pytest.approx(
        metrics.roc_auc_score(labels[bought], p[bought]), abs=1e-5
    )
    assert judged.rows[0].metrics["grouped_auc"].value == pytest.approx(
        found["bought/grouped_auc"], abs=1e-6
    )


def test_the_export_is_what_numpy_says(published):
    rows = _of(published, "test")
    wanted = _by_hand(published, rows)
    feeds = {
        "x": tf.constant([row["x"] for row in rows], tf.float32),
        "y": tf.constant([row["y"] for row in rows], tf.float32),
        "item": tf.constant([row["item"] for row in rows], tf.int64),
    }
    signature = tf.saved_model.load(published.export.path).signatures["serving_default"]
    found = signature(**feeds)
    assert set(found) == {*wanted, "clicked/class", "bought/class", "mood/class"}
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name].numpy(), values, atol=2e-5)
    served = published.served()
    asked = [{name: row[name] for name in feeds} for row in rows[:5]]
    answers = served.predict({"instances": asked})["predictions"]
    for name, values in wanted.items():
        np.testing.assert_allclose([a[name] for a in answers], values[:5], atol=2e-5)


def test_predictions_have_columns_for_each_label(published, tmp_path, capsys):
    found = {int(row["id"]): row for row in published.predicted_table(published.csv)}
    rows = _rows()
    wanted = _by_hand(published, rows)
    assert len(found) == ROWS
    for row, p, dwell in zip(
        rows, wanted["bought/probabilities"][:, 1], wanted["dwell/prediction"], strict=True
    ):
        one = found[row["id"]]
        assert float(one["bought/probability_1"]) == pytest.approx(p, abs=2e-5)
        assert float(one["dwell/prediction"]) == pytest.approx(dwell, abs=1e-3)
        assert one["bought/label"] == ("" if row["bought"] is None else str(row["bought"]))
        assert one["mood/prediction"] in ("bad", "fair", "good")
        assert one["mood/label"] == (row["mood"] or "")
    said = capsys.readouterr().out
    assert "bought: accuracy " in said and "dwell: mean squared error" in said


def test_it_migrates_to_keras(published):
    checkpoint = tf.train.latest_checkpoint(published.run.path)
    path = published.records.folder
    migrated = migration.Migration(published.run, path).publish(checkpoint)
    keras = tf.keras.models.load_model(f"{migrated.path}/model.keras")
    rows = _rows(40, seed=3)
    found = keras(
        {
            "x": tf.constant([row["x"] for row in rows], tf.float32),
            "y": tf.constant([row["y"] for row in rows], tf.float32),
            "item": tf.constant([row["item"] for row in rows], tf.int64),
        }
    )
    for name, values in _by_hand(published, rows).items():
        np.testing.assert_allclose(found[name].numpy(), values, atol=2e-5)


def test_the_names_of_classes_are_those_of_their_label(published):
    assert published.export.classes is None
    assert published.export.classes_of("mood") == ("bad", "fair", "good")
    assert published.export.classes_of("clicked") is None
    with open(f"{published.export.path}/assets.extra/metrics.json") as file:
        assert "metrics" in json.load(file)
