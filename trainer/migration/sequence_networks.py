"""Models of sequences as Keras models, with parameters of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline.config import model_config
from pipeline.records.feature_plan import Planned
from trainer.checkpoints.parameters import Parameters
from trainer.migration import canned_networks
from trainer.migration.canned_networks import Network
from trainer.migration.keras_columns import KerasColumns
from trainer.models import feature_columns, sequences

_layers = tf.keras.layers


def din(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns `din`."""
    network, settings = Network(params, columns, parameters), model_config.settings("din", params)
    chosen = [planned for planned in columns.planned if not planned.feature.sequence]
    inputs = network.inputs(chosen)
    parts = [canned_networks.joined(inputs)] if inputs else []
    rest = [planned for planned in columns.planned if planned.feature.sequence]
    for planned in sorted(rest, key=lambda planned: planned.name):
        parts.append(_reduced(network, planned, settings, inputs=inputs))
    x = parts[0] if len(parts) == 1 else _layers.Concatenate(name="with_sequences")(parts)
    return network.model(network.logits(network.hidden(x, settings), "dnn/logits"))


def _reduced(
    network: Network, planned: Planned, settings: model_config.Din, *, inputs: Mapping[str, Any]
) -> Any:
    ids, vectors = network.sequence(planned)
    sequence = sequences.Sequence(vectors, ids >= 0)
    if settings.reduction == "mean":
        return sequences.mean(sequence)
    if settings.reduction == "last":
        return sequences.last(sequence)
    scope = f"{settings.reduction}/{feature_columns.name_of(planned.name)}"
    if settings.reduction == "gru":
        # No item at all is more than the layer takes; one that does not count changes nothing.
        layer = _layers.GRU(
            vectors.shape[-1], reset_after=False, name=network.layer_name(planned.name, "gru")
        )
        some = tf.pad(vectors, [[0, 0], [1, 0], [0, 0]])
        y = layer(some, mask=tf.pad(sequence.there, [[0, 0], [1, 0]]))
        network.read.load(layer, scope)
        return y
    x = sequences.compared(sequence, inputs[f"{planned.table}_embedding"])
    for number, units in enumerate(settings.attention_units):
        name = network.layer_name(planned.name, f"attention{number}")
        hidden = _layers.Dense(units, "sigmoid", name=name)
        x = network.loaded(hidden, x, f"{scope}/hiddenlayer_{number}")
    last = _layers.Dense(1, name=network.layer_name(planned.name, "attention"))
    weights = network.loaded(last, x, f"{scope}/weights")
    return sequences.weighted(sequence, tf.squeeze(weights, axis=2))
