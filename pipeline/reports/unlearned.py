"""Whether a result is better than its baseline: what a constant answer would get."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.console.figures import figure

# Metrics that say whether anything was learned, the first one first; True where more is better. Of
# a rare class accuracy says little, so one of them that is better is enough.
_HIGHER = {
    "accuracy": True,
    "auc": True,
    "average_loss": False,
    "rmse": False,
    "mean_absolute_error": False,
}
# 97.5 % of a normal distribution are below it.
_NORMAL = 1.96
# The value of a metric and its 95 % interval; three times the value if there is none.
Interval = tuple[float, float, float]


def warning(
    metrics: Mapping[str, Mapping[str, Interval]], baselines: Mapping[str, Mapping[str, float]]
) -> str | None:
    """Returns a line on the first split whose result is no better than its baseline; `None` if
    there is none. Splits go by names such as `test` or `600 test`; test comes before others.

    It is if a metric is no better, and none has an interval that is better as a whole. A metric
    that has no baseline, a perfect one (all labels are alike), or is NaN, does not count.
    """
    for split in sorted(metrics, key=lambda name: ("test" not in name.split(), name)):
        simple, worse, better = baselines.get(split, {}), [], False
        for name, higher in _HIGHER.items():
            if name not in simple or name not in metrics[split]:
                continue
            value, low, high = metrics[split][name]
            if math.isnan(value) or simple[name] == (1.0 if higher else 0.0):
                continue
            sign = 1 if higher else -1
            if sign * value <= sign * simple[name]:
                worse.append(name)
            better |= sign * (low if higher else high) > sign * simple[name]
        if worse and not better:
            value = metrics[split][worse[0]][0]
            return _format_line(split, worse[0], value, simple=simple[worse[0]])
    return None


def check_result(
    metrics: Mapping[str, Mapping[str, float]],
    baselines: Mapping[str, Mapping[str, float]],
    records: Mapping[str, int],
    *,
    intervals: Mapping[str, Mapping[str, Sequence[float | str] | str]] | None = None,
) -> str | None:
    """Returns the `warning` of metrics, by split, of so many `records`, some with `intervals`.

    Without one an area under the ROC of two classes gets the interval that an area of a half has by
    chance: with n records in two classes, n1 and n0, its variance is (n + 1) / (12 n1 n0) (Mann and
    Whitney, 1947). All others count as they are.
    """
    found: dict[str, dict[str, Interval]] = {}
    for split, of in metrics.items():
        known = (intervals or {}).get(split, {})
        chance = _bound_by_chance(baselines.get(split, {}), records.get(split, 0))
        found[split] = {}
        for name, value in of.items():
            width, ends = chance if name == "auc" else 0.0, known.get(name)
            around = (value - width, value + width)
            low, high = around if ends is None or isinstance(ends, str) else map(float, ends[:2])
            found[split][name] = value, low, high
    return warning(found, baselines)


def _bound_by_chance(simple: Mapping[str, float], records: int) -> float:
    """Returns half the 95 % interval of an area of a half; 0 if the classes are not known."""
    share = simple.get("accuracy", 1.0)
    pairs = records**2 * share * (1 - share)
    return _NORMAL * math.sqrt((records + 1) / (12 * pairs)) if pairs else 0.0


def check_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str | None:
    """Returns the `warning` of slices, by split, as JSON has them: of that of all records, without
    what is of too few records."""
    whole = {split: row for split, found in rows.items() for row in found if row["slice"] == "all"}
    metrics = {
        split: {
            name: (one["value"], one["low"], one["high"])
            for name, one in row["metrics"].items()
            if not one["few"]
        }
        for split, row in whole.items()
    }
    return warning(metrics, {split: row["baseline"] for split, row in whole.items()})


def _format_line(split: str, name: str, value: float, *, simple: float) -> str:
    return (
        f"{split} {name} {figure(value)} is no better than the baseline {figure(simple)}, a "
        "constant answer: the features tell the model nothing, or it has not learned it. Try more "
        "train.steps, another train.optimizer.learning_rate, or other features"
    )
