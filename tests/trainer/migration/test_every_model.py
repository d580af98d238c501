"""Each shipped model from records to its Keras form, which must answer as the model does.

A new model is here by itself, with the params below.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from pipeline.models import MODELS
from tests.support.sets import slow_unless
from tests.trainer import small_table
from tests.trainer.migration.scene import CONFIG, Scene

# Params that a model cannot do without.
PARAMS = {
    "two_tower": {
        "user": ["dep time", "late time", "hour", "size", "words"],
        "item": ["day", "weekday", "carrier", "carriers", "route"],
    },
}
# Other sections of its config.
SETTINGS = {"two_tower": ["eval.metric=average_loss"]}
# `make test` has cases enough; a new model is among them.
SLOW = ("dcn", "deepfm", "dnn", "linear", "mmoe", "mnist_cnn", "two_tower")
# Networks of the user's own are migrated in `test_migration.py`. Sequences are lists, which this
# table has not: `tests/trainer/models/test_din.py`.
HERE = [name for name, kind in MODELS.items() if not (kind.own_network or kind.sequences)]
OF_IMAGES = """
name: images
data:
  source: csv
  inputs: {train: {files: none.csv}}
  columns:
    image: {type: uint8, shape: [28, 28, 1]}
    label: {type: int64, min: 0, max: 9}
  label: label
model: {name: mnist_mlp}
train: {steps: 20, batch_size: 20}
eval: {metric: accuracy, batch_size: 40}
cluster: {strategy: none}
"""


def _images(split):
    rng = np.random.default_rng(len(split))
    return [
        small_table.example(image=bytes(rng.integers(0, 256, 784, np.uint8)), label=n % 10)
        for n in range(small_table.ROWS[split])
    ]


def _scene(folder, name):
    settings = MODELS[name]
    params = dict(PARAMS.get(name, {}))
    if "hidden_units" in settings.model_fields:
        params["hidden_units"] = [8]
    overrides = [f"model={json.dumps({'name': name, 'params': params})}", *SETTINGS.get(name, [])]
    if "image" in settings.inputs:
        return Scene(folder, *overrides, text=OF_IMAGES, made=_images)
    return Scene(folder, *overrides, text=CONFIG)


@pytest.mark.parametrize("name", [slow_unless(name not in SLOW, name) for name in HERE])
def test_its_keras_form_answers_alike(tmp_path, name):
    scene = _scene(tmp_path, name)
    assert scene.publish().rows >= 100
    assert scene.published == ["20"]
