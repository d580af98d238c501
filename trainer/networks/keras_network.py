"""Networks of the features of a config as Keras models, with parameters of a checkpoint.

The names of variables are those that `trainer.networks.network` and the canned Estimators give
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.config import feature_check, model_config
from pipeline.models.base import HiddenLayers, Layers
from pipeline.models.dnn import Dnn
from pipeline.records.feature_plan import Planned
from trainer.checkpoints.parameters import Parameters
from trainer.features import feature_columns, packing, positions
from trainer.features.names import name_ops
from trainer.heads import heads
from trainer.networks import keras_columns
from trainer.networks.keras_columns import KerasColumns

_layers = tf.keras.layers
_LINEAR = "linear/linear_model"
_BIAS = f"{_LINEAR}/bias_weights"
_INPUTS = "dnn/input_from_feature_columns/input_layer"


class KerasNetwork:
    """A network under construction."""

    def __init__(
        self, params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters
    ) -> None:
        self._params, self.read = params, parameters
        self._units = heads.Head(params).logits_dimension
        features = columns.features
        self._given = keras_columns.build_inputs(keras_columns.pack_inputs(features))
        self._inputs = keras_columns.choose_packing(features).unpack(self._given)
        self._tables: dict[str, Any] = {}
        tables = [planned.table for planned in columns.planned if planned.table]
        self._names = name_ops(dict.fromkeys([*features, *tables]))

    def model(self, logits: Any) -> Any:
        """Returns the whole, from features to probabilities or a number; of several labels, to
        those of each."""
        goals = self._params.get(model_config.GOALS)
        if goals is None:
            return tf.keras.Model(
                self._given, self._build_output(logits, self._params), name="network"
            )
        outputs, first = [], 0
        for number, params in enumerate(goals.values()):
            last = first + heads.count_logits(params)
            outputs.append(self._build_output(logits[:, first:last], params, str(number)))
            first = last
        return tf.keras.Model(self._given, outputs, name="network")

    def wrap_outputs(self, outputs: Mapping[str, Any]) -> Any:
        """Returns the whole, from features to answers by name."""
        return tf.keras.Model(self._given, dict(outputs), name="network")

    def _build_output(self, logits: Any, params: Mapping[str, Any], number: str = "") -> Any:
        last = "linear" if heads.is_regression(params) else "softmax"
        last = "sigmoid" if last == "softmax" and heads.count_logits(params) == 1 else last
        offset, scale = heads.get_scaling(params)
        if (offset, scale) != (0.0, 1.0):
            logits = _layers.Rescaling(scale, offset, name=f"scaled{number}")(logits)
        if (added := heads.compute_offsets(params)) is not None:
            logits = _layers.Rescaling(1.0, added, name=f"of_all_rows{number}")(logits)
        return _layers.Activation(last, name=f"output{number}")(logits)

    def linear(self, chosen: Sequence[Planned]) -> Any:
        """Returns logits: numbers times their weights, and the weights of ids.

        Added up in the order of the canned Estimator, by name and the bias last: in another order
        large terms that cancel each other would leave something else.
        """
        parts: dict[str, Any] = {}
        for name in _list_numbers(chosen):
            layer = _layers.Dense(
                self._units, use_bias=False, name=self.name_layer(name, "weights")
            )
            parts[name] = layer(_flatten(self._inputs[name]))
            layer.set_weights([self._read_weights(name)])
        for planned in chosen:
            if planned.ids:
                table = self._read_weights(planned.name)
                parts[planned.name] = self._look_up(planned, table, "weights", combiner="sum")
        first = self._inputs[min(parts)]
        return _layers.Add(name="wide")(
            [
                *(parts[name] for name in sorted(parts, key=feature_check.make_plain_name)),
                self._build_bias(first),
            ]
        )

    def _build_bias(self, x: Any) -> Any:
        """Returns the bias for each example of `x`. No layer has nothing else: it is the one row of
        a table."""
        while x.shape.rank > 1:
            x = x[:, 0]
        layer = _layers.Embedding(1, self._units, name="bias")
        y = layer(_layers.Subtract()([x, x]))
        layer.set_weights([self.read(_BIAS)[np.newaxis]])
        return y

    def _read_weights(self, name: str) -> np.ndarray:
        return self.read(f"{_LINEAR}/{feature_columns.name_scope(name)}/weights").reshape(
            -1, self._units
        )

    def dnn(self, chosen: Sequence[Planned]) -> Any:
        """Returns logits of fully connected layers."""
        settings = Dnn.of(self._params)
        return self.logits(
            self.build_hidden(join_features(self.inputs(chosen)), settings), "dnn/logits"
        )

    def build_hidden(self, x: Any, settings: Layers) -> Any:
        """Returns the last of the fully connected layers on `x`."""
        for number, units in enumerate(settings.hidden_units):
            scope = f"dnn/hiddenlayer_{number}"
            hidden = _layers.Dense(units, settings.activation, name=f"hidden{number}")
            x = self.load_layer(hidden, x, scope)
            if settings.dropout:
                x = _layers.Dropout(settings.dropout)(x)
            if isinstance(settings, Dnn) and settings.batch_norm:
                norm = _layers.BatchNormalization(momentum=0.999, name=f"norm{number}")
                x = self.load_layer(norm, x, f"{scope}/batchnorm_{number}")
        return x

    def stack(self, x: Any, units: Sequence[int], settings: HiddenLayers, *, scope: str) -> Any:
        """Returns the last of some fully connected layers on `x`, whose parameters are in a
        scope."""
        for number, width in enumerate(units):
            name = f"{scope.rpartition('/')[2]}_hidden{number}"
            layer = _layers.Dense(width, settings.activation, name=name)
            x = self.load_layer(layer, x, f"{scope}/hiddenlayer_{number}")
            if settings.dropout:
                x = _layers.Dropout(settings.dropout)(x)
        return x

    def logits(self, x: Any, scope: str) -> Any:
        """Returns the last layer."""
        return self.load_layer(_layers.Dense(self._units, name="logits"), x, scope)

    def inputs(self, chosen: Sequence[Planned]) -> dict[str, Any]:
        """Returns all features, by what `tf.feature_column` calls them: `[batch, width]` each, or
        `[batch]` numbers."""
        x = {name: self._inputs[name] for name in _list_numbers(chosen)}
        counted: dict[int, list[Planned]] = {}
        for planned in chosen:
            if not planned.ids:
                continue
            if feature_columns.choose_embedding_width(planned):
                combiner = planned.feature.combiner
                vectors = self._look_up(
                    planned, self._read_table(planned), "vectors", combiner=combiner
                )
                x[f"{planned.name}_embedding"] = vectors
            elif self._inputs[planned.name].shape.rank == 1:
                counted.setdefault(planned.ids, []).append(planned)
            else:
                # How often each id is there.
                hot = tf.one_hot(self._inputs[planned.name], planned.ids)
                x[f"{planned.name}_indicator"] = tf.reduce_sum(hot, axis=1)
        for ids, alike in counted.items():
            # One layer for all the features of as many ids.
            hot = tf.one_hot(_stack([self._inputs[planned.name] for planned in alike]), ids)
            for planned, one in zip(alike, tf.unstack(hot, len(alike), axis=1), strict=True):
                x[f"{planned.name}_indicator"] = one
        return x

    def sequence(self, planned: Planned) -> tuple[Any, Any]:
        """Returns the ids of a list, `[batch, items]`, and their vectors, zeros where -1 is no id:
        `[batch, items, width]`."""
        return self._inputs[planned.name], self._build_vectors(
            planned, self._read_table(planned), "vectors"
        )

    def name_layer(self, feature: str, kind: str) -> str:
        """Returns the name of the layer of a kind that is for a feature, or a table, alone."""
        return f"{self._names[feature]}_{kind}"

    def _read_table(self, planned: Planned) -> np.ndarray:
        name = feature_columns.name_scope(feature_columns.name_table(planned))
        return self.read(f"{_INPUTS}/{name}/embedding_weights")

    def load_layer(self, layer: Any, x: Any, scope: str) -> Any:
        """Returns what a layer makes of `x`, with the parameters of a scope."""
        y = layer(x)
        self.read.load(layer, scope)
        return y

    def _look_up(self, planned: Planned, table: np.ndarray, kind: str, *, combiner: str) -> Any:
        """Returns rows of a table; those of several ids are combined. -1 is no id."""
        x, y = self._inputs[planned.name], self._build_vectors(planned, table, kind)
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

    def _build_vectors(self, planned: Planned, table: np.ndarray, kind: str) -> Any:
        """Returns the row of a table for each id, by one layer for all features that share it; with
        vectors of places, if the feature has such, added to those of its table."""
        x, shared = self._inputs[planned.name], planned.table if kind == "vectors" else None
        # A row of zeros before all others is that of no id.
        padded = planned.kind == "bag" or shared is not None
        name = self.name_layer(shared or planned.name, kind)
        layer = self._tables.get(name) if shared else None
        if layer is None:
            layer = _layers.Embedding(len(table) + padded, table.shape[1], name=name)
            self._tables[name] = layer
        y = layer(x + 1 if padded else x)
        rows = np.concatenate([np.zeros_like(table[:1]), table]) if padded else table
        layer.set_weights([rows])
        return y + self._build_places(planned) if kind == "vectors" and planned.positions else y

    def _build_places(self, planned: Planned) -> Any:
        """Returns the vector of the place of each id, and zeros where there is none."""
        scope = f"{_INPUTS}/{feature_columns.name_position_scope(planned)}"
        table = self.read(f"{scope}/{positions.VARIABLE}")
        there, places = self._inputs[planned.name] >= 0, positions.find_positions(planned)
        assert places is not None
        name = self.name_layer(planned.name, "positions")
        layer = _layers.Embedding(len(table) + 1, table.shape[1], name=name)
        y = layer(tf.where(there, places.locate_dense(there) + 1, 0))
        layer.set_weights([np.concatenate([np.zeros_like(table[:1]), table])])
        return y


def _list_numbers(chosen: Sequence[Planned]) -> list[str]:
    """Returns the features that are numbers, and what says where one was missing."""
    pairs = [(planned.indicator, planned) for planned in chosen]
    indicators = [indicator for indicator, _ in pairs if indicator]
    return indicators + [planned.name for _, planned in pairs if not planned.ids]


def join_features(inputs: Mapping[str, Any]) -> Any:
    """Returns features side by side, in the order of `tf.feature_column`: by name, as that is
    there."""
    ordered = [inputs[name] for name in sorted(inputs, key=feature_check.make_plain_name)]
    # One layer for all the numbers and one for what has been taken apart, not one for each.
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(ordered):
        part = packing.find_slice(one)
        source = place if part is None else part.source
        groups.setdefault("numbers" if one.shape.rank == 1 else source, []).append(place)
    x = [_stack([ordered[place] for place in places]) for places in groups.values()]
    together = x[0] if len(x) == 1 else _layers.Concatenate()(x)
    # Each feature's columns in that, put back to where they belong.
    starts: dict[int, range] = {}
    start = 0
    for group, places in zip(x, groups.values(), strict=True):
        width = group.shape[-1] // len(places)
        starts |= {
            place: range(start + n * width, start + (n + 1) * width)
            for n, place in enumerate(places)
        }
        start += group.shape[-1]
    columns = [column for place in range(len(ordered)) for column in starts[place]]
    return together if columns == sorted(columns) else tf.gather(together, columns, axis=1)


def _stack(x: Sequence[Any]) -> Any:
    return _flatten(x[0] if len(x) == 1 else packing.stack_tensors(x))


def _flatten(x: Any) -> Any:
    if x.shape.rank == 1:
        return _layers.Reshape([1])(x)
    return x if x.shape.rank == 2 else _layers.Flatten()(x)
