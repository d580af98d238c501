"""The two towers as a Keras model, with parameters of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline.config import model_config, towers
from trainer.checkpoints.parameters import Parameters
from trainer.migration import canned_networks
from trainer.migration.canned_networks import Network
from trainer.migration.keras_columns import KerasColumns
from trainer.models.two_tower import SCORE, score, vector


def two_tower(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns `two_tower`."""
    network, settings = (
        Network(params, columns, parameters),
        model_config.settings("two_tower", params),
    )
    vectors = {}
    for side, planned in towers.sides(params, columns.planned).items():
        x = canned_networks.joined(network.inputs(planned))
        x = network.stack(x, settings.hidden_units, settings, scope=side)
        last = tf.keras.layers.Dense(settings.size, name=f"{side}_vector")
        x = network.loaded(last, x, f"{side}/vector")
        vectors[side] = vector(x, normalize=settings.normalize)
    scores = score(vectors[towers.USER], vectors[towers.ITEM])
    return network.model_of({SCORE: scores, **vectors})
