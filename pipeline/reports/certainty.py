"""How sure the metrics of a run are: their 95 % intervals, or why they have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.console import figures
from pipeline.reports import few_records
from pipeline.runs.run_record import RunRecord

# Both ends of an interval, and that few records carry its metric; or why there is none.
Ends = Sequence[float | str] | str


def describe(record: RunRecord, split: str, name: str) -> str:
    """Returns the interval of a metric of the final evaluation as text, or that it is of too few
    records; an empty string if neither is known."""
    ends = record.intervals.get(split, {}).get(name)
    return describe_metric(name, record.metrics[split], record.evaluated.get(split), ends=ends)


def describe_best(record: RunRecord) -> str:
    """Returns the same of the best checkpoint of a run, which is found on the eval split."""
    if not record.best:
        return ""
    best, found = record.best, record.metrics.get("eval", {})
    return describe_metric(
        best["metric"], found, record.evaluated.get("eval"), ends=best.get("interval")
    )


def describe_metric(
    name: str, metrics: Mapping[str, float], records: int | None, *, ends: Ends | None
) -> str:
    """Returns the same of a metric of so many records, one among the `metrics` of a split, by what
    is known of its `ends`."""
    return (format_ends(ends) if ends is not None else "") or few_records.describe_shortage(
        name, metrics, records
    )


def format_ends(ends: Ends) -> str:
    """Returns both ends, and that few records carry the metric; or that there are too few records
    or they are all alike; an empty string if there is another cause: see `list_causes`."""
    if not isinstance(ends, str):
        both = figures.interval(float(ends[0]), float(ends[1]))
        return ", ".join([both, *map(str, ends[2:])])
    return ends if ends.startswith((figures.TOO_FEW, figures.ALIKE)) else ""


def list_causes(intervals: Mapping[str, Mapping[str, Ends]]) -> list[str]:
    """Returns a sentence for each other cause, with the metrics of any split that have no interval
    because of it."""
    causes: dict[str, dict[str, None]] = {}
    for found in intervals.values():
        for name, ends in found.items():
            if isinstance(ends, str) and not format_ends(ends):
                causes.setdefault(ends, {})[name] = None
    return [f"No interval: {', '.join(names)} ({cause})." for cause, names in causes.items()]


def bracket(sure: str) -> str:
    """Returns an interval, or why there is none in parentheses."""
    return f"({sure})" if sure and not sure.startswith("[") else sure
