"""The linear part of models: a weight for every number and every id.

Its variables are those of the linear models of TensorFlow's feature columns, which take seventy ops
for each column of ids: of forty columns that is most of a graph, and of the time to build it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline.config import feature_check
from pipeline.records.feature_plan import Planned
from trainer.features import embedding, feature_columns

v1 = tf.compat.v1
_Make = Callable[[str, int], Any]


def logits(features: Mapping[str, tf.Tensor], planned: Sequence[Planned], units: int) -> tf.Tensor:
    """Returns the sum of all weights times what they belong to, and a bias, `[batch, units]`.

    `features` are those of `feature_columns.rename_features`, the `planned` ones as they are made,
    lists padded.
    """

    def weights(name: str, rows: int) -> Any:
        with v1.variable_scope(feature_columns.name_scope(name)):
            return _make_variable("weights", [rows, units])

    with v1.variable_scope("linear_model"):
        ordered = sorted(planned, key=lambda feature: feature_check.make_plain_name(feature.name))
        parts = [*_sum_numbers(features, ordered, weights), *_sum_ids(features, ordered, weights)]
        bias = _make_variable("bias_weights", [units])
        found = tf.nn.bias_add(tf.add_n(parts), bias, name="weighted_sum")
    _summarise(bias, units)
    return found


def _make_variable(name: str, shape: Sequence[int]) -> Any:
    return v1.get_variable(name, shape, initializer=v1.zeros_initializer(), use_resource=True)


def _sum_numbers(
    features: Mapping[str, tf.Tensor], planned: Iterable[Planned], weights: _Make
) -> list[tf.Tensor]:
    """Returns what all numbers add, `[batch, units]`, as the only one; nothing without numbers."""
    given: list[tf.Tensor] = []
    made: list[Any] = []
    for feature in planned:
        parts = [(feature.indicator, feature.indicator_shape)] if feature.indicator else []
        if feature.ids is None:
            parts.append((feature.name, feature.shape))
        for name, shape in parts:
            width = tf.TensorShape(shape).num_elements()
            given.append(tf.reshape(features[feature_check.make_plain_name(name)], [-1, width]))
            made.append(tf.convert_to_tensor(weights(name, width)))
    return [tf.matmul(tf.concat(given, axis=1), tf.concat(made, axis=0))] if given else []


def _sum_ids(
    features: Mapping[str, tf.Tensor], planned: Iterable[Planned], weights: _Make
) -> list[tf.Tensor]:
    """Returns what each feature of ids adds, `[batch, units]`."""
    found = []
    rows: Any = None
    for feature in planned:
        if feature.ids is None:
            continue
        table = weights(feature.name, feature.ids)
        ids = features[feature_check.make_plain_name(feature.name)]
        if feature_columns.has_one_id(feature):
            ids = feature_columns.flatten_values(ids)
            rows = tf.range(tf.size(ids)) if rows is None else rows
            found.append(embedding.look_up_one(table, ids, rows))
        else:
            counts = (
                feature.weights and features[feature_check.make_plain_name(feature.weights.name)]
            )
            found.append(embedding.sum_vectors(table, ids, counts))
    return found


def _summarise(bias: Any, units: int) -> None:
    if units == 1:
        v1.summary.scalar("bias", tf.convert_to_tensor(bias)[0])
    else:
        v1.summary.histogram("bias", bias)
