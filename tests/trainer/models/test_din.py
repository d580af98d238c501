"""`din` against its formula in NumPy, with the table in parts, and empty lists."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics

from pipeline import errors
from tests.pipeline.feature_tables import contents
from tests.support.sets import slow
from tests.trainer import clicks
from trainer.checkpoints.parameters import Parameters
from trainer.migration import networks
from trainer.networks.keras_columns import KerasColumns

_INPUT = "dnn/input_from_feature_columns/input_layer"
_TABLE = f"{_INPUT}/item_embedding/embedding_weights"
_PLACES = f"{_INPUT}/clicked_embedding/position_weights"


def _dense(read, scope, x):
    return x @ read[f"{scope}/kernel"] + read[f"{scope}/bias"]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _attention(read, items, candidate):
    x = np.array([np.concatenate([candidate, v, candidate - v, candidate * v]) for v in items])
    hidden = _sigmoid(_dense(read, "attention/clicked/hiddenlayer_0", x))
    return (_dense(read, "attention/clicked/weights", hidden) * items).sum(axis=0)


def _gru(read, items, _):
    kernel, inner, bias = (
        np.split(read[f"gru/clicked/{name}"], 3, axis=-1)
        for name in ("kernel", "recurrent_kernel", "bias")
    )
    state = np.zeros(items.shape[1])
    for v in items:
        update = _sigmoid(v @ kernel[0] + state @ inner[0] + bias[0])
        reset = _sigmoid(v @ kernel[1] + state @ inner[1] + bias[1])
        new = np.tanh(v @ kernel[2] + (reset * state) @ inner[2] + bias[2])
        state = update * state + (1 - update) * new
    return state


REDUCTIONS = {
    "attention": _attention,
    "mean": lambda _, items, __: items.mean(axis=0),
    "last": lambda _, items, __: items[-1],
    "gru": _gru,
}


def _wanted(read, rows, reduction):
    table = read[_TABLE]
    known = contents(clicks.job()).statistics["train"].columns["delay"]
    delay = (rows["delay"] - known.mean) / np.sqrt(known.variance)
    found = []
    for n, item in enumerate(rows["item"]):
        items = table[rows["clicked"][n][rows["clicked"][n] >= 0]]
        items = items + read[_PLACES][: len(items)] if _PLACES in read else items
        one = REDUCTIONS[reduction](read, items, table[item]) if len(items) else np.zeros(4)
        found.append(np.concatenate([[delay[n]], table[item], one]))
    x = np.array(found)
    for number in range(2):
        x = np.maximum(_dense(read, f"dnn/hiddenlayer_{number}", x), 0)
    return _sigmoid(_dense(read, "dnn/logits", x)[:, 0])


def _check(found, rows, reduction):
    wanted = _wanted(found.read, rows, reduction)
    np.testing.assert_allclose(found.ask(rows), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", [clicks.FEATURES, clicks.PLACED], ids=["plain", "placed"])
@pytest.mark.parametrize("reduction", ["attention", slow("mean"), slow("last"), slow("gru")])
def test_answers_are_those_of_the_formula(tmp_path, reduction, features):
    rows = clicks.rows()
    job = clicks.job(features, reduction=reduction, hidden_units=[6, 5])
    found = clicks.train(str(tmp_path), job, rows, steps=60)
    assert (_PLACES in found.read) == (features is clicks.PLACED)
    assert np.any(found.read.get(_PLACES, 1))
    _check(found, rows, reduction)
    # Padding may be anywhere, and of any width; an empty list is one of padding alone.
    wide = np.insert(rows["clicked"], [0, 1, 1, 3], -1, axis=1)
    _check(found, {**rows, "clicked": wide}, reduction)
    _check(found, {**rows, "clicked": rows["clicked"][:, :0]}, reduction)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["attention", "gru"])
def test_lists_that_are_all_empty_can_be_learnt_from(tmp_path, reduction):
    rows = clicks.rows(lists=False)
    assert (rows["clicked"] == -1).all()
    job = clicks.job(reduction=reduction, hidden_units=[6, 5])
    _check(clicks.train(str(tmp_path), job, rows, steps=3), rows, reduction)


@pytest.mark.slow
def test_attention_finds_what_the_mean_does_not(tmp_path):
    """Of 6,000 rows, wanted is mostly a candidate of whose group an item was clicked."""
    rng = np.random.default_rng(0)
    item, clicked = rng.integers(0, 28, 6000), rng.integers(0, 28, (6000, 4))
    clicked[::2, 0] = (item[::2] + 7 * rng.integers(0, 4, 3000)) % 28
    clicked = rng.permuted(clicked, axis=1)
    alike = (clicked % 7 == item[:, None] % 7).any(axis=1)
    late = (rng.random(6000) < np.where(alike, 0.9, 0.1)).astype(np.int64)
    rows = {"item": item, "clicked": clicked, "delay": np.zeros(6000, np.float32), "late": late}
    train, test = (
        {n: x[part] for n, x in rows.items()} for part in (slice(4800), slice(4800, 6000))
    )
    areas = {}
    for reduction in ("attention", "mean"):
        job = clicks.job(reduction=reduction, hidden_units=[64])
        folder = str(tmp_path / reduction)
        found = clicks.train(folder, job, train, steps=1500, batch=100, rate=0.02)
        areas[reduction] = metrics.roc_auc_score(test["late"], found.ask(test))
    assert areas["attention"] > areas["mean"] + 0.02, areas
    best = metrics.roc_auc_score(test["late"], alike[4800:])
    assert areas["attention"] - 0.5 > 0.9 * (best - 0.5), areas


@pytest.mark.slow
@pytest.mark.parametrize("features", [clicks.FEATURES, clicks.PLACED], ids=["plain", "placed"])
@pytest.mark.parametrize("reduction", ["attention", "mean", "last", "gru"])
def test_its_keras_model_answers_the_same_saved_and_loaded_again(tmp_path, reduction, features):
    job = clicks.job(features, reduction=reduction, hidden_units=[6, 5])
    rows = clicks.rows()
    found = clicks.train(str(tmp_path / "run"), job, rows, steps=10)
    columns = KerasColumns(found.transforms)
    model = networks.build_model(job.model, columns, Parameters(found.checkpoint))
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    empty = {**rows, "clicked": np.full_like(rows["clicked"], -1)}
    gaps = {**rows, "clicked": rows["clicked"][:, [2, 0, 3, 1]]}
    for given in (rows, empty, gaps):
        fed = columns.prepare_inputs({n: tf.constant(x) for n, x in given.items() if n != "late"})
        answers = loaded(fed)["probabilities"].numpy()[:, 1]
        np.testing.assert_allclose(answers, found.ask(given), rtol=1e-5, atol=1e-6)


def test_params():
    with pytest.raises(errors.UsageError, match=r"din has no such param \(did you mean 'reduct"):
        clicks.job(reducer="mean")
