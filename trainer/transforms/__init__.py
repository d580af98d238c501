"""Features of columns, in the graph, on whole batches: the same ops for training, evaluation and
the exported model. A new transform is a step in `pipeline.feature_config`, one function in the
module of its family, and one line in `APPLY`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from pipeline import config, feature_plan, manifest
from trainer.transforms import categories, dates, images, numbers, texts

Tensors = dict[str, tf.Tensor]

# The feature that says how much an example counts; heads look for it.
WEIGHT = "input/weight"

Apply = Mapping[str, Callable[[Any, Any], tf.Tensor]]
APPLY: Apply = {
    "missing": numbers.missing,
    "z_score": numbers.z_score,
    "min_max": numbers.min_max,
    "log1p": numbers.log1p,
    "clip": numbers.clip,
    "buckets": categories.buckets,
    "vocabulary": categories.vocabulary,
    "hash": categories.hash_,
    "identity": categories.identity,
    "cross": categories.cross,
    "date": dates.date,
    "clock": dates.clock,
    "ngrams": texts.ngrams,
    "decode": images.decode,
    "resize": images.resize,
    "scale": images.scale,
    "augment": images.augment,
}
_IN_TRAINING_ONLY = ("augment",)


class Transforms:
    """What makes features and labels of the columns of a job.

    `columns` are those that are read, `serving_columns` those of them that a caller of the exported
    model feeds.
    """

    def __init__(self, job: config.Config, contents: manifest.Manifest) -> None:
        self.plan = feature_plan.plan(job, contents)
        self.columns = self.plan.columns
        self.serving_columns = feature_plan.serving_columns(job)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Of all that `features` returns."""
        if not self.plan.features:
            return tuple(self.serving_columns)
        made = [(planned.indicator, planned.name) for planned in self.plan.features]
        return tuple(name for pair in made for name in pair if name)

    def examples(
        self, columns: Mapping[str, tf.Tensor], *, training: bool
    ) -> tuple[Tensors, tf.Tensor]:
        """Returns features and labels of a batch of columns, to learn from or be judged by.

        What are no columns, such as the marks of the ledger, pass through.
        """
        rest = {name: x for name, x in columns.items() if name not in self.columns}
        label, weight = self._label(columns)
        rest |= {} if weight is None else {WEIGHT: weight}
        return {**self.features(columns, training=training), **rest}, label

    def features(self, columns: Mapping[str, tf.Tensor], *, training: bool = False) -> Tensors:
        """Returns the features of a batch of columns; the columns themselves if none are
        declared."""
        if not self.plan.features:
            return {name: columns[name] for name in self.serving_columns}
        return make(self.plan.features, columns, APPLY, training=training)

    def _label(self, columns: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor | None]:
        plan = self.plan.label
        label = columns[plan.column]
        if plan.threshold is not None:
            label = tf.cast(tf.cast(label, tf.float32) > plan.threshold, tf.int64)
        elif plan.values is not None:
            label = _place(label, plan.values)
        if plan.weight is not None:
            return label, tf.cast(columns[plan.weight], tf.float32)
        if plan.class_weights is not None:
            return label, _class_weight(label, plan.class_weights)
        return label, None


def make(
    features: Iterable[feature_plan.Planned],
    columns: Mapping[str, tf.Tensor],
    apply: Apply,
    *,
    training: bool,
) -> Tensors:
    """Returns planned features of a batch of columns, each step as `apply` has it."""
    known = dict(columns)
    made: Tensors = {}
    for planned in features:
        inputs = [known[name] for name in planned.inputs]
        if planned.indicator:
            made[planned.indicator] = _indicator(inputs[0], planned)
        value: Any = inputs if len(inputs) > 1 else inputs[0]
        for step in planned.steps:
            if training or step.step not in _IN_TRAINING_ONLY:
                value = apply[step.step](value, step)
        known.setdefault(planned.name, value)
        categorical = planned.kind in ("ids", "bag")
        made[planned.name] = value if categorical else tf.cast(value, tf.float32)
    return made


def _indicator(x: tf.Tensor, planned: feature_plan.Planned) -> tf.Tensor:
    step = next(step for step in planned.steps if step.step == "missing")
    return tf.cast(numbers.is_missing(x, step.stand_in), tf.float32)


def _place(label: tf.Tensor, values: tuple[int | str, ...]) -> tf.Tensor:
    """The place of a label in its vocabulary; -1, which heads refuse, if it is not there."""
    hits = tf.equal(label[:, tf.newaxis], tf.constant(list(values), label.dtype))
    return tf.where(tf.reduce_any(hits, axis=1), tf.argmax(hits, axis=1), -1)


def _class_weight(label: tf.Tensor, weights: tuple[tuple[int, float], ...]) -> tf.Tensor:
    classes = tf.constant([value for value, _ in weights], tf.int64)
    of_class = tf.constant([weight for _, weight in weights], tf.float32)
    hits = tf.cast(tf.equal(tf.cast(label, tf.int64)[:, tf.newaxis], classes), tf.float32)
    return tf.linalg.matvec(hits, of_class)
