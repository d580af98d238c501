"""Columns and features of any name that a config takes, through a whole migration."""

from __future__ import annotations

import json
import keyword

import numpy as np
import pytest
import tensorflow as tf

from pipeline.config import feature_check
from tests.support.sets import matrix, slow
from tests.trainer import small_table
from tests.trainer.migration.scene import Scene

# Arguments of functions on the way: of NumPy, of Keras' layers and models, of TensorFlow's.
ARGUMENTS = [
    "file",
    "args",
    "kwds",
    "allow_pickle",
    "self",
    "cls",
    "x",
    "y",
    "name",
    "inputs",
    "input",
    "call",
    "training",
    "mask",
    "dtype",
    "shape",
    "signature",
    "serialized",
    "examples",
    "columns",
    "tensors",
    "tensor",
    "structure",
    "allow_list",
    "default",
    "kwargs",
]
# Layers of the models that are made, and what Keras calls its own.
LAYERS = [
    "model",
    "network",
    "output",
    "output0",
    "logits",
    "wide",
    "bias",
    "hidden0",
    "norm0",
    "a",
    "a_weights",
    "a_vectors",
    "a_input",
    "a_input_input",
    "input_1",
    "dense",
    "tf.stack",
    "tf.math.subtract",
    "concatenate",
    "class",
    "probabilities",
    "label",
    "weight",
    "features",
    "step",
    "keras",
    "serving_default",
    "None",
    "True",
    "__init__",
    "_",
]
ODD = [
    "A",
    "Name",
    "NAME",
    "FILE",
    "a b!",
    "A B?",
    "ab ",
    " ab",
    "  ",
    "é",
    "É",
    "价格",
    "数量",
    "🙂",
]
ODD += ["2020", "1e5", "0", "-1", "a/b/c", "a:0", "^a", "a-b-", "a.b.", "$x", "%s", "{x}", "x=1"]
ODD += ["'quoted'", '"double"', "back\\slash", "tab\tand\nline", "long" * 200]
# Of names that TensorFlow takes for the same, a config takes one.
EVERY = list(
    {
        feature_check.make_argument_name(n): n for n in [*keyword.kwlist, *ARGUMENTS, *LAYERS, *ODD]
    }.values()
)
LABEL = "the label"


def _config(names, categories, model):
    columns = {name: {"type": "float32", "missing": "drop"} for name in names}
    features = {name: {"steps": []} for name in names}
    for name in categories:
        columns[name] = {"type": "string", "missing": "drop"}
        features[name] = {"steps": [{"hash": {"buckets": 5 if len(name) % 2 else 10}}]}
    columns[LABEL] = {"type": "int64", "min": 0, "max": 1}
    return {
        "name": "table",
        "data": {
            "source": "csv",
            "inputs": {"train": {"files": "none.csv"}},
            "columns": columns,
            "label": LABEL,
        },
        "features": features,
        "model": model,
        "train": {"steps": 2, "batch_size": 20},
        "eval": {"metric": "accuracy", "batch_size": 40},
        "cluster": {"strategy": "none"},
    }


def _example(names, categories, rng):
    drawn = {name: float(rng.normal()) for name in names}
    values = {name: small_table.feature([x]) for name, x in drawn.items()}
    values |= {n: small_table.feature(b"a" if drawn[n] > 0 else b"b") for n in categories}
    values[LABEL] = small_table.feature(int(sum(drawn.values()) > 0))
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


def _migrated(folder, names, categories, model):
    """Migrates a model of names, all numbers but for the categories, and asks it for one row."""

    def made(split):
        rng = np.random.default_rng(len(split))
        return [_example(names, categories, rng) for _ in range(small_table.ROWS[split])]

    text = json.dumps(_config(names, categories, model), ensure_ascii=False)
    found = Scene(folder, text=text, made=made).publish()
    assert found.rows >= 100
    loaded = tf.keras.models.load_model(f"{found.path}/model.keras")
    assert set(loaded.input) == set(names)
    row = {n: tf.constant(["a"]) if n in categories else tf.constant([0.5]) for n in names}
    assert loaded(row)["probabilities"].shape == (1, 2)


MODELS = {
    "linear": {"name": "linear"},
    "dnn": {"name": "dnn", "params": {"hidden_units": [4]}},
}


@pytest.mark.parametrize(("model", "every"), [("dnn", 4), slow("dnn", 1), matrix("linear", 1)])
def test_all_names_at_once(tmp_path, model, every):
    """In `make test`, each fourth name."""
    names = EVERY[::every]
    _migrated(tmp_path, names, names[::2], MODELS[model])


@pytest.mark.parametrize("name", [slow("y"), "file", slow("network"), "back\\slash"])
def test_the_only_feature(tmp_path, name):
    """As a category, too: Keras' one-hot encoding takes a batch of one row for a single example."""
    _migrated(tmp_path, [name], [], MODELS["dnn"])
    (tmp_path / "category").mkdir()
    _migrated(tmp_path / "category", [name], [name], MODELS["dnn"])
