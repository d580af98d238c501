"""`deepfm` and `dcn` against their formulas in NumPy, with tables in parts, lists and weights."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.config import model_config
from tests.pipeline.feature_tables import contents, make
from tests.support.sets import slow
from trainer import models, optimizers
from trainer.checkpoints import table_saver
from trainer.distribution import placement
from trainer.export import serving_graph
from trainer.features.transforms import Transforms

ROWS = 200
COLUMNS = {
    "flown": {"type": "string", "list": True, "max_items": 3},
    "miles": {
        **{"type": "float32", "list": True, "max_items": 3},
        **{"min": 0, "same_length_as": "flown"},
    },
}
FEATURES = {
    "delay": {"steps": [{"missing": {"fill": "mean", "indicator": True}}, "z_score"]},
    "carrier": {"steps": ["vocabulary"], "embedding": 4},
    "flown": {
        "steps": [{"vocabulary": {"of": "carrier"}}],
        "embedding": {
            **{"table": "carrier", "combiner": "sqrtn", "weights": "miles"},
            "position": True,
        },
    },
    "tail": {"steps": [{"hash": {"buckets": 9, "functions": 2}}], "embedding": {"size": 4}},
}
MODELS = {
    "deepfm": {"factors": 4, "hidden_units": [6, 5]},
    "dcn": {"hidden_units": [6, 5], "classes": 3, "rank": 2, "cross_layers": 2},
    "dcn of numbers": {"hidden_units": [6], "task": "regression", "offset": 3, "scale": 2},
}
_INPUTS = "dnn/input_from_feature_columns/input_layer"
_PLACES = f"{_INPUTS}/flown_embedding/position_weights"


def _rows():
    rng = np.random.default_rng(1)
    carrier = rng.choice(["UA", "AA", "??"], ROWS)
    delay = rng.normal(10, 5, ROWS).astype(np.float32)
    delay[::17] = np.nan
    flown = np.array(
        [[name, "DL", "né"][: n % 4] + [""] * (3 - n % 4) for n, name in enumerate(carrier)]
    )
    miles = np.where(flown == "", np.nan, rng.integers(0, 3, flown.shape)).astype(np.float32)
    late = (carrier == "UA").astype(np.int64)
    tail = rng.choice(["N1", "", "é"], ROWS)
    rows = {"carrier": carrier, "delay": delay, "flown": flown, "miles": miles, "tail": tail}
    return {**rows, "late": late}


def _job(name, params, features=None):
    model = {"name": name, "params": params}
    return make(features or FEATURES, columns=COLUMNS, model=model)


@pytest.fixture(scope="module", params=["deepfm", "dcn", slow("dcn of numbers")])
def trained(request, tmp_path_factory):
    """Returns the name, the variables of the checkpoint, the features of the rows and what the
    exported model answers; trained with all tables in two parts."""
    name, params = request.param.partition(" ")[0], MODELS[request.param]
    job, folder = _job(name, params), str(tmp_path_factory.mktemp(name))
    transforms = Transforms(job, contents(job))
    config = tf.estimator.RunConfig(folder, tf_random_seed=1)
    given = {**model_config.params(job.model), "optimizer": optimizers.Updates("adam", 0.05)}
    model = models.build_model(name, given, config, transforms=transforms)
    cuts = []

    def model_fn(features, labels, mode):
        with placement.cut(2 if mode == "train" else 1, largest=40):
            spec = model.model_fn(features=features, labels=labels, mode=mode, config=config)
        if mode == "train":
            table_saver.use(config)
        made = tf.compat.v1.trainable_variables()
        infos = [variable._get_save_slice_info() for variable in made]
        cuts.append({info.full_name for info in infos if info is not None})
        return spec

    def input_fn():
        data = tf.data.Dataset.from_tensors(_rows()).repeat()
        return data.map(lambda rows: transforms.examples(rows, training=True))

    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(input_fn, steps=20)
    tables = {f"{_INPUTS}/{table}_embedding/embedding_weights" for table in ("carrier", "tail")}
    assert {*tables, _PLACES} <= cuts[0]
    receiver = serving_graph.build_serving_input_fn(transforms)
    path = estimator.export_saved_model(f"{folder}/export", receiver).decode()
    fed = {column: tf.constant(values) for column, values in _rows().items() if column != "late"}
    answers = tf.saved_model.load(path).signatures["serving_default"](**fed)
    read = {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}
    made = {name: x.numpy() for name, x in transforms.features(fed).items()}
    return request.param, read, made, {key: x.numpy() for key, x in answers.items()}


def _vectors(table, ids, combiner, weights=None, *, places=None):
    found = []
    for n, row in enumerate(ids):
        kept = row >= 0
        by = np.ones(kept.sum()) if weights is None else weights[n][kept]
        vectors = table[row[kept]]
        total = by @ (vectors if places is None else vectors + places[: kept.sum()])
        norm = by.sum() if combiner == "mean" else np.sqrt(np.square(by).sum())
        found.append(total / norm if combiner != "sum" and norm else total)
    return np.array(found)


def _inputs(read, x):
    """Returns the vectors of ids by feature, and all features side by side."""
    tables = {n: read[f"{_INPUTS}/{n}_embedding/embedding_weights"] for n in ("carrier", "tail")}
    vectors = {
        "carrier": tables["carrier"][x["carrier"]],
        "flown": _vectors(
            tables["carrier"],
            x["flown"],
            "sqrtn",
            x["flown_item_weights"],
            places=read[_PLACES],
        ),
        "tail": _vectors(tables["tail"], x["tail"], "mean"),
    }
    numbers = {name: x[name][:, None] for name in ("delay", "delay_missing")}
    every = {**vectors, **numbers}
    return vectors, np.concatenate([every[name] for name in sorted(every)], axis=1)


def _dense(read, scope, x):
    return x @ read[f"{scope}/kernel"] + read.get(f"{scope}/bias", 0)


def _hidden(read, x):
    for number in range(sum(name.endswith("kernel") and "/hiddenlayer" in name for name in read)):
        x = np.maximum(_dense(read, f"dnn/hiddenlayer_{number}", x), 0)
    return x


def _deepfm(read, x):
    vectors, wide = _inputs(read, x)
    weights = {
        name: read[f"linear/linear_model/{name}/weights"]
        for name in x
        if f"linear/linear_model/{name}/weights" in read
    }
    first = read["linear/linear_model/bias_weights"] + sum(
        x[name][:, None] * weights[name] for name in ("delay", "delay_missing")
    )
    first = first + weights["carrier"][x["carrier"]]
    first = first + _vectors(weights["flown"], x["flown"], "sum", x["flown_item_weights"])
    first = first + _vectors(weights["tail"], x["tail"], "sum")
    a, b, c = vectors.values()
    second = (a * b + a * c + b * c).sum(axis=1, keepdims=True)
    return first + second + _dense(read, "dnn/logits", _hidden(read, wide))


def _dcn(read, x):
    _, start = _inputs(read, x)
    crossed, number = start, 0
    while f"cross/layer_{number}/full/kernel" in read:
        y, scope = crossed, f"cross/layer_{number}"
        if f"{scope}/reduced/kernel" in read:
            y = _dense(read, f"{scope}/reduced", y)
        crossed, number = start * _dense(read, f"{scope}/full", y) + crossed, number + 1
    assert number in (2, 3)
    return _dense(read, "logits", np.concatenate([crossed, _hidden(read, start)], axis=1))


def test_answers_are_those_of_the_formula(trained):
    name, read, x, answers = trained
    read = {key: value for key, value in read.items() if "Adam" not in key}
    logits = _deepfm(read, x) if name == "deepfm" else _dcn(read, x)
    if name == "dcn of numbers":
        np.testing.assert_allclose(
            answers["prediction"], 3 + 2 * logits[:, 0], rtol=1e-4, atol=1e-4
        )
        return
    if name == "deepfm":
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(answers["probabilities"], wanted, rtol=1e-4, atol=1e-5)
    assert (answers["class"] == _rows()["late"]).mean() > 0.9


@pytest.mark.parametrize(
    ("features", "params", "message"),
    [
        (
            {"carrier": {"steps": ["vocabulary"], "embedding": 5}},
            {},
            r"features\.carrier\.embedding: is 5, and deepfm needs vectors of one width, "
            r"model\.params\.factors: 8; leave it out, or change one of them",
        ),
        (
            {"carrier": {"steps": ["vocabulary"], "embedding": "one_hot"}},
            {},
            "is one_hot, and deep",
        ),
        ({"time": {"steps": ["z_score"]}}, {}, r"no feature is ids; use model\.name: dnn"),
        ({}, {"classes": 3}, r"model\.params: deepfm predicts one of two classes or a number, got"),
        ({}, {"factor": 3}, r"deepfm has no such param \(did you mean 'factors'\?\)"),
    ],
)
def test_what_deepfm_cannot_be_made_of(features, params, message):
    """By the config alone, before anything starts."""
    with pytest.raises(errors.UsageError, match=message):
        _job("deepfm", params, features)
