"""Rows with the items that a user has clicked, and `din` trained on them in no time."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config
from pipeline.config import model_config
from tests.pipeline.feature_tables import contents, make
from trainer import model_function, models, optimizers
from trainer.checkpoints import table_saver
from trainer.distribution import placement
from trainer.export import serving_graph
from trainer.features.transforms import Transforms

ROWS, ITEMS = 200, 30
COLUMNS = {
    "item": {"type": "int64"},
    "clicked": {"type": "int64", "list": True, "max_items": 4},
}
FEATURES: dict[str, Any] = {
    "delay": {"steps": [{"missing": {"fill": "mean"}}, "z_score"]},
    "item": {"steps": [{"identity": {"ids": ITEMS}}], "embedding": 4},
    "clicked": {
        "steps": [{"identity": {"ids": ITEMS}}],
        "embedding": {"table": "item", "sequence": True},
    },
}
# The same, with vectors of places in the list.
PLACED: dict[str, Any] = copy.deepcopy(FEATURES)
PLACED["clicked"]["embedding"]["position"] = True
Rows = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Trained:
    """The variables of a checkpoint, the probability of 1 that the exported model gives for rows,
    and what is needed for other models of that checkpoint."""

    checkpoint: str
    transforms: Transforms
    read: dict[str, np.ndarray]
    ask: Callable[[Rows], np.ndarray]


def rows(*, lists: bool = True) -> Rows:
    """Returns rows that are late if their item was clicked. Every fourth list is empty; all are
    without `lists`."""
    rng = np.random.default_rng(1)
    item = rng.integers(0, ITEMS - 1, ROWS)
    clicked = rng.integers(0, ITEMS - 1, (ROWS, 4))
    clicked[::2, 1] = item[::2]
    lengths = np.arange(ROWS) % 4 * (2 if lists else 0)
    clicked[np.arange(4)[None] >= lengths[:, None]] = -1
    late = (clicked == item[:, None]).any(axis=1).astype(np.int64)
    delay = rng.normal(10, 5, ROWS).astype(np.float32)
    return {"item": item, "clicked": clicked, "delay": delay, "late": late}


def job(features: dict[str, Any] | None = None, **params: Any) -> config.Config:
    """Returns a config of `din`."""
    model = {"name": "din", "params": params}
    return make(features or FEATURES, columns=COLUMNS, model=model)


def train(
    folder: str, of: config.Config, given: Rows, *, steps: int, batch: int = 0, rate: float = 0.05
) -> Trained:
    """Trains with the table in two parts, in batches of all rows or of so many."""
    model_function.seed(of)
    transforms = Transforms(of, contents(of))
    run = tf.estimator.RunConfig(folder, tf_random_seed=1)
    params = {**model_config.params(of.model), "optimizer": optimizers.Updates("adam", rate)}
    model = models.build_model(of.model.name, params, run, transforms=transforms)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with placement.cut(2 if mode == "train" else 1, largest=60):
            spec = model.model_fn(features=features, labels=labels, mode=mode, config=run)
        if mode == "train":
            table_saver.use(run)
        return spec

    def input_fn() -> Any:
        data = tf.data.Dataset.from_tensor_slices(given).batch(batch or len(given["late"]))
        return data.repeat().map(lambda some: transforms.examples(some, training=True))

    estimator = tf.estimator.Estimator(model_fn, config=run)
    estimator.train(input_fn, steps=steps)
    receiver = serving_graph.build_serving_input_fn(transforms)
    path = estimator.export_saved_model(f"{folder}/export", receiver).decode()
    loaded = tf.saved_model.load(path)

    def ask(asked: Rows) -> np.ndarray:
        fed = {name: tf.constant(x) for name, x in asked.items() if name != "late"}
        answers: np.ndarray = loaded.signatures["serving_default"](**fed)["probabilities"].numpy()
        return answers[:, 1]

    read = {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}
    read = {name: x for name, x in read.items() if "Adam" not in name}
    return Trained(estimator.latest_checkpoint(), transforms, read, ask)
