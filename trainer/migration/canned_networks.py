"""Canned Estimators as Keras models, with parameters of a checkpoint.

The names of variables are those that `tf.compat.v1.estimator` and `tf.feature_column` give them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.config import model_config
from pipeline.records.feature_plan import Planned
from trainer.checkpoints.parameters import Parameters
from trainer.input import parsing
from trainer.migration.keras_columns import KerasColumns
from trainer.models import feature_columns, heads

_layers = tf.keras.layers
_LINEAR = "linear/linear_model"
_BIAS = f"{_LINEAR}/bias_weights"
_INPUTS = "dnn/input_from_feature_columns/input_layer"


def linear(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns `linear`."""
    network = _Network(params, columns, parameters)
    return network.model(network.linear(columns.planned))


def dnn(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns `dnn`."""
    network = _Network(params, columns, parameters)
    return network.model(network.dnn(columns.planned))


def dnn_linear_combined(
    params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters
) -> Any:
    """Returns `dnn_linear_combined`."""
    network = _Network(params, columns, parameters)
    deep = network.dnn(feature_columns.of_part(columns.planned, "deep"))
    wide = network.linear(feature_columns.of_part(columns.planned, "wide"))
    return network.model(_layers.Add(name="deep_and_wide")([deep, wide]))


class _Network:
    """A network under construction."""

    def __init__(
        self, params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters
    ) -> None:
        self._params, self._read = params, parameters
        self._units = heads.Head(params).logits_dimension
        self._inputs = {name: spec.input(name) for name, spec in columns.features.items()}
        self._tables: dict[str, Any] = {}

    def model(self, logits: Any) -> Any:
        """Returns the whole, from features to probabilities or a number."""
        last = "linear" if heads.regression(self._params) else "softmax"
        last = "sigmoid" if last == "softmax" and self._units == 1 else last
        offset, scale = heads.scaling(self._params)
        if (offset, scale) != (0.0, 1.0):
            logits = _layers.Rescaling(scale, offset, name="scaled")(logits)
        output = _layers.Activation(last, name="output")(logits)
        return tf.keras.Model(self._inputs, output, name="network")

    def linear(self, chosen: Sequence[Planned]) -> Any:
        """Returns logits: numbers times their weights, and the weights of ids.

        Added up in the order of the canned Estimator, by name and the bias last: in another order
        large terms that cancel each other would leave something else.
        """
        parts: dict[str, Any] = {}
        for name in _numbers(chosen):
            layer = _layers.Dense(self._units, use_bias=False, name=_name(name, "weights"))
            parts[name] = layer(self._number(name))
            layer.set_weights([self._weights(name)])
        for planned in chosen:
            if planned.ids:
                table = self._weights(planned.name)
                parts[planned.name] = self._looked_up(planned, table, "weights", "sum")
        first = self._inputs[min(parts)]
        return _layers.Add(name="wide")(
            [*(parts[name] for name in sorted(parts)), self._bias(first)]
        )

    def _bias(self, x: Any) -> Any:
        """Returns the bias for each example of `x`. No layer has nothing else: it is the one row of
        a table."""
        while x.shape.rank > 1:
            x = x[:, 0]
        layer = _layers.Embedding(1, self._units, name="bias")
        y = layer(_layers.Subtract()([x, x]))
        layer.set_weights([self._read(_BIAS)[np.newaxis]])
        return y

    def _weights(self, name: str) -> np.ndarray:
        return self._read(f"{_LINEAR}/{feature_columns.name_of(name)}/weights").reshape(
            -1, self._units
        )

    def dnn(self, chosen: Sequence[Planned]) -> Any:
        """Returns logits of fully connected layers."""
        names = [name for name in self._params if name != "optimizer"]
        settings = model_config.Dnn.model_validate({name: self._params[name] for name in names})
        x = self._dense(chosen)
        for number, units in enumerate(settings.hidden_units):
            scope = f"dnn/hiddenlayer_{number}"
            hidden = _layers.Dense(units, settings.activation, name=f"hidden{number}")
            x = self._loaded(hidden, x, scope)
            if settings.dropout:
                x = _layers.Dropout(settings.dropout)(x)
            if settings.batch_norm:
                norm = _layers.BatchNormalization(momentum=0.999, name=f"norm{number}")
                x = self._loaded(norm, x, f"{scope}/batchnorm_{number}")
        return self._loaded(_layers.Dense(self._units, name="logits"), x, "dnn/logits")

    def _dense(self, chosen: Sequence[Planned]) -> Any:
        """Returns all features side by side, in the order of `tf.feature_column`: by name."""
        x = {name: self._number(name) for name in _numbers(chosen)}
        for planned in chosen:
            if not planned.ids:
                continue
            if feature_columns.embedding_width(planned):
                name = feature_columns.name_of(feature_columns.table_of(planned))
                table = self._read(f"{_INPUTS}/{name}/embedding_weights")
                vectors = self._looked_up(planned, table, "vectors", planned.feature.combiner)
                x[f"{planned.name}_embedding"] = vectors
            else:
                x[f"{planned.name}_indicator"] = self._counts(planned)
        return _joined([x[name] for name in sorted(x)])

    def _loaded(self, layer: Any, x: Any, scope: str) -> Any:
        y = layer(x)
        self._read.load(layer, scope)
        return y

    def _number(self, name: str) -> Any:
        x = self._inputs[name]
        return _layers.Reshape([1])(x) if x.shape.rank == 1 else _layers.Flatten()(x)

    def _counts(self, planned: Planned) -> Any:
        """Returns how often each id is there."""
        x = self._inputs[planned.name]
        if x.shape.rank == 1:
            return _layers.CategoryEncoding(planned.ids, output_mode="one_hot")(x)
        return tf.reduce_sum(tf.one_hot(x, planned.ids), axis=1)

    def _looked_up(self, planned: Planned, table: np.ndarray, kind: str, combiner: str) -> Any:
        """Returns rows of a table; those of several ids are combined. -1 is no id."""
        x, y = self._inputs[planned.name], self._vectors(planned, table, kind)
        if x.shape.rank == 1:
            return y
        there = tf.cast(x >= 0, tf.float32)
        if combiner == "max":
            count = tf.reduce_sum(there, axis=1, keepdims=True)
            largest = tf.reduce_max(tf.where(there[:, :, tf.newaxis] > 0, y, y.dtype.min), axis=1)
            return tf.where(count > 0, largest, 0.0)
        if planned.weights is not None:
            there = self._inputs[planned.weights.name]
            y = y * there[:, :, tf.newaxis]
        total = tf.reduce_sum(y, axis=1)
        if combiner == "sum":
            return total
        sqrtn = combiner == "sqrtn"
        count = tf.reduce_sum(tf.square(there) if sqrtn else there, axis=1, keepdims=True)
        return tf.math.divide_no_nan(total, tf.sqrt(count) if sqrtn else count)

    def _vectors(self, planned: Planned, table: np.ndarray, kind: str) -> Any:
        """Returns the row of a table for each id, by one layer for all features that share it."""
        x, shared = self._inputs[planned.name], planned.table if kind == "vectors" else None
        # A row of zeros before all others is that of no id.
        padded = planned.kind == "bag" or shared is not None
        name = _name(shared or planned.name, kind)
        layer = self._tables.get(name) if shared else None
        if layer is None:
            layer = _layers.Embedding(len(table) + padded, table.shape[1], name=name)
            self._tables[name] = layer
        y = layer(x + 1 if padded else x)
        rows = np.concatenate([np.zeros_like(table[:1]), table]) if padded else table
        layer.set_weights([rows])
        return y


def _numbers(chosen: Sequence[Planned]) -> list[str]:
    """Returns the features that are numbers, and what says where one was missing."""
    pairs = [(planned.indicator, planned) for planned in chosen]
    indicators = [indicator for indicator, _ in pairs if indicator]
    return indicators + [planned.name for _, planned in pairs if not planned.ids]


def _joined(x: Sequence[Any]) -> Any:
    return x[0] if len(x) == 1 else _layers.Concatenate()(x)


def _name(feature: str, kind: str) -> str:
    """Returns the name of a layer."""
    return parsing.of_op(f"{feature}_{kind}")
