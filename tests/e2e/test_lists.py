"""Columns that are lists, from a CSV to predictions: every answer against NumPy on the
parameters."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import config_file
from preprocessing.build import job as preprocessing
from serving.rest import json_codec
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
    dwell: {type: float32, list: true, max_items: 5, separator: " ", min: 0, same_length_as: seen}
    item: {type: int64, min: 0, max: 9}
    bought: {type: int64, allowed: [0, 1]}
  label: bought
  error_budget: 9
  split: {eval: 0.2, test: 0.2}
features:
  item: {steps: [{identity: {ids: 11}}], embedding: 3}
  mean: {of: seen, steps: [{identity: {ids: 11}}], embedding: {table: item, combiner: mean}}
  sum: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 2, combiner: sum}}
  sqrtn: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 4, combiner: sqrtn}}
  max: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 3, combiner: max}}
  tags: {steps: [vocabulary], embedding: {size: 2}}
  spent: {of: seen, steps: [{identity: {ids: 11}}], embedding: {size: 2, weights: dwell}}
  liked:
    of: seen
    steps: [{identity: {ids: 11}}]
    embedding: {table: item, combiner: sqrtn, weights: dwell}
  pair: {of: item, steps: [{hash: {buckets: 6, functions: 2}}], embedding: {size: 2}}
  pairs:
    of: seen
    steps: [{hash: {buckets: 6, functions: 2}}]
    embedding: {size: 3, combiner: sum, weights: dwell}
  order:
    of: tags
    steps: [{hash: {buckets: 9}}]
    embedding: {size: 2, combiner: sum, position: true}
  recent:
    of: seen
    steps: [{identity: {ids: 11}}]
    embedding: {table: item, position: true}
  dwelt:
    of: seen
    steps: [{identity: {ids: 11}}]
    embedding: {size: 2, combiner: sqrtn, weights: dwell, position: true}
  twice:
    of: seen
    steps: [{hash: {buckets: 6, functions: 2}}]
    embedding: {size: 2, weights: dwell, position: true}
  price: {of: prices, steps: [log1p, {pool: {by: max}}]}
  count: {of: tags, steps: [{pool: {by: count}}]}
model: {name: dnn_linear_combined, params: {hidden_units: [5]}}
train: {steps: 60, batch_size: 32, optimizer: {name: adam, learning_rate: 0.05}}
eval: {metric: accuracy, batch_size: 64}
"""
NAMES = ("id", "tags", "seen", "prices", "dwell", "item", "bought")
BETWEEN = {"tags": "|", "seen": " ", "prices": ";", "dwell": " "}
FED = ("tags", "seen", "prices", "dwell", "item")
_WEIGHTS = "linear/linear_model/{}/weights"
_INPUT = "dnn/input_from_feature_columns/input_layer/{}_embedding/"
_TABLE, _PLACES = _INPUT + "embedding_weights", _INPUT + "position_weights"
# How many ids an item has, of the features with vectors of places.
PLACED = {"order": 1, "recent": 1, "dwelt": 1, "twice": 2}


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
                "dwell": (rng.integers(0, 9, len(seen)) / 2).tolist(),
                "item": int(rng.integers(0, 10)),
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
        {**rows[1], "id": 402, "seen": [1] * 6, "dwell": [1] * 6},
        {**rows[1], "id": 403, "tags": ["w0", "", "w1"]},
        {**rows[1], "id": 404, "seen": [1, 2], "dwell": [0.5]},
        {**rows[1], "id": 405, "seen": [], "dwell": [0.5]},
    ]
    return exports.publish_table(tmp_path_factory.mktemp("lists"), _csv(rows), CONFIG)


def _hashed(value):
    """Returns the two ids of a value, of 6."""
    texts = [f"{value}", f"1\x1f{value}"]
    return tf.strings.to_hash_bucket_fast(texts, 6).numpy().tolist()


def _combined(table, ids, combiner, weights=None, *, places=0.0):
    """Returns one vector of those of ids, and of their places, by the definition of its
    combiner."""
    vectors = table[ids] + places
    weights = np.ones(len(ids)) if weights is None else np.array(weights)
    if combiner == "max":
        return vectors.max(axis=0) if ids else np.zeros(table.shape[1])
    total = weights @ vectors if ids else np.zeros(table.shape[1])
    by = {"sum": 1, "mean": weights.sum(), "sqrtn": np.sqrt(np.square(weights).sum())}[combiner]
    return total / by if by else total


def _by_hand(published, rows):
    """Returns the probability of 1 for each row, with NumPy alone, from the checkpoint."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(published.run.path))
    read = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    statistics = published.records.manifest.statistics["train"].columns["tags"]
    known = {value: number for number, (value, _) in enumerate(statistics.vocabulary)}
    deep, wide = [], []
    for row in rows:
        tags, seen = (row["tags"] or [])[-3:], row["seen"]
        places, dwell = [known.get(tag, len(known)) for tag in tags], row["dwell"]
        twice = [number for value in seen for number in _hashed(value)]
        weights = np.repeat(dwell, 2).tolist()
        hashed = tf.strings.to_hash_bucket_fast(np.array(tags, str), 9).numpy().tolist()
        ids = {
            "dwelt": ("dwelt", "sqrtn", seen, dwell),
            "order": ("order", "sum", hashed, None),
            "recent": ("item", "mean", seen, None),
            "twice": ("twice", "mean", twice, weights),
            "item": ("item", "mean", [row["item"]], None),
            "liked": ("item", "sqrtn", seen, dwell),
            "max": ("max", "max", seen, None),
            "mean": ("item", "mean", seen, None),
            "pair": ("pair", "mean", _hashed(row["item"]), None),
            "pairs": ("pairs", "sum", twice, weights),
            "spent": ("spent", "mean", seen, dwell),
            "sqrtn": ("sqrtn", "sqrtn", seen, None),
            "sum": ("sum", "sum", seen, None),
            "tags": ("tags", "mean", places, None),
        }
        places = {
            name: read[_PLACES.format(name)][np.arange(len(ids[name][2])) // each]
            for name, each in PLACED.items()
        }
        x = {
            name: _combined(
                read[_TABLE.format(table)], of, combiner, by, places=places.get(name, 0.0)
            )
            for name, (table, combiner, of, by) in ids.items()
        }
        x["count"], x["price"] = [len(tags)], [max(map(np.log1p, row["prices"]), default=0.0)]
        deep.append(np.concatenate([x[name] for name in sorted(x)]))
        terms = [
            _combined(read[_WEIGHTS.format(name)], of, "sum", by)[0]
            for name, (_, _, of, by) in ids.items()
        ]
        wide.append(sum(terms) + read[_WEIGHTS.format("bias").replace("/weights", "_weights")][0])
    hidden = np.array(deep) @ read["dnn/hiddenlayer_0/kernel"] + read["dnn/hiddenlayer_0/bias"]
    logits = np.maximum(hidden, 0) @ read["dnn/logits/kernel"] + read["dnn/logits/bias"]
    return 1 / (1 + np.exp(-logits[:, 0] - np.array(wide)))


def _row(**lists):
    empty = {name: [] for name in BETWEEN}
    return {"id": 0, **empty, "item": 4, "bought": 0, **lists}


# Unseen tags, one too many, duplicates, weights of 0, missing and empty lists.
NEW = [
    *_rows(40, seed=5),
    _row(tags=["new", "w1"], seen=[3, 3, 3], dwell=[0, 2.5, 1]),
    _row(tags=["w1", "w2", "w3", "w4"], prices=[0.0]),
    _row(tags=["é"], seen=[9, 2], dwell=[0, 0]),
    _row(),
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
        (406, "dwell", "lengths"),
        (407, "dwell", "lengths"),
    ]
    assert found[3]["problem"] == "is '0.5', and needs one item for each of 'seen'"
    assert found[1]["problem"] == (
        "is '1 1 1 1 1 1', allowed are 5 items; see max_items and on_longer"
    )
    train = contents.statistics["train"].columns
    assert train["tags"].lengths.max == 3
    assert train["tags"].missing > 0 == train["seen"].missing
    assert train["seen"].lengths.count == contents.splits["train"].records


def test_vectors_of_places_were_learnt(published):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(published.run.path))
    for name, items in {"order": 3, "recent": 5, "dwelt": 5, "twice": 5}.items():
        vectors = reader.get_tensor(_PLACES.format(name))
        assert len(vectors) == items and vectors.any(axis=1).all()


def test_the_same_rows_give_the_same_bytes(published, tmp_path):
    (tmp_path / "rows.csv").write_text((published.storage / "rows.csv").read_text())
    (tmp_path / "job.yaml").write_text(CONFIG)
    again = preprocessing.run(config_file.load(str(tmp_path / "job.yaml")), str(tmp_path))
    assert again == published.records.manifest


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_predictions_are_those_made_by_hand(published, tmp_path, kind):
    given = tmp_path / f"new.{kind}"
    given.write_text(_csv(NEW) if kind == "csv" else exports.format_json_lines(NEW))
    found = [float(row["probability_1"]) for row in published.predicted_table(str(given))]
    assert found == pytest.approx(_by_hand(published, NEW).tolist(), abs=2e-6)


def test_the_server_takes_lists_with_and_without_padding(published):
    served = published.served()
    rows = [
        {name: row[name] or [] for name in FED} | {"item": row["item"]}
        for row in NEW
        if len(row["seen"]) < 5
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
            "dwell": row["dwell"] + [float("nan")] * (5 - len(row["dwell"])),
            "item": row["item"],
        }
        for row in rows
    ]
    columns = {name: [row[name] for row in padded] for name in padded[0]}
    again = served.predict({"inputs": columns})["outputs"]["probabilities"]
    assert [one[1] for one in again] == pytest.approx(wanted.tolist(), abs=2e-6)
    for dwell in ([0.5], [], [1.0] * 3):
        with pytest.raises(json_codec.BadRequest, match=r"dwell.* one item for each of 'seen'"):
            served.predict({"instances": [{**rows[0], "seen": [1, 2], "dwell": dwell}]})


def _encode_example(row):
    """Returns a row as an Example in base64: a list that is missing is no feature."""
    made = tf.train.Example()
    kinds = {"tags": "bytes", "seen": "int64", "item": "int64", "prices": "float", "dwell": "float"}
    for name, kind in kinds.items():
        if row[name] is not None:
            values = row[name] if isinstance(row[name], list) else [row[name]]
            held = getattr(made.features.feature[name], f"{kind}_list")
            held.SetInParent()  # also of no values
            held.value.extend(v.encode() if isinstance(v, str) else v for v in values)
    return {"b64": base64.b64encode(made.SerializeToString()).decode()}


def test_the_server_takes_examples_with_lists(published):
    served = published.served()
    body = {"signature_name": "examples", "instances": [*map(_encode_example, NEW)]}
    found = [answer["probabilities"][1] for answer in served.predict(body)["predictions"]]
    assert found == pytest.approx(_by_hand(published, NEW).tolist(), abs=2e-6)
    bad = _encode_example({**NEW[1], "seen": [1, 77], "dwell": [1.0, 1.0]})
    line = r"^instances\[0\]: column 'seen' is \[1, 77\], allowed is 0 to 9$"
    with pytest.raises(json_codec.BadRequest, match=line):
        served.predict({"signature_name": "examples", "instances": [bad]})


@pytest.mark.slow
def test_evaluation_and_a_keras_model_know_lists(published):
    evaluated = published.estimator.evaluate(published.records.build_eval_input_fn("test"))
    assert evaluated["accuracy"] > 0.7
    records = published.records.folder
    made = migration.Migration(published.run, records).publish(
        tf.train.latest_checkpoint(published.run.path)
    )
    assert made.rows > 80
