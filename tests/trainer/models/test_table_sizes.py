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
COLUMNS = {"seen": {"type": "string", "list": True, "max_items": 3}}
# What a model of features cannot do without, and what makes its tables small.
PARAMS = {
    "deepfm": {"factors": 3},
    "din": {"reduction": "mean"},
    "two_tower": {"user": ["time", "seen"], "item": ["carrier", "tail", "route"]},
}
NAMES = [name for name, settings in MODELS.items() if settings.of_features]


def _job(name, optimizer):
    features = {key: dict(one) for key, one in FEATURES.items()}
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
    """Returns how many variables there are of each table, by rows and width."""
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
        made = [v for v in v1.global_variables() if "kernel" not in v.name and v.shape.rank == 2]
    shapes = [tuple(variable.shape.as_list()) for variable in made]
    return collections.Counter(shape for shape in shapes if shape[0] in IDS.values())


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
    assert _made(job) == wanted, (
        f"tables of {name}: say which it has in `table_parts` of its settings in pipeline/models/, "
        "how wide vectors are in `vector_width`"
    )
