"""Features with nothing left open: each step's settings filled in from the statistics of train.

Statistics follow the values from step to step: least, greatest and percentiles through every step
that keeps the order of values, exactly; mean and variance of what comes out of it as those of the
percentiles, joined by straight lines.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from pipeline import config, errors, feature_check, feature_config, label_check, manifest
from pipeline.feature_config import Kind


@dataclasses.dataclass(frozen=True)
class Planned:
    """One feature as models get it.

    `steps` have all settings. `ids` is how many categories there are, if it is of kind `ids` or
    `bag`; `shape` is that of one example.
    """

    name: str
    inputs: tuple[str, ...]
    steps: tuple[Any, ...]
    kind: Kind
    ids: int | None
    shape: tuple[int, ...]
    feature: feature_config.Feature

    @property
    def indicator(self) -> str | None:
        """The name of the feature that is 1 where this one was missing, if there is one."""
        wanted = any(getattr(step, "indicator", False) for step in self.steps)
        return f"{self.name}_missing" if wanted else None


@dataclasses.dataclass(frozen=True)
class PlannedLabel:
    """The label. `values` are those of its vocabulary, in order; `class_weights` by label."""

    column: str
    threshold: float | None
    values: tuple[int | str, ...] | None
    weight: str | None
    class_weights: tuple[tuple[int, float], ...] | None


@dataclasses.dataclass(frozen=True)
class Plan:
    """All features, each after those it is made of, the columns they need, and the label."""

    features: tuple[Planned, ...]
    columns: Mapping[str, config.Column]
    label: PlannedLabel


@dataclasses.dataclass(frozen=True)
class _Values:
    """What is known of the values at one point of a feature."""

    kind: Kind
    shape: tuple[int, ...]
    ids: int | None = None
    percentiles: tuple[float, ...] | None = None
    mean: float | None = None
    variance: float | None = None
    vocabulary: tuple[int | float | str, ...] | None = None
    stand_in: int | float | str | None = None


def plan(job: config.Config, contents: manifest.Manifest) -> Plan:
    """Fills in what the config leaves to the statistics.

    Raises `UsageError` for a statistic that the manifest lacks, with what to add to the config.
    """
    known: dict[str, _Values] = {}
    features = []
    for name in feature_check.ordered(job.features, job.data.columns):
        feature = job.features[name]
        inputs = [
            known[i] if i not in job.data.columns else _of_column(i, job, contents)
            for i in feature.inputs(name)
        ]
        steps, values = _through(f"features.{name}", feature, inputs)
        known[name] = values
        features.append(
            Planned(
                name, feature.inputs(name), steps, values.kind, values.ids, values.shape, feature
            )
        )
    return Plan(tuple(features), columns(job), _label(job, contents))


def columns(job: config.Config) -> dict[str, config.Column]:
    """Returns the columns that are read: all of them if no features are declared."""
    if not job.features:
        return dict(job.data.columns)
    used = {i for name, feature in job.features.items() for i in feature.inputs(name)}
    used |= {job.data.label, job.label.weight or job.data.label}
    return {name: column for name, column in job.data.columns.items() if name in used}


def serving_columns(job: config.Config) -> dict[str, config.Column]:
    """Returns those of them that a caller of the exported model feeds."""
    hidden = (job.data.label, job.label.weight)
    return {name: column for name, column in columns(job).items() if name not in hidden}


def _of_column(name: str, job: config.Config, contents: manifest.Manifest) -> _Values:
    column = job.data.columns[name]
    split = contents.statistics.get("train")
    found = split.columns.get(name) if split else None
    return _Values(
        kind=feature_check.kind_of(column),
        shape=column.shape,
        percentiles=found.quantiles if found else None,
        mean=found.mean if found else None,
        variance=found.variance if found else None,
        vocabulary=_vocabulary(column, found),
        stand_in=column.stands_for_missing if column.missing == "allow" else None,
    )


def _vocabulary(
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


def _through(
    key: str, feature: feature_config.Feature, inputs: list[_Values]
) -> tuple[tuple[Any, ...], _Values]:
    """Returns the steps with all settings, and what is known of what comes out of them."""
    values = inputs[0]
    steps = []
    for step in feature.steps:
        filled, values = _FILL.get(step.step, _keep)(f"{key}: {step.step}", step, values)
        steps.append(filled)
    return tuple(steps), values


def _keep(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    return step, dataclasses.replace(values, kind=step.gives or values.kind)


def _missing(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    fill = step.fill
    if fill == "mean" and values.kind != "text":
        fill = _required(values.mean, key, "the mean", "write fill: <number>")
    if values.kind == "integer":
        fill = round(fill)
    filled = step.model_copy(update={"fill": fill, "stand_in": values.stand_in})
    return filled, dataclasses.replace(values, stand_in=None)


def _z_score(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    advice = "give it mean and deviation, or put it before the step that loses them"
    mean, deviation = step.mean, step.deviation
    if mean is None:
        mean = _required(values.mean, key, "a mean", advice)
    if deviation is None:
        # A column that is always the same becomes 0.
        deviation = math.sqrt(_required(values.variance, key, "a variance", advice)) or 1.0
    filled = step.model_copy(update={"mean": mean, "deviation": deviation})
    return filled, _mapped(values, lambda x: (x - mean) / deviation, linear=True)


def _min_max(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    ends = values.percentiles or (None,)
    advice = "give it min and max, or put it before the step that loses them"
    low = _required(ends[0] if step.min is None else step.min, key, "a least value", advice)
    high = _required(ends[-1] if step.max is None else step.max, key, "a greatest value", advice)
    high = high if high > low else low + 1.0
    filled = step.model_copy(update={"min": low, "max": high})
    return filled, _mapped(values, lambda x: (x - low) / (high - low), linear=True)


def _log1p(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    if values.percentiles and values.percentiles[0] <= -1:
        raise errors.UsageError(
            f"{key}: has no value at {values.percentiles[0]:g}, the least there is; put "
            "{clip: {min: 0}} before it"
        )
    return step, _mapped(values, math.log1p)


def _clip(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    low = -math.inf if step.min is None else step.min
    high = math.inf if step.max is None else step.max
    return step, _mapped(values, lambda x: min(max(x, low), high))


def _clock(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    minutes: dict[str, Callable[[float], float]] = {
        "hour": lambda x: x // 100,
        "minute_of_day": lambda x: x // 100 * 60 + x % 100,
    }
    to = minutes.get(step.part)
    found = _mapped(values, to) if to else _forgotten(values, "integer")
    return step, dataclasses.replace(found, kind="integer")


def _buckets(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    boundaries = step.boundaries
    if boundaries is None:
        advice = "give it boundaries, or put it before the step that loses them"
        percentiles = _required(values.percentiles, key, "percentiles", advice)
        cuts = [_at(percentiles, n / step.count) for n in range(1, step.count)]
        boundaries = tuple(sorted(set(cuts)))
        if 2 * len(boundaries) < len(cuts):
            raise errors.UsageError(
                f"{key}: only {len(boundaries)} of the {len(cuts)} boundaries between {step.count} "
                "buckets are different, because few values make up most rows. Set count: "
                f"{len(boundaries) + 1}, or give boundaries"
            )
    filled = step.model_copy(update={"boundaries": boundaries})
    return filled, _ids(values, len(boundaries) + 1)


def _vocabulary_step(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    listed = step.values
    if listed is None:
        advice = "add vocabulary: {} to the column in the config and preprocess again"
        listed = _required(values.vocabulary, key, "all values", advice)
    filled = step.model_copy(update={"values": listed})
    return filled, _ids(values, len(listed) + step.oov)


def _hashed(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    return step, _ids(values, step.buckets)


def _ngrams(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    return step, dataclasses.replace(_ids(values, step.buckets), kind="bag")


def _identity(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    return step, _ids(values, step.ids)


def _date(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    return step, _forgotten(values, "integer")


def _image(key: str, step: Any, values: _Values) -> tuple[Any, _Values]:
    channels = getattr(step, "channels", None) or values.shape[-1]
    shape = (step.height, step.width, channels)
    return step, dataclasses.replace(values, kind="image", shape=shape)


_FILL: Mapping[str, Callable[[str, Any, _Values], tuple[Any, _Values]]] = {
    "missing": _missing,
    "z_score": _z_score,
    "min_max": _min_max,
    "log1p": _log1p,
    "clip": _clip,
    "buckets": _buckets,
    "vocabulary": _vocabulary_step,
    "hash": _hashed,
    "cross": _hashed,
    "identity": _identity,
    "date": _date,
    "clock": _clock,
    "ngrams": _ngrams,
    "decode": _image,
    "resize": _image,
}


def _required(found: Any, key: str, what: str, advice: str) -> Any:
    if found is None:
        raise errors.UsageError(f"{key}: the manifest has not {what} of it; {advice}")
    return found


def _ids(values: _Values, count: int) -> _Values:
    return _Values(kind="ids", shape=values.shape, ids=count)


def _forgotten(values: _Values, kind: Kind) -> _Values:
    return _Values(kind=kind, shape=values.shape)


def _mapped(
    values: _Values, function: Callable[[float], float], *, linear: bool = False
) -> _Values:
    """What is known after a step that keeps the order of values."""
    known = dataclasses.replace(values, kind="number", vocabulary=None)
    if values.percentiles is None:
        return dataclasses.replace(known, mean=None, variance=None)
    percentiles = tuple(function(p) for p in values.percentiles)
    if linear and values.mean is not None and values.variance is not None:
        slope = function(1.0) - function(0.0)
        mean, variance = function(values.mean), values.variance * slope**2
    else:
        mean, variance = _moments(percentiles)
    return dataclasses.replace(known, percentiles=percentiles, mean=mean, variance=variance)


def _moments(percentiles: tuple[float, ...]) -> tuple[float, float]:
    """Mean and variance of values whose percentiles are joined by straight lines."""
    pieces = list(itertools.pairwise(percentiles))
    mean = math.fsum((a + b) / 2 for a, b in pieces) / len(pieces)
    shifted = [(a - mean, b - mean) for a, b in pieces]
    return mean, math.fsum((a * a + a * b + b * b) / 3 for a, b in shifted) / len(pieces)


def _at(percentiles: tuple[float, ...], share: float) -> float:
    place = share * (len(percentiles) - 1)
    below = min(int(place), len(percentiles) - 2)
    low, high = percentiles[below], percentiles[below + 1]
    return low + (high - low) * (place - below)


def _label(job: config.Config, contents: manifest.Manifest) -> PlannedLabel:
    name, label = job.data.label, job.label
    values = None
    if label.vocabulary:
        column = _of_column(name, job, contents)
        advice = f"add vocabulary: {{}} to data.columns.{name} and preprocess again"
        values = _required(column.vocabulary, "label: vocabulary", "all values", advice)
    label_check.check(job, contents, values)
    weights = _class_weights(job, contents, values) if label.balanced else None
    return PlannedLabel(name, label.threshold, values, label.weight, weights)


def _class_weights(
    job: config.Config, contents: manifest.Manifest, values: tuple[int | str, ...] | None
) -> tuple[tuple[int, float], ...]:
    """Returns for each label the weight that makes all classes weigh the same, 1 on average."""
    split = contents.statistics.get("train")
    advice = "make it an int64 or string column of at most 1,000 values, and preprocess again"
    found = _required(split and split.class_weights, "label: balanced", "class weights", advice)
    # Weights are total / (classes * count), so that their inverses are the counts but for a factor.
    shares: dict[int, float] = {}
    for value, weight in found:
        label = _as_label(value, job.label, values)
        if label is not None:
            shares[label] = shares.get(label, 0.0) + 1 / weight
    total = math.fsum(shares.values())
    return tuple((n, total / (len(shares) * share)) for n, share in sorted(shares.items()))


def _as_label(
    value: int | str, label: feature_config.Label, values: tuple[int | str, ...] | None
) -> int | None:
    if label.threshold is not None:
        return int(float(value) > label.threshold)
    if values is not None:
        return values.index(value) if value in values else None
    return int(value)
