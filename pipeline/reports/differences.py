"""What differs between two runs, by what they have left: config, code, data, outcome."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline import config, redaction
from pipeline.cluster import topology
from pipeline.console.figures import figure
from pipeline.console.progress import duration
from pipeline.records.manifest import ColumnStatistics, Manifest
from pipeline.reports import facts as facts_of
from pipeline.reports import goodput
from pipeline.reports.facts import Facts
from pipeline.storage import strict_json

# What it is, and what it is in A and in B; empty where it is not set.
Row = tuple[str, str, str]
_ABSENT = object()


def compare_configs(a: config.Config, b: config.Config) -> list[Row]:
    """Returns the keys of the configs that differ, with secrets taken out."""
    one, other = (dict(_flatten(job.model_dump(mode="json"))) for job in (a, b))
    keys = [*one, *(key for key in other if key not in one)]
    return [
        (
            key,
            _format_value(key, one.get(key, _ABSENT)),
            _format_value(key, other.get(key, _ABSENT)),
        )
        for key in keys
        if one.get(key, _ABSENT) != other.get(key, _ABSENT)
    ]


def _flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _flatten(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner


def _format_value(key: str, value: Any) -> str:
    if value is _ABSENT:
        return ""
    shown = redaction.redact_value(key.rpartition(".")[2], value)
    return shown if isinstance(shown, str) else strict_json.dumps(shown)


def compare_code(a: Facts, b: Facts) -> list[Row]:
    """Returns the versions that differ: of the code, of Python and of libraries."""
    one, other = a.record.versions, b.record.versions
    names = [*one, *(name for name in other if name not in one)]
    rows = [(name, one.get(name, ""), other.get(name, "")) for name in names]
    return [row for row in rows if row[1] != row[2]]


def compare_outcomes(a: Facts, b: Facts) -> list[Row]:
    """Returns what became of both runs: steps, time, speed, goodput; equal or not."""
    one, other = (dict(_list_outcome(facts)) for facts in (a, b))
    rows = [(name, one.get(name, ""), other.get(name, "")) for name in _merge_names(one, other)]
    return [row for row in rows if row[1] or row[2]]


def _merge_names(one: Iterable[str], other: Iterable[str]) -> list[str]:
    """Returns all names: those of `other` alone stand after what precedes them there."""
    names, at = [*one], 0
    for name in other:
        if name in names:
            at = names.index(name)
        else:
            names.insert(at, name)
        at += 1
    return names


def _list_outcome(facts: Facts) -> Iterator[tuple[str, str]]:
    record = facts.record
    yield "status", facts.state
    yield "strategy", record.strategy
    yield "processes", topology.describe_counts(record.topology)
    if record.final_step is not None:
        yield "steps", f"{record.final_step:,}"
    if facts.seconds:
        yield "time", duration(facts.seconds)
        yield "process hours", figure(facts.process_seconds / 3600)
    if record.examples_per_second:
        yield "examples/s", f"{record.examples_per_second:,.0f}"
    for part in facts_of.goodput_of(facts):
        if part.name == goodput.USEFUL:
            yield "goodput", f"{part.share:.1%}"
        else:
            yield f"time for {part.name}", f"{part.share:.1%}" if part.share >= 0.0005 else ""
    yield "restarts", str(len(record.restarts))
    yield "launches", str(record.launches)


def compare_statistics(a: Manifest, b: Manifest, split: str = "train") -> list[Row]:
    """Returns the columns whose statistics differ in a split: what is in one of the two alone, and
    of the others share of missing values, mean, deviation, extremes and number of values."""
    rows: list[Row] = []
    for name in [*a.columns, *(name for name in b.columns if name not in a.columns)]:
        if name not in a.columns or name not in b.columns:
            there = ["column" if name in side.columns else "" for side in (a, b)]
            rows.append((name, there[0], there[1]))
            continue
        if a.columns[name].type != b.columns[name].type:
            rows.append((f"{name}: type", a.columns[name].type, b.columns[name].type))
        found = [side.statistics.get(split) for side in (a, b)]
        if found[0] is None or found[1] is None:
            continue
        one, other = (
            dict(_list_facts(side.columns.get(name))) for side in found if side is not None
        )
        rows += [
            (f"{name}: {what}", one.get(what, ""), other.get(what, ""))
            for what in dict.fromkeys([*one, *other])
            if one.get(what) != other.get(what)
        ]
    return rows


def _list_facts(found: ColumnStatistics | None) -> Iterable[tuple[str, str]]:
    if found is None:
        return
    rows = found.count + found.missing
    yield "missing", f"{found.missing / rows:.2%}" if rows else ""
    if found.mean is not None:
        yield "mean", figure(found.mean)
    if found.variance is not None:
        yield "deviation", figure(math.sqrt(found.variance))
    for name in ("min", "max"):
        value = getattr(found, name)
        if value is not None:
            yield name, figure(float(value))
    if found.distinct is not None:
        yield "values", f"{found.distinct:,}"
