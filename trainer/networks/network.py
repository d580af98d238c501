"""What networks of the features of a config have in common.

Their variables are called as those of the canned Estimators, whose parts they have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline.models.base import HiddenLayers
from pipeline.records.feature_plan import Planned
from trainer.features import feature_columns
from trainer.features.transforms import Transforms
from trainer.heads.heads import Head

v1 = tf.compat.v1
_columns = v1.feature_column


class Network:
    """What all have: features as columns, fully connected layers, and the head."""

    def __init__(
        self, params: Mapping[str, Any], settings: HiddenLayers, transforms: Transforms
    ) -> None:
        self._head, self._settings = Head(params), settings
        self._planned: Sequence[Planned] = transforms.plan.features

    def model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Returns the spec of a batch of features."""
        known = feature_columns.rename_features(features)
        training = mode == tf.estimator.ModeKeys.TRAIN
        logits = self._logits(known, training=training)
        return self._head.create_estimator_spec(features, mode, logits, labels)

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        raise NotImplementedError

    def _build_inputs(self, features: Mapping[str, Any]) -> tuple[Any, dict[Any, Any]]:
        """Returns all features side by side, `[batch, width]`, in the order of the names of their
        columns, and those that are ids, by column."""
        columns, packed = feature_columns.pack_columns(self._planned)
        known = feature_columns.add_weights(features, self._planned)
        known = feature_columns.select_needed(feature_columns.pack(known, packed), columns)
        by_column: dict[Any, Any] = {}
        with v1.variable_scope("dnn"), v1.variable_scope("input_from_feature_columns"):
            x = _columns.input_layer(known, columns, cols_to_output_tensors=by_column)
        return x, {c: vectors for c, vectors in by_column.items() if hasattr(c, "combiner")}

    def _build_hidden(self, x: Any, *, training: bool) -> Any:
        """Returns the last hidden layer."""
        return self._build_layers(x, self._settings.hidden_units, "dnn", training=training)

    def _build_layers(self, x: Any, units: Sequence[int], scope: str, *, training: bool) -> Any:
        """Returns the last of some fully connected layers on `x`."""
        activation = getattr(tf.nn, self._settings.activation)
        with v1.variable_scope(scope):
            for number, width in enumerate(units):
                x = v1.layers.dense(x, width, activation, name=f"hiddenlayer_{number}")
                if self._settings.dropout and training:
                    x = v1.layers.dropout(x, self._settings.dropout, training=True)
        return x
