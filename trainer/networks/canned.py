"""The Estimators that TensorFlow brings along, built from the features of the config.

Their network is that of `tf.compat.v1.estimator`, their linear part is `trainer.networks.wide`. All
variables are called, and have the shapes, as in TensorFlow's canned Estimators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline.models.dnn import Dnn
from pipeline.records.feature_plan import Planned
from trainer.features import feature_columns
from trainer.heads.heads import Head
from trainer.networks import wide

v1 = tf.compat.v1
# As the canned Estimators have it: a part of a variable is called in checkpoints as it was asked
# for, also where another's name is equal but for case. `placement.cut` makes more of them.
_WHOLE = v1.fixed_size_partitioner(1)


class Canned:
    """The parts of a canned Estimator, with its variables."""

    def __init__(
        self,
        params: Mapping[str, Any],
        *,
        deep: Sequence[Planned] = (),
        wide: Sequence[Planned] = (),
    ) -> None:
        """The features of each part; one without features is not there."""
        self._head, self._deep, self._wide = Head(params), deep, wide
        self._network = self._build(params) if deep else None

    def _build(self, params: Mapping[str, Any]) -> Any:
        settings = Dnn.of(params)
        self._columns, self._packed = feature_columns.pack_columns(self._deep)
        return v1.estimator.experimental.dnn_logit_fn_builder(
            self._head.logits_dimension,
            list(settings.hidden_units),
            self._columns,
            activation_fn=getattr(tf.nn, settings.activation),
            dropout=settings.dropout or None,
            batch_norm=settings.batch_norm,
            input_layer_partitioner=_WHOLE,
        )

    def model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Returns the spec of a batch of features."""
        known = feature_columns.rename_features(features)
        found = []
        if self._network is not None:
            given = feature_columns.add_weights(known, self._deep)
            given = feature_columns.select_needed(
                feature_columns.pack(given, self._packed), self._columns
            )
            with v1.variable_scope("dnn", partitioner=_WHOLE):
                found.append(self._network(given, mode))
        if self._wide:
            with v1.variable_scope("linear", partitioner=_WHOLE):
                found.append(wide.logits(known, self._wide, self._head.logits_dimension))
        logits = found[0] if len(found) == 1 else found[0] + found[1]
        return self._head.create_estimator_spec(features, mode, logits, labels)
