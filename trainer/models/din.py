"""`din`: a network for rows with sequences, such as the items a user has clicked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from pipeline.config import model_config
from pipeline.records.feature_plan import Planned
from trainer.models import feature_columns, sequences
from trainer.models.interactions import Network
from trainer.models.transforms import Transforms

v1 = tf.compat.v1


def din(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Attention over the clicked items, of the candidate: Zhou et al., Deep interest network for
    click-through rate prediction, 2018. As there, the weights of the items are not normalized, so
    that the sum is the larger the more of them are like the candidate."""
    return _Din(params, model_config.settings("din", params), transforms)


class _Din(Network):
    def __init__(
        self, params: Mapping[str, Any], settings: model_config.Din, transforms: Transforms
    ) -> None:
        super().__init__(params, settings, transforms)
        every = self._planned
        self._sequences = [planned for planned in every if planned.feature.sequence]
        self._planned = [planned for planned in every if not planned.feature.sequence]
        self._reduction, self._attention_units = settings.reduction, settings.attention_units

    def _logits(self, features: Mapping[str, Any], *, training: bool) -> Any:
        parts, vectors = [], dict[str, Any]()
        if self._planned:
            x, by_column = self._inputs(features)
            parts, vectors = [x], {column.name: v for column, v in by_column.items()}
        for planned in sorted(self._sequences, key=lambda planned: planned.name):
            parts.append(self._reduced(planned, features, vectors))
        hidden = self._hidden(tf.concat(parts, axis=1), training=training)
        with v1.variable_scope("dnn"):
            return v1.layers.dense(hidden, self._head.logits_dimension, name="logits")

    def _reduced(
        self, planned: Planned, features: Mapping[str, Any], vectors: Mapping[str, Any]
    ) -> Any:
        """Returns one vector of a sequence, `[batch, size]`."""
        name = feature_columns.name_of(planned.name)
        size = feature_columns.embedding_width(planned)
        table = feature_columns.scope_of(feature_columns.table_of(planned))
        with v1.variable_scope("dnn/input_from_feature_columns/input_layer"):
            sequence = sequences.looked_up(features[name], (planned.ids or 0, size), table)
        with v1.variable_scope(f"{self._reduction}/{name}"):
            if self._reduction == "mean":
                return sequences.mean(sequence)
            if self._reduction == "last":
                return sequences.last(sequence)
            if self._reduction == "gru":
                return sequences.gru(sequence)
            x = sequences.compared(sequence, vectors[table])
            for number, units in enumerate(self._attention_units):
                x = v1.layers.dense(x, units, tf.sigmoid, name=f"hiddenlayer_{number}")
            weights = v1.layers.dense(x, 1, name="weights")
            return sequences.weighted(sequence, tf.squeeze(weights, axis=2))
