"""Features of columns, in the graph, on whole batches: the same ops for training, evaluation and
the exported model. What a step does is in its class, in `pipeline.steps`."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from pipeline.config import model_config
from pipeline.models.base import columns_of
from pipeline.records import feature_plan, manifest
from pipeline.steps import whole
from pipeline.steps.base import Kind, Step
from trainer.features import lists, packing, together

Tensors = dict[str, tf.Tensor]

# The feature that says how much an example counts; heads look for it.
WEIGHT = "input/weight"


def name_weight(goal: int) -> str:
    """Returns the same for one of several labels, by its number."""
    return f"{WEIGHT}/{goal}"


def is_labelled(label: tf.Tensor, stand_in: int | float | str) -> tf.Tensor:
    """Returns where a label is not missing, bool of its shape."""
    if label.dtype.is_floating and stand_in != stand_in:
        return tf.math.logical_not(tf.math.is_nan(label))
    return tf.not_equal(label, tf.constant(stand_in, label.dtype))


_IDS = ("ids", "bag")

_TYPES: Mapping[Kind, tuple[tf.DType, ...]] = {
    "number": (tf.float32,),
    "integer": (tf.int64,),
    "text": (tf.string,),
    "ids": (tf.int64,),
    "bag": (tf.int64,),
    "image": (tf.float32, tf.uint8),
    "encoded": (tf.string,),
}


class Transforms:
    """What makes features and labels of the columns of a job.

    `columns` are those that are read, `serving_columns` those of them that a caller of the exported
    model feeds.
    """

    def __init__(self, job: config.Config, contents: manifest.Manifest) -> None:
        self.plan = feature_plan.plan(job, contents)
        for planned in self.plan.features:
            _check_infinite(planned)
        self.columns = self.plan.columns
        self.serving_columns = feature_plan.select_serving_columns(job)
        every = self.plan.features
        shipped = model_config.find_shipped_settings(job.model)
        apart = shipped.apart if shipped else ()
        parts = [tuple(one for one in every if one.name in names) for names in apart]
        self._parts = parts or [every]
        # Columns that are read together of serialized Examples.
        self.serving_parts = [
            {name: self.serving_columns[name] for name in columns_of(names, job)} for names in apart
        ] or [self.serving_columns]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Of all that `features` returns."""
        if not self.plan.features:
            return tuple(self.serving_columns)
        made = [
            (planned.indicator, planned.name, planned.weights and planned.weights.name)
            for planned in self.plan.features
        ]
        return tuple(name for names in made for name in names if name)

    # As in serving; converting what reads a wide table takes longer than all else.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def examples(
        self, columns: Mapping[str, tf.Tensor], *, training: bool, sampled: bool | None = None
    ) -> tuple[Tensors, Any]:
        """Returns features and labels of a batch of columns, to train on or to evaluate. Of
        several labels these are a dict by name, and those that are missing weigh nothing.

        Those to learn from weigh as `data.sample` says; `sampled`, if given, tells if others do.
        What are no columns, such as the marks of the ledger, pass through.
        """
        rest = {name: x for name, x in columns.items() if name not in self.columns}
        sampled = training if sampled is None else sampled
        label: Any
        if not self.plan.goals:
            label, weight = self._compute_label(self.plan.label, columns, sampled=sampled)
            rest |= {} if weight is None else {WEIGHT: weight}
        else:
            label = {}
            for number, goal in enumerate(self.plan.goals):
                label[goal.name], weight = self._compute_goal(goal, columns, sampled=sampled)
                rest |= {} if weight is None else {name_weight(number): weight}
        return {**self.features(columns, training=training), **rest}, label

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def pack(self, columns: Mapping[str, tf.Tensor], *, training: bool) -> tuple[Tensors, Any]:
        """Returns the same with features in few tensors, as `trainer.model_function` takes them."""
        features, label = self.examples(columns, training=training)
        return self.packing.pack(features), label

    @functools.cached_property
    def packing(self) -> packing.Packing:
        """Of features, on their way from an input pipeline to the model."""
        if not self.plan.features:
            return packing.build_packing(self.serving_columns)
        types: dict[str, tf.DType] = {}
        for planned in self.plan.features:
            if planned.indicator and planned.indicator_shape == () and not planned.listed:
                types[planned.indicator] = tf.float32
            # A step of one's own may return what it does not say.
            own = any(":" in step.step for step in planned.steps)
            if planned.shape == () and not planned.listed and not own:
                types[planned.name] = tf.int64 if planned.kind in _IDS else tf.float32
        return packing.Packing(types)

    def features(self, columns: Mapping[str, tf.Tensor], *, training: bool = False) -> Tensors:
        """Returns the features of a batch of columns; the columns themselves if none are
        declared."""
        if not self.plan.features:
            return {name: columns[name] for name in self.serving_columns}
        made: Tensors = {}
        for part in self._parts:
            made |= make(part, columns, training=training)
        return cast_features(self.plan.features, made)

    def find_present(self, columns: Mapping[str, tf.Tensor], label: str) -> tf.Tensor:
        """Returns where one of several labels is not missing, `[batch]` bool."""
        [goal] = (goal for goal in self.plan.goals if goal.name == label)
        given = columns[goal.label.column]
        if goal.stand_in is None:
            return tf.ones_like(given, tf.bool)
        return is_labelled(given, goal.stand_in)

    def _compute_goal(
        self, goal: feature_plan.PlannedGoal, columns: Mapping[str, tf.Tensor], *, sampled: bool
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Returns one of several labels, 0 where it is missing, and what the examples weigh."""
        label, weight = self._compute_label(goal.label, columns, sampled=sampled)
        if goal.stand_in is None:
            return label, weight
        there = self.find_present(columns, goal.name)
        mask = tf.cast(there, tf.float32)
        label = tf.where(there, label, tf.zeros_like(label))
        return label, mask if weight is None else weight * mask

    def _compute_label(
        self, plan: feature_plan.PlannedLabel, columns: Mapping[str, tf.Tensor], *, sampled: bool
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        label, weight = self._read_label(plan, columns)
        return label, self._weight_sampled(plan, columns, weight) if sampled else weight

    def _read_label(
        self, plan: feature_plan.PlannedLabel, columns: Mapping[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        label = columns[plan.column]
        if plan.threshold is not None:
            label = tf.cast(_is_above(label, plan.threshold), tf.int64)
        elif plan.values is not None:
            label = _place(label, plan.values)
        elif plan.whole and label.dtype.is_floating:
            label = _number_class(label)
        if plan.weight is not None:
            return label, tf.cast(columns[plan.weight], tf.float32)
        if plan.class_weights is not None:
            return label, _look_up_class_weight(label, plan.class_weights)
        return label, None

    def _weight_sampled(
        self,
        plan: feature_plan.PlannedLabel,
        columns: Mapping[str, tf.Tensor],
        weight: tf.Tensor | None,
    ) -> tf.Tensor | None:
        sampled = plan.sampled
        if sampled is None:
            return weight
        given = columns[sampled.column]
        hits = tf.equal(given, tf.constant(sampled.value, given.dtype))
        own = tf.where(hits, tf.constant(sampled.weight, tf.float32), 1.0)
        return own if weight is None else weight * own


def make(
    features: Iterable[feature_plan.Planned],
    columns: Mapping[str, tf.Tensor],
    *,
    training: bool = False,
    layers: bool = False,
) -> Tensors:
    """Returns planned features of a batch of columns, and what says where they were missing.

    Of lists these are ids `[batch, longest]`, with `lists.NO_ID` behind the last of a row, and
    their weights, if they have any, float32 of the same shape. With `layers` they are made of what
    Keras can save.
    """
    known = dict(columns)
    made: Tensors = {}
    features = list(features)
    alike = together.make(features, columns, training=training, layers=layers)
    for planned in features:
        if planned.name in alike:
            made |= alike[planned.name]
            known.setdefault(planned.name, made[planned.name])
            continue
        inputs = [known[name] for name in planned.inputs]
        value: Any = inputs if len(inputs) > 1 else inputs[0]
        first, there = planned.points[0], None
        if first.listed and layers:
            there = lists.is_item(value, first.stand_in)
        elif first.listed:
            value = lists.make_ragged(value, first.stand_in)
        weights = _compute_weights(planned, value, columns, layers=layers)
        for number, step in enumerate(planned.steps):
            if planned.indicator and number == planned.indicated_by:
                made[planned.indicator] = step.indicate(value)
            if training or not step.in_training_only:
                kind = planned.points[number + 1].kind
                value = _apply_step(planned.name, step, kind, x=value, layers=layers, there=there)
            if not planned.points[number + 1].listed:
                there = None
            elif there is not None:
                there = lists.repeat_items(there, step.ids_of_each)
            if weights is not None:
                weights = lists.repeat_items(weights, step.ids_of_each)
        if isinstance(value, tf.RaggedTensor):
            value = value.to_tensor(lists.NO_ID)
        elif there is not None:
            value = tf.where(there, value, lists.NO_ID)
        if planned.weights is not None:
            made[planned.weights.name] = weights
        known.setdefault(planned.name, value)
        made[planned.name] = value
    return made


def _check_infinite(planned: feature_plan.Planned) -> None:
    """Raises `UsageError` if a feature's column has infinite values and its steps do not return a
    finite number for each; the plan has not checked this for your own steps."""
    first, last = planned.points[0], planned.points[-1]
    infinite = [x for x in first.others if math.isinf(x)]
    single = len(planned.inputs) == 1 and not first.listed and first.shape == ()
    if not infinite or not single or last.kind != "number":
        return
    no_gpu = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=no_gpu) as session:
        made = make([planned], {planned.inputs[0]: tf.constant(infinite, tf.float32)})
        found = session.run(made[planned.name])
    for value, x in zip(found, infinite, strict=True):
        if not np.isfinite(value).all():
            raise errors.UsageError(
                f"features.{planned.name}: its steps make {np.ravel(value)[0]} of {x}, which its "
                f"column {planned.inputs[0]!r} has; give it a clip step, or remove .inf from the "
                "limits of the column"
            )


def cast_features(features: Iterable[feature_plan.Planned], made: Tensors) -> Tensors:
    """Returns features as models get them: ids as they are, all others as float32."""
    ids = {planned.name for planned in features if planned.kind in _IDS}
    return {name: x if name in ids else _cast_to_float(x) for name, x in made.items()}


def _cast_to_float(x: tf.Tensor) -> tf.Tensor:
    # A cast to what it is would be an op of a graph and a layer of a Keras model, all the same.
    return x if x.dtype == tf.float32 else tf.cast(x, tf.float32)


def _compute_weights(
    planned: feature_plan.Planned, items: Any, columns: Mapping[str, tf.Tensor], *, layers: bool
) -> tf.Tensor | None:
    """Returns a number for each of the items, 0 behind the last; `None` if they have none.

    Fails when run with `InvalidArgumentError` for a row that has more or fewer than items.
    """
    if planned.weights is None:
        return None
    given, stand_in = columns[planned.weights.column], planned.weights.stand_in
    if layers:
        return tf.where(lists.is_item(given, stand_in), tf.cast(given, tf.float32), 0.0)
    found = lists.make_ragged(given, stand_in)
    alike = tf.debugging.assert_equal(
        found.row_lengths(),
        items.row_lengths(),
        f"features.{planned.name}: {planned.weights.column} needs one weight for each item",
    )
    with tf.control_dependencies([] if alike is None else [alike]):
        return tf.cast(found, tf.float32).to_tensor(0.0)


def _apply_step(
    feature: str, step: Step, kind: Kind, *, x: Any, layers: bool, there: tf.Tensor | None
) -> tf.Tensor:
    """Returns what a step makes of a batch; of lists in a Keras model items are `there`. Raises
    `UsageError` if it is not what it says."""
    where = f"features.{feature}: {step.step}"
    try:
        if isinstance(x, tf.RaggedTensor) and step.lists == "items":
            found = x.with_flat_values(step.apply(x.flat_values))
        elif there is not None and step.lists == "whole":
            found = step.masked(x, there)
        else:
            found = step.layer(x) if layers else step.apply(x)
        if step.ids_of_each > 1:
            found = lists.merge_ids(found)
    except (TypeError, ValueError) as error:
        said = (str(error).splitlines() or [""])[0]
        raise errors.UsageError(f"{where}: {type(error).__name__}: {said}") from error
    dtype = getattr(found, "dtype", type(found).__name__)
    if dtype not in _TYPES[kind]:
        given, wanted = getattr(dtype, "name", dtype), " or ".join(t.name for t in _TYPES[kind])
        raise errors.UsageError(f"{where}: returned {given}; values of kind {kind} are {wanted}")
    return found


def _is_above(label: tf.Tensor, threshold: float) -> tf.Tensor:
    """Where a label is greater; `serving.batch.agreement` says the same."""
    if label.dtype.is_integer:
        return label > whole.round_down(threshold)
    return tf.cast(label, tf.float32) > threshold


def _place(label: tf.Tensor, values: tuple[int | str, ...]) -> tf.Tensor:
    """The place of a label in its vocabulary; -1, which heads refuse, if it is not there."""
    hits = tf.equal(label[:, tf.newaxis], tf.constant(list(values), label.dtype))
    return tf.where(tf.reduce_any(hits, axis=1), tf.argmax(hits, axis=1), -1)


def _number_class(label: tf.Tensor) -> tf.Tensor:
    """The class, int64, that a whole number is; -1, which heads refuse, of another number."""
    number = tf.cast(label, tf.int64)
    return tf.where(tf.equal(tf.cast(number, label.dtype), label), number, -1)


def _look_up_class_weight(label: tf.Tensor, weights: tuple[tuple[int, float], ...]) -> tf.Tensor:
    classes = tf.constant([value for value, _ in weights], tf.int64)
    of_class = tf.constant([weight for _, weight in weights], tf.float32)
    hits = tf.cast(tf.equal(tf.cast(label, tf.int64)[:, tf.newaxis], classes), tf.float32)
    return tf.linalg.matvec(hits, of_class)
