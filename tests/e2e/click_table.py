"""Jobs with a table of clicks, which has a list, its weights, and ids by two hash functions: a
config for each shipped model of declared features, and what each answers, with NumPy alone."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf

from pipeline import config
from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing.build import job as preprocessing

ROWS, ITEMS, USERS, LONGEST, BUCKETS = 800, 30, 20, 4, 9
CONFIG = """
name: clicks
data:
  source: csv
  inputs: {train: {files: rows.csv}}
  columns:
    item: {type: int64, min: 0, max: 29}
    user: {type: int64, min: 0, max: 19}
    price: {type: float32, min: 0}
    seen: {type: int64, list: true, max_items: 4, separator: " ", min: 0, max: 29}
    dwell:
      {type: float32, list: true, max_items: 4, separator: " ", min: 0, same_length_as: seen}
    clicked: {type: int64, min: 0, max: 1}
    bought: {type: int64, min: 0, max: 1}
  split: {eval: 0.1, test: 0.1}
  shards: {train: 2}
  block_records: 16
features:
  item: {steps: [{identity: {ids: 31}}], embedding: 4}
  price: {steps: [z_score]}
  user: {steps: [{hash: {buckets: 9, functions: 2}}], embedding: {size: 4}}
  viewed:
    of: seen
    steps: [{identity: {ids: 31}}]
    embedding: {table: item, combiner: sqrtn, weights: dwell, position: true}
train: {epochs: 2, batch_size: 32}
eval: {metric: auc, batch_size: 64}
"""
_CLICKED = "data.label=clicked"
# What the config of each model has besides.
MODELS = {
    "deepfm": (_CLICKED, "model={name: deepfm, params: {factors: 4, hidden_units: [6]}}"),
    "dcn": (
        _CLICKED,
        "model={name: dcn, params: {cross_layers: 2, rank: 2, hidden_units: [6]}}",
    ),
    "din": (
        _CLICKED,
        "features.recent={of: seen, steps: [{identity: {ids: 31}}], "
        "embedding: {table: item, sequence: true, position: true}}",
        "model={name: din, params: {attention_units: [5], hidden_units: [6]}}",
    ),
    "mmoe": (
        "labels={clicked: {}, bought: {weight: 2}}",
        "model={name: mmoe, params: {experts: 3, hidden_units: [6], tower_units: [4]}}",
        "eval.metric=clicked/auc",
    ),
    "two_tower": (
        _CLICKED,
        "model={name: two_tower, params: {user: [user, viewed], item: [item, price], size: 3, "
        "hidden_units: [6], item_id: item}}",
        "eval.metric=hit_rate@5",
        "eval.top_k=5",
    ),
}
_NAMES = ("item", "user", "price", "seen", "dwell", "clicked", "bought")
_INPUT = "dnn/input_from_feature_columns/input_layer"
# What stands in a list where there is no item.
_NONE = {"seen": -1, "dwell": np.nan}
Tensors = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Clicks:
    """The job of a model of `MODELS`, its records, in `folder`, and their manifest."""

    model: str
    path: str
    folder: str
    contents: manifest.Manifest

    def config(self, *overrides: str) -> config.Config:
        return config_file.load(self.path, (*MODELS[self.model], *overrides))


def write(folder: pathlib.Path, model: str) -> Clicks:
    """Preprocesses the table for one of the models, below the folder."""
    (folder / "rows.csv").write_text(_format_csv(make_rows(ROWS)))
    path = str(folder / "clicks.yaml")
    pathlib.Path(path).write_text(CONFIG)
    job = config_file.load(path, MODELS[model])
    contents = preprocessing.run(job, str(folder))
    records = builds.find_current(run_folder.records_folder(str(folder), job.name))
    return Clicks(model, path, records, contents)


def make_rows(count: int, seed: int = 0) -> Tensors:
    """Returns columns of rows; of lists `[count, LONGEST]`, where every fifth is empty. An item
    that was seen is clicked, and what is clicked is bought if it is cheap."""
    rng = np.random.default_rng(seed)
    item, user = rng.integers(0, ITEMS, count), rng.integers(0, USERS, count)
    price = rng.integers(0, 400, count) / 4
    seen = rng.integers(0, ITEMS, (count, LONGEST))
    seen[::2, 0] = item[::2]
    dwell = rng.integers(0, 9, seen.shape) / 2
    none = np.arange(LONGEST)[None] >= np.arange(count)[:, None] % (LONGEST + 1)
    clicked = ((seen == item[:, None]) & ~none).any(axis=1)
    return {
        "item": item,
        "user": user,
        "price": price.astype(np.float32),
        "seen": np.where(none, _NONE["seen"], seen),
        "dwell": np.where(none, _NONE["dwell"], dwell).astype(np.float32),
        "clicked": clicked.astype(np.int64),
        "bought": (clicked & (price < 50)).astype(np.int64),
    }


def _format_csv(rows: Tensors) -> str:
    lines = [",".join(_NAMES)]
    for number, length in enumerate((rows["seen"] >= 0).sum(axis=1)):
        cells = []
        for name in _NAMES:
            value = rows[name][number]
            listed = name in _NONE
            cells.append(" ".join(map(str, value[:length])) or '""' if listed else str(value))
        lines.append(",".join(cells))
    return "\n".join([*lines, ""])


def feed(rows: Tensors) -> dict[str, tf.Tensor]:
    """Returns what the exported model of any of the models takes."""
    return {name: tf.constant(x) for name, x in rows.items() if name not in ("clicked", "bought")}


def answer(model: str, read: Tensors, rows: Tensors, contents: manifest.Manifest) -> Tensors:
    """Returns what the exported model must answer, from the variables of a checkpoint."""
    parts = _build_parts(read, rows, contents)
    if model == "mmoe":
        clicked, bought = _compute_mmoe(read, _join(parts))
        return {
            "clicked/probabilities": _make_probabilities(clicked),
            "bought/probabilities": _make_probabilities(bought),
        }
    if model == "two_tower":
        user = _compute_tower(read, "user", _join({n: parts[n] for n in ("user", "viewed")}))
        item = _compute_tower(read, "item", _join({n: parts[n] for n in ("item", "price")}))
        return {"user": user, "item": item, "score": (user * item).sum(axis=1)}
    logits = {"deepfm": _compute_deepfm, "dcn": _compute_dcn, "din": _compute_din}[model]
    return {"probabilities": _make_probabilities(logits(read, rows, parts))}


def _build_parts(read: Tensors, rows: Tensors, contents: manifest.Manifest) -> Tensors:
    """Returns what the input layer has of each feature, `[batch, width]`."""
    items, users = (read[f"{_INPUT}/{n}_embedding/embedding_weights"] for n in ("item", "user"))
    price = contents.statistics["train"].columns["price"]
    assert price.mean is not None and price.variance is not None
    viewed = []
    for ids, weights, places in _list_items(read, rows, "viewed"):
        norm = np.sqrt(np.square(weights).sum())
        viewed.append(weights @ (items[ids] + places) / (norm or 1.0))
    return {
        "item": items[rows["item"]],
        "price": (rows["price"][:, None] - price.mean) / np.sqrt(price.variance),
        "user": users[_hash(rows["user"])].mean(axis=1),
        "viewed": np.array(viewed),
    }


def _list_items(read: Tensors, rows: Tensors, feature: str) -> list[tuple[np.ndarray, ...]]:
    """Returns of each row the ids of the items of its list, their weights, and the vectors of
    their places."""
    places = read[f"{_INPUT}/{feature}_embedding/position_weights"]
    found = []
    for seen, dwell in zip(rows["seen"], rows["dwell"], strict=True):
        ids = seen[seen >= 0]
        found.append((ids, dwell[: len(ids)].astype(np.float64), places[: len(ids)]))
    return found


def _hash(users: np.ndarray) -> np.ndarray:
    """Returns the two ids of each user, `[batch, 2]`."""
    texts = [[f"{user}", f"1\x1f{user}"] for user in users]
    return tf.strings.to_hash_bucket_fast(texts, BUCKETS).numpy()


def _join(parts: Tensors) -> np.ndarray:
    return np.concatenate([parts[name] for name in sorted(parts)], axis=1)


def _compute_deepfm(read: Tensors, rows: Tensors, parts: Tensors) -> np.ndarray:
    weights = {name: read[f"linear/linear_model/{name}/weights"][:, 0] for name in parts}
    first = read["linear/linear_model/bias_weights"] + parts["price"][:, 0] * weights["price"]
    first = first + weights["item"][rows["item"]] + weights["user"][_hash(rows["user"])].sum(axis=1)
    listed = _list_items(read, rows, "viewed")
    first = first + np.array([by @ weights["viewed"][ids] for ids, by, _ in listed])
    a, b, c = (parts[name] for name in ("item", "user", "viewed"))
    second = (a * b + a * c + b * c).sum(axis=1)
    deep = _dense(read, "dnn/logits", _hide(read, "dnn", _join(parts)))
    return (first + second)[:, None] + deep


def _compute_dcn(read: Tensors, rows: Tensors, parts: Tensors) -> np.ndarray:
    x = _join(parts)
    crossed = x
    for number in range(2):
        scope = f"cross/layer_{number}"
        reduced = crossed @ read[f"{scope}/reduced/kernel"]
        crossed = x * _dense(read, f"{scope}/full", reduced) + crossed
    return _dense(read, "logits", np.concatenate([crossed, _hide(read, "dnn", x)], axis=1))


def _compute_din(read: Tensors, rows: Tensors, parts: Tensors) -> np.ndarray:
    table = read[f"{_INPUT}/item_embedding/embedding_weights"]
    recent = []
    for (ids, _, places), c in zip(_list_items(read, rows, "recent"), parts["item"], strict=True):
        vectors = table[ids] + places
        pairs = np.array([np.concatenate([c, v, c - v, c * v]) for v in vectors])
        hidden = _dense(read, "attention/recent/hiddenlayer_0", pairs.reshape(-1, 16))
        weights = _dense(read, "attention/recent/weights", _sigmoid(hidden))
        recent.append((weights * vectors).sum(axis=0))
    x = np.concatenate([_join(parts), np.array(recent)], axis=1)
    return _dense(read, "dnn/logits", _hide(read, "dnn", x))


def _compute_mmoe(read: Tensors, x: np.ndarray) -> list[np.ndarray]:
    experts = np.stack([_hide(read, f"mmoe/expert_{n}", x) for n in range(3)], axis=1)
    found = []
    for n in range(2):
        powers = np.exp(x @ read[f"mmoe/gate_{n}/kernel"])
        gate = powers / powers.sum(axis=1, keepdims=True)
        mixed = (experts * gate[:, :, None]).sum(axis=1)
        tower = _hide(read, f"mmoe/tower_{n}", mixed)
        found.append(_dense(read, f"mmoe/tower_{n}/logits", tower))
    return found


def _compute_tower(read: Tensors, side: str, x: np.ndarray) -> np.ndarray:
    vectors = _dense(read, f"{side}/vector", _hide(read, side, x))
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-3)


def _hide(read: Tensors, scope: str, x: np.ndarray) -> np.ndarray:
    """Returns the one hidden layer."""
    return np.maximum(_dense(read, f"{scope}/hiddenlayer_0", x), 0)


def _dense(read: Tensors, scope: str, x: np.ndarray) -> np.ndarray:
    return x @ read[f"{scope}/kernel"].astype(np.float64) + read[f"{scope}/bias"]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _make_probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns those of both classes, of logits `[batch, 1]`."""
    return np.concatenate([1 - _sigmoid(logits), _sigmoid(logits)], axis=1)
