"""Columns that are lists, from a CSV to predictions: every answer against NumPy on the
parameters."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import config_file
from preprocessing.build import job as preprocessing
from serving.batch import inputs, predictions
from serving.rest import session
from serving.rest.rest_server import Served
from tests import exports
from trainer.migration import migration

CONFIG = """
name: lists
data:
  source: csv
  inputs: {train: {files: rows.csv}}
  key: [id]
  columns:
    id: {type: int64}
    tags: {type: string, list: true, max_items: 3, on_longer: keep_last, missing: allow}
    seen: {type: int64, list: true, max_items: 5, separator: " ", min: 0, max: 9}
    prices: {type: float32, list: true, max_items: 4, separator: ";"}
    bought: {type: int64, allowed: [0, 1]}
  label: bought
  error_budget: 9
  split: {eval: 0.2, test: 0.2}
features:
  mean: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 3, combiner: mean}}
  sum: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 2, combiner: sum}}
  sqrtn: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 4, combiner: sqrtn}}
  max: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 3, combiner: max}}
  tags: {steps: [vocabulary], embedding: {size: 2}}
  price: {of: prices, steps: [log1p, {pool: {by: max}}]}
  count: {of: tags, steps: [{pool: {by: count}}]}
model: {name: dnn, params: {hidden_units: [5]}}
train: {steps: 60, batch_size: 32, optimizer: {name: adam, learning_rate: 0.05}}
eval: {metric: accuracy, batch_size: 64}
"""
NAMES = ("id", "tags", "seen", "prices", "bought")
BETWEEN = {"tags": "|", "seen": " ", "prices": ";"}
_TABLE = "dnn/input_from_feature_columns/input_layer/{}_embedding/embedding_weights"


def _rows(count, seed=0):
    rng = np.random.default_rng(seed)
    words = [f"w{n}" for n in range(12)]
    made = []
    for number in range(count):
        tags = rng.choice(words, rng.integers(0, 4)).tolist()
        seen = rng.integers(0, 10, rng.integers(0, 6)).tolist()
        prices = rng.integers(0, 400, rng.integers(0, 4)) / 4
        made.append(
            {
                "id": number,
                "tags": None if number % 11 == 0 else tags,
                "seen": seen,
                "prices": prices.tolist(),
                "bought": int(3 in seen or "w1" in tags),
            }
        )
    return made


def _csv(rows):
    """Writes rows as CSV: a list that is missing is an empty cell, an empty one has quotes."""
    lines = [",".join(NAMES)]
    for row in rows:
        cells = []
        for name in NAMES:
            value = row[name]
            if isinstance(value, list):
                value = BETWEEN[name].join(map(str, value)) or '""'
            cells.append("" if value is None else str(value))
        lines.append(",".join(cells))
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    rows = _rows(400)
    rows += [
        {**rows[1], "id": 400, "tags": ["w0", "w1", "w2", "w3", "w4"]},  # three of them stay
        {**rows[1], "id": 401, "seen": [1, 77]},
        {**rows[1], "id": 402, "seen": [1] * 6},
        {**rows[1], "id": 403, "tags": ["w0", "", "w1"]},
    ]
    return exports.finished(tmp_path_factory.mktemp("lists"), _csv(rows), CONFIG)


def _by_hand(published, rows):
    """Returns the probability of 1 for each row, with NumPy alone, from the checkpoint."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(published.run.path))
    read = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    tables = {n: read[_TABLE.format(n)] for n in ("max", "mean", "sqrtn", "sum", "tags")}
    statistics = published.records.manifest.statistics["train"].columns["tags"]
    known = {value: number for number, (value, _) in enumerate(statistics.vocabulary)}
    made = []
    for row in rows:
        tags, seen = (row["tags"] or [])[-3:], row["seen"]
        vectors = {name: tables[name][seen] for name in ("max", "mean", "sqrtn", "sum")}
        of_tags = tables["tags"][[known.get(tag, len(known)) for tag in tags]]
        some = max(len(seen), 1)
        x = [
            [len(tags)],
            vectors["max"].max(axis=0) if seen else np.zeros(3),
            vectors["mean"].sum(axis=0) / some,
            [max(map(np.log1p, row["prices"]), default=0.0)],
            vectors["sqrtn"].sum(axis=0) / np.sqrt(some),
            vectors["sum"].sum(axis=0),
            of_tags.sum(axis=0) / max(len(tags), 1),
        ]
        made.append(np.concatenate(x))
    hidden = np.array(made) @ read["dnn/hiddenlayer_0/kernel"] + read["dnn/hiddenlayer_0/bias"]
    logits = np.maximum(hidden, 0) @ read["dnn/logits/kernel"] + read["dnn/logits/bias"]
    return 1 / (1 + np.exp(-logits[:, 0]))


# Unseen tags, one too many, duplicates, missing and empty lists.
NEW = [
    *_rows(40, seed=5),
    {"id": 0, "tags": ["new", "w1"], "seen": [3, 3, 3], "prices": [], "bought": 0},
    {"id": 1, "tags": ["w1", "w2", "w3", "w4"], "seen": [], "prices": [0.0], "bought": 1},
    {"id": 2, "tags": [], "seen": [], "prices": [], "bought": 0},
]


def test_what_became_of_the_rows(published):
    contents = published.records.manifest
    assert sum(split.records for split in contents.splits.values()) == 401
    [letters] = (published.storage / "records").glob("*/*/dead_letter/train.jsonl")
    found = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [(one["row"], one["column"], one["reason"]) for one in found] == [
        (403, "seen", "range"),
        (404, "seen", "items"),
        (405, "tags", "item"),
    ]
    assert found[1]["problem"] == (
        "is '1 1 1 1 1 1', allowed are 5 items; see max_items and on_longer"
    )
    train = contents.statistics["train"].columns
    assert train["tags"].lengths.max == 3
    assert train["tags"].missing > 0 == train["seen"].missing
    assert train["seen"].lengths.count == contents.splits["train"].records


def test_the_same_rows_give_the_same_bytes(published, tmp_path):
    (tmp_path / "rows.csv").write_text((published.storage / "rows.csv").read_text())
    (tmp_path / "job.yaml").write_text(CONFIG)
    again = preprocessing.run(config_file.load(str(tmp_path / "job.yaml")), str(tmp_path))
    assert again == published.records.manifest


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_predictions_are_those_made_by_hand(published, tmp_path, kind):
    given = tmp_path / f"new.{kind}"
    given.write_text(_csv(NEW) if kind == "csv" else exports.json_lines(NEW))
    where = predictions.output(published.run, published.export, str(given), None, "csv")
    asked = inputs.of_files(str(given), published.job, published.export.classes)
    predictions.predict(published.job, published.export, asked, where)
    with open(where.path, newline="") as file:
        found = [float(row["probability_1"]) for row in csv.DictReader(file)]
    assert found == pytest.approx(_by_hand(published, NEW).tolist(), abs=2e-6)


def test_the_server_takes_lists_with_and_without_padding(published):
    served = Served(published.job.name, published.export, session.rules(published.job))
    rows = [
        {n: row[n] or [] for n in ("tags", "seen", "prices")} for row in NEW if len(row["seen"]) < 5
    ]
    asked = served.predict({"instances": rows})["predictions"]
    wanted = _by_hand(published, rows)
    found = [answer["probabilities"][1] for answer in asked]
    assert found == pytest.approx(wanted.tolist(), abs=2e-6)
    padded = [
        {
            "tags": row["tags"] + [""] * (4 - len(row["tags"])),
            "seen": row["seen"] + [-1] * (5 - len(row["seen"])),
            "prices": row["prices"] + [float("nan")] * (4 - len(row["prices"])),
        }
        for row in rows
    ]
    columns = {name: [row[name] for row in padded] for name in padded[0]}
    again = served.predict({"inputs": columns})["outputs"]["probabilities"]
    assert [one[1] for one in again] == pytest.approx(wanted.tolist(), abs=2e-6)


@pytest.mark.slow
def test_evaluation_and_a_keras_model_know_lists(published):
    evaluated = published.estimator.evaluate(published.records.eval_input_fn("test"))
    assert evaluated["accuracy"] > 0.7
    records = published.records.folder
    made = migration.Migration(published.run, records).publish(
        tf.train.latest_checkpoint(published.run.path)
    )
    assert made.rows > 80
