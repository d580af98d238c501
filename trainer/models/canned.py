"""The Estimators that TensorFlow brings along, built from the features of the config.

They are those of `tf.compat.v1.estimator`: the others take Keras optimizers, which cannot run in
graphs of several processes (docs/tensorflow-pitfalls.md#keras-optimizers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline.config import model_config
from pipeline.records.feature_plan import Planned
from trainer.models import feature_columns
from trainer.models.heads import Head
from trainer.models.transforms import Transforms

_estimator = tf.compat.v1.estimator


def linear(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """A weight for every number and every id."""
    features = transforms.plan.features
    columns = feature_columns.wide(features)
    return _Renaming(_estimator.LinearEstimator(Head(params), columns, config=config), features)


def dnn(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Fully connected layers over numbers and embeddings of ids."""
    settings = _settings(params)
    features = transforms.plan.features
    columns, packed = feature_columns.packed(features)
    return _Renaming(
        _estimator.DNNEstimator(
            Head(params),
            list(settings.hidden_units),
            columns,
            activation_fn=_activation(settings),
            dropout=settings.dropout or None,
            batch_norm=settings.batch_norm,
            config=config,
        ),
        features,
        packed,
    )


def dnn_linear_combined(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Both, their logits added: Cheng et al., Wide & deep learning, 2016."""
    settings = _settings(params)
    features = transforms.plan.features
    columns, packed = feature_columns.packed(feature_columns.of_part(features, "deep"))
    return _Renaming(
        _estimator.DNNLinearCombinedEstimator(
            Head(params),
            linear_feature_columns=feature_columns.wide(feature_columns.of_part(features, "wide")),
            dnn_feature_columns=columns,
            dnn_hidden_units=list(settings.hidden_units),
            dnn_activation_fn=_activation(settings),
            dnn_dropout=settings.dropout or None,
            batch_norm=settings.batch_norm,
            config=config,
        ),
        features,
        packed,
    )


class _Renaming:
    """A canned Estimator whose features may be called as nothing in a graph may be."""

    def __init__(
        self,
        built: Any,
        planned: Sequence[Planned],
        packed: feature_columns.Packed | None = None,
    ) -> None:
        """`planned` are its features, `packed` those that it gets besides, by
        `feature_columns.packed`."""
        self._built, self._planned, self._packed = built, planned, packed or {}

    def model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Calls that of the Estimator."""
        known = feature_columns.renamed(features)
        known = feature_columns.with_weights(known, self._planned)
        known = feature_columns.pack(known, self._packed)
        return self._built.model_fn(known, labels, mode, config)


def _settings(params: Mapping[str, Any]) -> model_config.Dnn:
    found: model_config.Dnn = model_config.settings("dnn", params)
    return found


def _activation(settings: model_config.Dnn) -> Any:
    return getattr(tf.nn, settings.activation)
