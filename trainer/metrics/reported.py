"""Which intervals the metrics of a model have, by the names that it reports them by."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipeline.console import figures
from trainer.metrics import intervals
from trainer.metrics.slice_metrics import SliceResult

# A metric to both ends of its interval, and that few records carry it; or to why it has none.
Ends = list[float | str] | str
Intervals = dict[str, Ends]
# Why a metric has none, if that is not for its records, of which `figures` tells.
OWN = "not computed from the predictions of single records"
UNDEFINED = "not defined on these records"
WEIGHTED = "records count by their weight"
MORE = "in units of its own, or with more than the errors of records"
# Metrics of a model are float32.
_ROUNDING = 1e-5


def find_intervals(
    metrics: Mapping[str, float],
    results: Mapping[str | None, SliceResult],
    *,
    weighted: bool = False,
) -> Intervals:
    """Returns the intervals of the `metrics` of a split, which was evaluated by each label;
    `weighted` if records count by their weight in these: in `results` they never do."""
    found: Intervals = {}
    for name in metrics:
        if name == "global_step":
            continue
        label = next((one for one in results if one and name.startswith(f"{one}/")), None)
        prefix = f"{label}/" if label else ""
        own = {key.removeprefix(prefix): x for key, x in metrics.items() if key.startswith(prefix)}
        result = results.get(label, SliceResult([]))
        found[name] = _find_ends(name.removeprefix(prefix), own, result, weighted=weighted)
    return found


def _find_ends(
    name: str, metrics: Mapping[str, float], result: SliceResult, *, weighted: bool
) -> Ends:
    value, mean = metrics[name], result.reported.get("average_loss")
    one = result.reported.get(name)
    if name == "loss" and one is None and mean is not None:
        if not weighted and not _are_equal(value, metrics.get("average_loss", mean.value)):
            return MORE
        one = mean
    if one is None:
        if weighted:
            return WEIGHTED
        return UNDEFINED if math.isnan(value) and result.reported else OWN
    if one.few:
        return figures.interval(one.low, one.high, few=True, alike=one.alike, units=one.units)
    if weighted and not _are_equal(value, one.value):
        return WEIGHTED
    if result.every > 1:
        one = intervals.narrow(one, result.every, value)
    # A model of the user's own may call something else so.
    inside = one.low <= value <= one.high or _are_equal(value, one.value)
    if not inside:
        return OWN
    return [one.low, one.high, *([figures.describe_carriers(one.units)] if one.few_carry else [])]


def _are_equal(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_ROUNDING)
