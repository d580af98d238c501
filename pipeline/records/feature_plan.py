"""Features with nothing left open: each step's settings filled in from the statistics of train.

Statistics follow the values from step to step, as each step says (`Step.statistics_after`): behind
one that does not say, nothing is known.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline import config, errors
from pipeline.config import (
    feature_check,
    feature_config,
    labels_config,
    list_weights,
    model_config,
    shared_tables,
)
from pipeline.records import item_shares, label_check, manifest
from pipeline.steps import base
from pipeline.steps.base import Kind, Step, Values

# Nothing can be learned from a column without a number in train, so any statistics do.
_OF_NO_NUMBERS = {
    "quantiles": tuple(percent / 100 for percent in range(101)),
    "mean": 0.5,
    "variance": 1 / 12,
}


@dataclasses.dataclass(frozen=True)
class Weights:
    """Numbers for the items of a list: the column, what stands in it for none, and what they are
    called where models get them."""

    column: str
    stand_in: int | float | str
    name: str


@dataclasses.dataclass(frozen=True)
class Planned:
    """One feature as models get it.

    `steps` have all settings. `points` is what is known of the values before the first step and
    behind each. `table` is the feature whose table of vectors it shares; of that one its own name.
    `positions` says how many places of a list have a vector, too.
    """

    name: str
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    points: tuple[Values, ...]
    feature: feature_config.Feature
    table: str | None = None
    weights: Weights | None = None
    positions: int | None = None

    @property
    def kind(self) -> Kind:
        """What its values are; lists of ids are a `bag`."""
        last = self.points[-1]
        return "bag" if last.listed and last.kind == "ids" else last.kind

    @property
    def listed(self) -> bool:
        """Tells if its values are lists at any point."""
        return any(point.listed for point in self.points)

    @property
    def ids(self) -> int | None:
        """How many categories there are, if it is of kind `ids` or `bag`."""
        return self.points[-1].ids

    @property
    def shape(self) -> tuple[int, ...]:
        """That of one example."""
        return self.points[-1].shape

    @property
    def ids_of_each(self) -> int:
        """How many ids one value has, or one item of a list."""
        return math.prod(step.ids_of_each for step in self.steps)

    @property
    def indicator(self) -> str | None:
        """The name of the feature that is 1 where this one was missing, if there is one."""
        return None if self.indicated_by is None else f"{self.name}_missing"

    @property
    def indicated_by(self) -> int | None:
        """Which step finds that out, counted from 0."""
        wanted = (n for n, step in enumerate(self.steps) if step.has_indicator)
        return next(wanted, None)

    @property
    def indicator_shape(self) -> tuple[int, ...]:
        """That of one example of the indicator."""
        return self.shape if self.indicated_by is None else self.points[self.indicated_by].shape


@dataclasses.dataclass(frozen=True)
class SampledValue:
    """Rows of train with a `value` in a `column`, of which each stands for `weight` rows."""

    column: str
    value: int | float | str
    weight: float


@dataclasses.dataclass(frozen=True)
class PlannedLabel:
    """The label. `values` are those of its vocabulary, in order; `class_weights` by label. One that
    is `whole` numbers a class, of whatever type its column is. Of a sample, either each example
    weighs `sampled`, or the logit of a class is too small by `offset`: which class, and how
    much."""

    column: str
    threshold: float | None
    values: tuple[int | str, ...] | None
    weight: str | None
    class_weights: tuple[tuple[int, float], ...] | None
    sampled: SampledValue | None = None
    offset: tuple[int, float] | None = None
    whole: bool = False


@dataclasses.dataclass(frozen=True)
class PlannedGoal:
    """One of several labels: what its head is told, and the weight of its loss. In rows where the
    column is as `stand_in`, it is missing; with `None` it never is."""

    name: str
    label: PlannedLabel
    params: Mapping[str, Any]
    weight: float
    stand_in: int | float | str | None


@dataclasses.dataclass(frozen=True)
class FeaturePlan:
    """All features, each after those it is made of, the columns they need, and the label; of
    several, `goals` are all and `label` is the first."""

    features: tuple[Planned, ...]
    columns: Mapping[str, config.Column]
    label: PlannedLabel
    goals: tuple[PlannedGoal, ...] = ()
    # Counted in the rows of train, for a model that asks for it.
    item_shares: np.ndarray | None = dataclasses.field(default=None, compare=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns to predict."""
        return tuple(goal.name for goal in self.goals) or (self.label.column,)


def plan(job: config.Config, contents: manifest.Manifest) -> FeaturePlan:
    """Fills in what the config leaves to the statistics.

    Raises `UsageError` for a statistic that the manifest lacks, with what to add to the config.
    """
    known: dict[str, Values] = {}
    features = []
    tables = shared_tables.tables(job.features)
    for name in feature_check.order_features(job.features, job.data.columns):
        feature = shared_tables.resolve_width(job.features[name], job.features)
        inputs = feature.inputs(name)
        first = inputs[0]
        column = first in job.data.columns
        values = _build_values(first, job, contents) if column else known[first]
        others = {
            other: _build_values(other, job, contents)
            for step in feature.steps
            if (other := step.statistics_of) is not None
        }
        steps, points = _resolve_steps(f"features.{name}", feature, values, others=others)
        known[name] = points[-1]
        weights = _find_weights(name, feature, job.data.columns)
        table = tables.get(name)
        positions = job.data.columns[first].max_items if feature.position else None
        features.append(Planned(name, inputs, steps, points, feature, table, weights, positions))
    several = tuple(_plan_goal(job, name, contents) for name in job.labels)
    label_check.check_metric(job, contents)
    label_check.check_group(job, contents)
    label_check.check_weight(job, contents)
    label = next((goal.label for goal in several if goal.name == job.data.label), None)
    label = label or _plan_label(job, contents)
    shares = item_shares.shares_for_model(job, contents, features)
    return FeaturePlan(tuple(features), select_columns(job), label, several, shares)


def _find_weights(
    name: str, feature: feature_config.Feature, columns: Mapping[str, config.Column]
) -> Weights | None:
    if feature.weights is None:
        return None
    stand_in = columns[feature.weights].stands_for_missing
    return Weights(feature.weights, stand_in, list_weights.weights_name(name))


def select_columns(job: config.Config) -> dict[str, config.Column]:
    """Returns the columns that are read: all of them if no features are declared."""
    if not job.features:
        return dict(job.data.columns)
    used = {i for name, feature in job.features.items() for i in feature.reads(name)}
    used |= {*job.data.every_label, job.label.weight or "", _weighs(job) or ""}
    return {name: column for name, column in job.data.columns.items() if name in used}


def select_serving_columns(job: config.Config) -> dict[str, config.Column]:
    """Returns those of them that a caller of the exported model feeds."""
    hidden = {*job.data.every_label, job.label.weight or ""}
    if job.features:
        # What weighs may be a feature, too.
        features = {i for name, feature in job.features.items() for i in feature.reads(name)}
        hidden |= {_weighs(job) or ""}
        hidden -= features - {*job.data.every_label}
    return {name: column for name, column in select_columns(job).items() if name not in hidden}


def _build_values(name: str, job: config.Config, contents: manifest.Manifest) -> Values:
    column = job.data.columns[name]
    split = contents.statistics.get("train")
    found = split.columns.get(name) if split else None
    stand_in = column.stands_for_missing if column.missing == "allow" or column.list else None
    used = found is not None and found.missing > 0 and not column.list
    others = base.numbers_in(stand_in) if used else ()
    others += _find_infinite_limits(name, column, contents)
    kind = feature_check.kind_of(column)
    if found is not None and found.count == found.not_finite and kind in ("number", "integer"):
        found = found.model_copy(update=_OF_NO_NUMBERS)
    return Values(
        kind=kind,
        shape=column.shape,
        percentiles=found.quantiles if found else None,
        mean=found.mean if found else None,
        variance=found.variance if found else None,
        vocabulary=_find_vocabulary(column, found),
        stand_in=stand_in,
        others=others,
        listed=column.list,
    )


def _find_infinite_limits(
    name: str, column: config.Column, contents: manifest.Manifest
) -> tuple[float, ...]:
    """Returns infinite limits of a column, if it has values that these allow."""
    known = [of.columns[name] for of in contents.statistics.values() if name in of.columns]
    if not any(one.not_finite for one in known):
        return ()
    return tuple(x for x in (column.min, column.max) if x is not None and math.isinf(x))


def _find_vocabulary(
    column: config.Column, found: manifest.ColumnStatistics | None
) -> tuple[int | float | str, ...] | None:
    """Returns the values that have a number each, or `None` if not all that should are known."""
    if column.vocabulary is None and column.allowed:
        return column.allowed
    if found is not None and not found.count:
        return ()
    if found is None or found.vocabulary is None:
        return None
    whole = column.vocabulary is not None or len(found.vocabulary) == found.distinct
    # What stands for a missing value is no value.
    return tuple(value for value, _ in found.vocabulary) if whole else None


def _resolve_steps(
    key: str, feature: feature_config.Feature, values: Values, *, others: Mapping[str, Values]
) -> tuple[tuple[Step, ...], tuple[Values, ...]]:
    """Returns the steps with all settings, and what is known before the first and behind each.
    `others` are columns whose statistics a step takes in place of those of its values."""
    steps: list[Step] = []
    points = [values]
    for step in feature.steps:
        where = f"{key}: {step.step}"
        other = step.statistics_of
        of = points[-1] if other is None else others[other]
        _check_needs(where, step, of)
        try:
            filled = step.filled(of)
            points.append(base.derive_values(filled, points[-1]))
        except errors.UsageError as error:
            raise errors.UsageError(f"{where}: {error}") from None
        steps.append(filled)
    if any(map(math.isinf, points[-1].others)):
        raise errors.UsageError(f"{key}: its column has infinite values; give it a clip step")
    return tuple(steps), tuple(points)


def _check_needs(key: str, step: Step, values: Values) -> None:
    for name in step.needs(values.kind):
        if getattr(values, name) is not None:
            continue
        if values.forgotten_by:
            raise errors.UsageError(
                f"{key} needs {base.STATISTICS[name]}, not known after {values.forgotten_by}, "
                f"which does not keep the order of these values; {step.instead}"
            )
        raise errors.UsageError(
            f"{key} needs {base.STATISTICS[name]}, and the manifest does not have that; "
            f"{step.instead}"
        )


def _require(found: Any, key: str, what: str, *, advice: str) -> Any:
    if found is None:
        raise errors.UsageError(
            f"{key} needs {what}, and the manifest does not have that; {advice}"
        )
    return found


def _plan_label(job: config.Config, contents: manifest.Manifest) -> PlannedLabel:
    name, label, key = job.data.label, job.label, labels_config.find_key(job)
    values = None
    if label.vocabulary:
        column = _build_values(name, job, contents)
        advice = f"add vocabulary: {{}} to data.columns.{name} and preprocess again"
        values = _require(column.vocabulary, f"{key}: vocabulary", "all values", advice=advice)
    label_check.check(job, contents, values)
    weights = _compute_class_weights(job, contents, values) if label.balanced else None
    sampled, offset = _sample(job, values)
    shipped = model_config.find_shipped_settings(job.model)
    whole = shipped is not None and shipped.label_classes is not None
    return PlannedLabel(
        name, label.threshold, values, label.weight, weights, sampled, offset, whole
    )


def _plan_goal(job: config.Config, name: str, contents: manifest.Manifest) -> PlannedGoal:
    column, goal = job.data.columns[name], job.labels[name]
    # A default that is given is a label like others.
    unknown = column.missing == "allow" and column.default is None
    stand_in = column.stands_for_missing if unknown else None
    planned = _plan_label(labels_config.view(job, name), contents)
    return PlannedGoal(name, planned, goal.params, goal.weight, stand_in)


def _sample(
    job: config.Config, values: tuple[int | str, ...] | None
) -> tuple[SampledValue | None, tuple[int, float] | None]:
    """Returns `sampled` and `offset` of `PlannedLabel`."""
    sample = job.data.sample
    if sample is None or sample.correct == "none":
        return None, None
    if sample.correct == "weights":
        return SampledValue(sample.column, sample.value, 1 / sample.keep), None
    if values is not None and sample.value not in values:
        raise errors.UsageError(
            f"data.sample.value: {sample.value!r} is not in the vocabulary of {job.data.label!r}"
        )
    index = int(sample.value) if values is None else values.index(sample.value)
    return None, (index, -math.log(sample.keep))


def _weighs(job: config.Config) -> str | None:
    """Returns the column that tells how many rows an example stands for."""
    sample = job.data.sample
    return sample.column if sample is not None and sample.correct == "weights" else None


def _compute_class_weights(
    job: config.Config, contents: manifest.Manifest, values: tuple[int | str, ...] | None
) -> tuple[tuple[int, float], ...]:
    """Returns for each label the weight that makes all classes weigh the same, 1 on average."""
    split = contents.statistics.get("train")
    advice = "make it an int64 or string column of at most 1,000 values, and preprocess again"
    found = _require(
        split and split.class_weights, "label: balanced", "class weights", advice=advice
    )
    # Weights are total / (classes * count), so that their inverses are the counts but for a factor.
    shares: dict[int, float] = {}
    for value, weight in found:
        label = _convert_to_label(value, job.label, values)
        if label is not None:
            shares[label] = shares.get(label, 0.0) + 1 / weight
    total = math.fsum(shares.values())
    return tuple((n, total / (len(shares) * share)) for n, share in sorted(shares.items()))


def _convert_to_label(
    value: int | str, label: feature_config.Label, values: tuple[int | str, ...] | None
) -> int | None:
    if label.threshold is not None:
        return int(int(value) > label.threshold)
    if values is not None:
        return values.index(value) if value in values else None
    return int(value)
