"""What is made of many records at a time, before they are cut into batches, and what of batches.

Features are made before, where they take no more memory than the columns they are made of: numbers
of ids are moved and kept at less cost than texts, and of records that are kept in memory they are
made once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from pipeline.config import Column
from pipeline.records import feature_plan
from trainer.features import lists, packing
from trainer.features.transforms import Transforms
from trainer.input import parallel, parsing

_ID, _NUMBER = tf.int64.size, tf.float32.size


class Preparation(NamedTuple):
    """`before` makes tensors `[records, ...]`, in any structure, of serialized records. `after`
    makes features and label of a batch of these and of the tensors by name that go with it, such as
    the marks of the ledger. `columns` are those whose values are kept in between; `None` if
    features are, of `size` bytes a record.
    """

    before: Callable[[tf.Tensor], Any]
    after: Callable[[Any, Mapping[str, tf.Tensor]], Any]
    columns: Mapping[str, Column] | None
    size: int


def build(transforms: Transforms) -> Preparation:
    """Returns how the training input of a job is prepared."""
    of_columns = parsing.count_bytes(transforms.columns)
    of_features = _count_feature_bytes(transforms.plan)
    if of_features is None or of_features > of_columns:
        return Preparation(*_make_of_batches(transforms), transforms.columns, of_columns)
    return Preparation(*_make_of_records(transforms), None, of_features)


def _count_feature_bytes(plan: feature_plan.FeaturePlan) -> int | None:
    """Returns the bytes of the features and labels of a record; `None` if these are not known, or
    depend on more than the record."""
    own = any(":" in step.step for planned in plan.features for step in planned.steps)
    if own or not plan.features or parallel.are_random(plan.features):
        return None
    total = (_ID + _NUMBER) * len(plan.labels)
    for planned in plan.features:
        last, width = planned.points[-1], _find_width(planned, plan.columns)
        if last.kind == "bag" or (last.listed and planned.shape):
            return None  # of any width, such as the n-grams of a text
        if width is not None:
            total += width * (_ID + (_NUMBER if planned.weights else 0))
        else:
            total += math.prod(planned.shape) * (_ID if last.kind == "ids" else _NUMBER)
        if planned.indicator:
            total += math.prod(planned.indicator_shape) * _NUMBER
    return total


def _find_width(planned: feature_plan.Planned, columns: Mapping[str, Column]) -> int | None:
    """Returns how many ids a list of a feature has at most; `None` if it is not made of lists."""
    if not planned.points[-1].listed:
        return None
    column = columns.get(planned.inputs[0])
    items = column.max_items if column is not None and column.list else 1
    return (items or 0) * planned.ids_of_each


def _make_of_batches(transforms: Transforms) -> tuple[Callable[..., Any], Callable[..., Any]]:
    columns = packing.build_packing(transforms.columns)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def before(serialized: tf.Tensor) -> parsing.Tensors:
        return columns.pack(parsing.parse(serialized, transforms.columns))

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def after(packed: parsing.Tensors, rest: Mapping[str, tf.Tensor]) -> Any:
        return transforms.pack({**columns.unpack(packed), **rest}, training=True)

    return before, after


def _make_of_records(transforms: Transforms) -> tuple[Callable[..., Any], Callable[..., Any]]:
    plan = transforms.plan
    # The lists of a block are as wide as its longest, of a batch as that of the batch.
    widths = {
        planned.name: (width, planned.weights and planned.weights.name)
        for planned in plan.features
        if (width := _find_width(planned, plan.columns)) is not None
    }

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def before(serialized: tf.Tensor) -> Any:
        columns = parsing.parse(serialized, transforms.columns)
        features, label = transforms.pack(columns, training=True)
        for name, (width, weights) in widths.items():
            features[name] = _widen(features[name], width, lists.NO_ID)
            if weights:
                features[weights] = _widen(features[weights], width, 0)
        return features, label

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def after(made: Any, rest: Mapping[str, tf.Tensor]) -> Any:
        features, label = dict(made[0]), made[1]
        for name, (width, weights) in widths.items():
            ends = tf.where(features[name] == lists.NO_ID, 0, tf.range(1, width + 1))
            longest = tf.reduce_max(ends)
            for one in (name, weights):
                if one:
                    features[one] = features[one][:, :longest]
        return {**features, **rest}, label

    return before, after


def _widen(values: tf.Tensor, width: int, filling: int) -> tf.Tensor:
    """Returns `[records, width]` of `[records, any]`, with a filling behind."""
    return tf.pad(values, [[0, 0], [0, width - tf.shape(values)[1]]], constant_values=filling)
