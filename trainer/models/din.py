"""`din`: a network for rows with sequences, such as the items a user has clicked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline.config import feature_check
from pipeline.models.din import Din
from pipeline.records.feature_plan import Planned
from trainer.checkpoints.parameters import Parameters
from trainer.features import feature_columns, sequences
from trainer.features.transforms import Transforms
from trainer.networks import keras_network
from trainer.networks.keras_columns import KerasColumns
from trainer.networks.keras_network import KerasNetwork
from trainer.networks.network import Network

_layers = tf.keras.layers
v1 = tf.compat.v1


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Attention over the clicked items, of the candidate: Zhou et al., Deep interest network for
    click-through rate prediction, 2018. As there, the weights of the items are not normalized, so
    that the sum is the larger the more of them are like the candidate."""
    return _Din(params, Din.of(params), transforms)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    built, settings = KerasNetwork(params, columns, parameters), Din.of(params)
    chosen = [planned for planned in columns.planned if not planned.feature.sequence]
    inputs = built.inputs(chosen)
    parts = [keras_network.join_features(inputs)] if inputs else []
    rest = [planned for planned in columns.planned if planned.feature.sequence]
    for planned in sorted(rest, key=lambda planned: planned.name):
        parts.append(_reduce_in_keras(built, planned, settings, inputs=inputs))
    x = parts[0] if len(parts) == 1 else _layers.Concatenate(name="with_sequences")(parts)
    return built.model(built.logits(built.build_hidden(x, settings), "dnn/logits"))


def _reduce_in_keras(
    built: KerasNetwork, planned: Planned, settings: Din, *, inputs: Mapping[str, Any]
) -> Any:
    ids, vectors = built.sequence(planned)
    sequence = sequences.Sequence(vectors, ids >= 0)
    if settings.reduction == "mean":
        return sequences.mean(sequence)
    if settings.reduction == "last":
        return sequences.take_last(sequence)
    scope = f"{settings.reduction}/{feature_check.make_plain_name(planned.name)}"
    if settings.reduction == "gru":
        # No item at all is more than the layer takes; one that does not count changes nothing.
        layer = _layers.GRU(
            vectors.shape[-1], reset_after=False, name=built.name_layer(planned.name, "gru")
        )
        some = tf.pad(vectors, [[0, 0], [1, 0], [0, 0]])
        y = layer(some, mask=tf.pad(sequence.there, [[0, 0], [1, 0]]))
        built.read.load(layer, scope)
        return y
    x = sequences.compare(sequence, inputs[f"{planned.table}_embedding"])
    for number, units in enumerate(settings.attention_units):
        name = built.name_layer(planned.name, f"attention{number}")
        hidden = _layers.Dense(units, "sigmoid", name=name)
        x = built.load_layer(hidden, x, f"{scope}/hiddenlayer_{number}")
    last = _layers.Dense(1, name=built.name_layer(planned.name, "attention"))
    weights = built.load_layer(last, x, f"{scope}/weights")
    return sequences.sum_weighted(sequence, tf.squeeze(weights, axis=2))


class _Din(Network):
    def __init__(self, params: Mapping[str, Any], settings: Din, transforms: Transforms) -> None:
        super().__init__(params, settings, transforms)
        every = self._planned
        self._sequences = [planned for planned in every if planned.feature.sequence]
        self._planned = [planned for planned in every if not planned.feature.sequence]
        self._reduction, self._attention_units = settings.reduction, settings.attention_units

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        parts, vectors = [], dict[str, Any]()
        if self._planned:
            x, by_column = self._build_inputs(features)
            parts = [x]
            vectors = {feature_columns.name_scope(c.name): v for c, v in by_column.items()}
        for planned in sorted(self._sequences, key=lambda planned: planned.name):
            parts.append(self._reduce(planned, features, vectors))
        hidden = self._build_hidden(tf.concat(parts, axis=1), training=training)
        with v1.variable_scope("dnn"):
            return v1.layers.dense(hidden, self._head.logits_dimension, name="logits")

    def _reduce(
        self, planned: Planned, features: Mapping[str, Any], vectors: Mapping[str, Any]
    ) -> Any:
        """Returns one vector of a sequence, `[batch, size]`."""
        name = feature_check.make_plain_name(planned.name)
        size = feature_columns.choose_embedding_width(planned)
        table = feature_columns.name_scope(feature_columns.name_table(planned))
        with v1.variable_scope("dnn/input_from_feature_columns/input_layer"):
            sequence = sequences.look_up(features[name], (planned.ids or 0, size), table)
            if planned.positions is not None:
                scope = feature_columns.name_position_scope(planned)
                sequence = sequences.add_positions(sequence, planned.positions, scope)
        with v1.variable_scope(f"{self._reduction}/{name}"):
            if self._reduction == "mean":
                return sequences.mean(sequence)
            if self._reduction == "last":
                return sequences.take_last(sequence)
            if self._reduction == "gru":
                return sequences.gru(sequence)
            x = sequences.compare(sequence, vectors[table])
            for number, units in enumerate(self._attention_units):
                x = v1.layers.dense(x, units, tf.sigmoid, name=f"hiddenlayer_{number}")
            weights = v1.layers.dense(x, 1, name="weights")
            return sequences.sum_weighted(sequence, tf.squeeze(weights, axis=2))
