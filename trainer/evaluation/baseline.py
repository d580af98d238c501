"""The metrics of a constant answer: what a model has to beat to have learned anything."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipeline import config
from pipeline.models import MODELS
from pipeline.records import manifest, quarantine
from trainer.heads import heads

_OF_TWO_CLASSES = "accuracy_baseline"  # as the heads of `tf.estimator` report it


def compute_metrics(
    job: config.Config,
    contents: manifest.Manifest,
    excluded: quarantine.Excluded,
    *,
    evaluations: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Returns by split the metrics of always its most frequent label, or its mean.

    Two classes report them in their `evaluations`; otherwise they come from the statistics of the
    manifest. A split that these do not describe has none: one with `excluded` blocks or weights,
    or of a model that is not shipped, whose metrics may mean something else.
    """
    shipped = MODELS.get(job.model.name)
    described = shipped is not None and "classes" in shipped.model_fields
    described = described and not (job.label.weight or job.label.balanced)
    found = {}
    for split, reported in evaluations.items():
        if _OF_TWO_CLASSES in reported:
            found[split] = _select_for_two_classes(reported)
        elif described and split in contents.statistics and not excluded.get(split):
            label = contents.statistics[split].columns.get(contents.label)
            found[split] = _compute_from_statistics(
                label, regression=heads.is_regression(job.model.params)
            )
    return {split: values for split, values in found.items() if values}


def _select_for_two_classes(reported: Mapping[str, float]) -> dict[str, float]:
    found = {"accuracy": reported[_OF_TWO_CLASSES]}
    # Equal scores for all; of a single label there is no area.
    return found if math.isnan(reported.get("auc", math.nan)) else {**found, "auc": 0.5}


def _compute_from_statistics(
    label: manifest.ColumnStatistics | None, *, regression: bool
) -> dict[str, float]:
    if label is None:
        return {}
    if regression:
        if label.variance is None:
            return {}
        return {"average_loss": label.variance, "rmse": math.sqrt(label.variance)}
    counts = [count for _, count in label.vocabulary or ()]
    if not counts or sum(counts) != label.count:  # rare labels are not listed
        return {}
    return {"accuracy": max(counts) / label.count}
