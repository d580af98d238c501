"""The tables that a launcher expects are those that models make, with their optimizer's slots."""

from __future__ import annotations

import collections

import pytest
import tensorflow as tf

from pipeline.config import model_config
from pipeline.models import MODELS
from pipeline.records import table_sizes
from tests.pipeline.feature_tables import contents, make
from trainer import models, optimizers
from trainer.features.transforms import Transforms

v1 = tf.compat.v1
IDS = {"tail": 901, "seen": 902, "route": 903, "carrier": 4}
FEATURES = {
    "time": {"steps": ["z_score"]},
    "carrier": {"steps": ["vocabulary"], "embedding": 3},
    "tail": {"steps": [{"hash": {"buckets": IDS["tail"]}}], "embedding": 3},
    "seen": {
        "steps": [{"hash": {"buckets": IDS["seen"]}}],
        "embedding": {"size": 3, "position": True},
    },
    "route": {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": IDS["route"]}}]},
}
ITEMS = 7
COLUMNS = {"seen": {"type": "string", "list": True, "max_items": ITEMS}}
# What a model of features cannot do without, and what makes its tables small.
PARAMS = {
    "deepfm": {"factors": 3},
    "din": {"reduction": "mean"},
    "two_tower": {"user": ["time", "seen"], "item": ["carrier", "tail", "route"]},
}
NAMES = [name for name, settings in MODELS.items() if settings.of_features]


def _job(name, optimizer, **others):
    features = {key: {**one, **others.get(key, {})} for key, one in FEATURES.items()}
    sections = {}
    if name == "din":
        features["seen"]["embedding"] = {"size": 3, "position": True, "sequence": True}
    if name == "two_tower":
        features["route"] = {"of": "tail", "steps": [{"hash": {"buckets": IDS["route"]}}]}
        sections["eval"] = {"metric": "average_loss"}
    return make(
        features,
        {"threshold": 1},
        columns=COLUMNS,
        model={"name": name, "params": PARAMS.get(name, {})},
        train={"steps": 1, "optimizer": {"name": optimizer}},
        **sections,
    )


def _made(job):
    """Returns how many variables there are of each table, by rows and width; and of layers."""
    transforms = Transforms(job, contents(job))
    rows = {
        **{name: tf.constant(["a", "b"]) for name in ("carrier", "tail", "origin")},
        **{"time": tf.constant([1, 2], tf.int64), "late": tf.constant([1, 2], tf.int64)},
        "seen": tf.constant([["a", "b", ""], ["", "", ""]]),
    }
    with tf.Graph().as_default():
        given = {name: tf.constant(x.numpy()) for name, x in rows.items()}
        given = {n: x for n, x in given.items() if n in transforms.columns}
        features, label = transforms.examples(given, training=True)
        how = optimizers.Updates(job.train.optimizer.name, 0.1)
        params = {**model_config.params(job.model), "optimizer": how, "top_k": 2}
        config = tf.estimator.RunConfig("unused")
        model = models.build_model(job.model.name, params, config, transforms=transforms)
        model.model_fn(features=features, labels=label, mode="train", config=config)
        made = [variable for variable in v1.global_variables() if variable.shape.rank == 2]
    tables, layers = collections.Counter(), collections.Counter()
    for variable in made:
        shape = tuple(variable.shape.as_list())
        if "kernel" in variable.name:
            layers[shape] += 1
        elif shape[0] in (*IDS.values(), ITEMS):
            tables[shape] += 1
    return tables, layers


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        *((name, "adam") for name in NAMES),
        *(("dnn", other) for other in ("dense_adam", "sgd", "momentum", "adagrad", "ftrl")),
    ],
)
def test_they_are_those_of_the_graph(name, optimizer):
    job = _job(name, optimizer)
    wanted = collections.Counter()
    for table in table_sizes.find_tables(job, contents(job)):
        wanted[table.rows, table.width] += 1 + job.train.optimizer.slots
    assert _made(job)[0] == wanted, (
        f"tables of {name}: say which it has in `table_parts` of its settings in pipeline/models/, "
        "how wide vectors are in `vector_width`"
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("linear", "deepfm")])
def test_layers_are_those_of_the_graph(name):
    """As far as they are known: numbers, and what says that one is missing, are not counted."""
    job = _job(name, "adam", tail={"embedding": "one_hot"})
    found = table_sizes.find_layers(job, contents(job))
    made = collections.Counter(_made(job)[1])
    several = 1 + job.train.optimizer.slots
    assert found
    for (rows, width), count in collections.Counter((t.rows, t.width) for t in found).items():
        alike = [shape for shape in made if rows <= shape[0] <= rows + 3 and width <= shape[1]]
        assert sum(made[shape] for shape in alike) >= count * several, (
            f"layers of {name}: say which get all features in `layer_shapes` of its settings in "
            "pipeline/models/"
        )
