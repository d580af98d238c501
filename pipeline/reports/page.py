"""The report of a run: one HTML file without scripts or anything to fetch."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline import redaction, storage
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.console import figures
from pipeline.console.figures import figure
from pipeline.console.progress import duration
from pipeline.pages import charts, document
from pipeline.pages.charts import Frame
from pipeline.reports import (
    certainty,
    data,
    evaluated,
    goodput,
    processes,
    servers,
    timeline,
    unlearned,
)
from pipeline.reports import facts as facts_of
from pipeline.reports.events import Point
from pipeline.reports.facts import Facts

FILE_NAME = "report.html"
_POINTS = 400
# What accompanies the report in the folder of a run, if it is there.
_LINKS = ("evaluation.html", "config.yaml", "run.json", "logs/")


def render(facts: Facts) -> str:
    """Returns the page."""
    times = facts_of.times_of(facts)
    parts = goodput.parts(times) if times else []
    sections = [
        _render_result(facts),
        _plot_curves(facts),
        processes.section(facts),
        servers.section(facts),
        processes.time_section(times, parts),
        timeline.section(facts),
        _render_ledger(facts),
        _render_slices(facts),
        evaluated.section(facts.run),
        data.section(facts.data),
        _render_config(facts),
        _render_versions(facts),
    ]
    return document.document(f"Run {facts.run.name}", _lead(facts, parts), filter(None, sections))


def _lead(facts: Facts, parts: Sequence[goodput.CauseShare]) -> str:
    record = facts.record
    state = facts.state + (f": {facts.reason}" if facts.reason else "")
    pairs = [("state", facts.state), ("step", _format_step(facts))]
    if record.best:
        sure = certainty.describe_best(record)
        title = f"best {record.best['metric']}"
        title += f" {sure}" if sure.startswith("[") else f", {sure}" if sure else ""
        pairs.append((title, figure(record.best["value"])))
    if facts.seconds:
        pairs.append(("time", duration(facts.seconds)))
    if record.examples_per_second:
        pairs.append(("examples/s", f"{record.examples_per_second:,.0f}"))
    if parts:
        pairs.append(("goodput", f"{parts[0].share:.0%}"))
    if record.restarts:
        pairs.append(("restarts", f"{len(record.restarts)}"))
    counts = topology.describe_counts(record.topology)
    lead = (
        f"Config {html.escape(record.config)}, {html.escape(record.strategy)} with {counts}. "
        f"{html.escape(redaction.redact(state).rstrip('.'))}."
    )
    links = [name for name in _LINKS if storage.exists(storage.join(facts.run.path, name))]
    shown = ", ".join(f'<a href="{name}">{name}</a>' for name in links)
    return f"{lead} {shown}</p>{document.tiles(pairs)}<p class=lead>"


def _format_step(facts: Facts) -> str:
    steps = [one.step for one in facts.statuses.values() if one.step is not None]
    newest = facts.record.final_step or max(steps, default=None)
    planned = facts.job.train.steps
    text = "none" if newest is None else f"{newest:,}"
    return f"{text} of {planned:,}" if planned else text


def _render_result(facts: Facts) -> str:
    metrics = facts.record.metrics
    if not metrics:
        return document.section("Result", "<p>There is no final evaluation yet.</p>")
    splits = list(metrics)
    names = sorted({name for of in metrics.values() for name in of} - {"global_step"})
    rows = [(name, *(_format_value(facts, split, name) for split in splits)) for name in names]
    drawn = [document.table(("metric", *splits), rows, right=range(1, 1 + len(splits)))]
    if unlearnt := _warn_if_unlearned(facts):
        drawn.append(f"<p class=note>{html.escape(unlearnt)}.</p>")
    said = map(html.escape, certainty.list_causes(facts.record.intervals))
    if facts.slices or facts.record.intervals:
        group = facts.job.eval.group
        of = f", for which groups by {html.escape(group)} are independent" if group else ""
        note = " ".join([f"In brackets: 95 % intervals{of}.", *said])
        drawn.append(f"<p class=note>{note}</p>")
    elif facts.job.data.has_records and not storage.exists(
        storage.join(facts.run.path, evaluated.PAGE)
    ):
        name = html.escape(facts.run.name)
        drawn.append(f"<p class=note>For intervals and plots: make evaluate RUN={name}</p>")
    return document.section("Result", *drawn)


def _warn_if_unlearned(facts: Facts) -> str | None:
    """Says so if the result is no better than a constant answer, by intervals if there are any."""
    record = facts.record
    if facts.slices and not record.intervals:  # of an earlier version
        return unlearned.check_rows(facts.slices)
    return unlearned.check_result(
        record.metrics, record.baselines, record.evaluated, intervals=record.intervals
    )


def _format_value(facts: Facts, split: str, name: str) -> str:
    """Returns a metric, with its interval: that of the slice of all records in runs of earlier
    versions, which do not record it."""
    record = facts.record
    value = record.metrics[split].get(name)
    if value is None:
        return ""
    whole = (row for row in facts.slices.get(split, []) if row["slice"] == "all")
    one = next((row["metrics"].get(name) for row in whole), None)
    sure = certainty.describe(record, split, name)
    if one and split not in record.intervals:
        sure = _format_interval(one)
    return " ".join(filter(None, [figure(value, 5), sure]))


def _plot_curves(facts: Facts) -> str:
    metric = facts.job.eval.metric
    # The same in all plots, also in those that lack one.
    colors = dict(zip(("train", *facts.evaluations), itertools.cycle(charts.COLORS), strict=False))
    drawn = []
    for tag in dict.fromkeys(("loss", metric, "learning_rate")):
        lines = [("train", facts.training.curve(tag))]
        lines += [(split, of.curve(tag)) for split, of in facts.evaluations.items()]
        shown = [(name, thinned) for name, points in lines if (thinned := _thin_out(points))]
        if shown:
            drawn.append(_plot_by_step(tag, shown, colors))
    return document.section("Curves", document.figures(*drawn)) if drawn else ""


def _plot_by_step(
    title: str, shown: Sequence[tuple[str, Sequence[Point]]], colors: Mapping[str, str]
) -> str:
    values = [p.value for _, points in shown for p in points]
    last = max(p.step for _, points in shown for p in points)
    low, high = min(values), max(values)
    frame = Frame((0, max(1, last)), (min(0.0, low), high or 1.0), "step", title)
    marks = []
    for name, points in shown:
        color = colors[name]
        places = [(float(p.step), p.value) for p in points]
        few = len(places) <= charts.FEW
        marks.append(frame.line(places, color) + (frame.dots(places, color) if few else ""))
    key = charts.key((colors[name], name) for name, _ in shown)
    return document.figure(title, f"{key}{frame.draw(*marks)}")


def _thin_out(points: Sequence[Point]) -> list[Point]:
    """Leaves out what cannot be drawn."""
    finite = [point for point in points if math.isfinite(point.value)]
    every = max(1, math.ceil(len(finite) / _POINTS))
    return [*finite[::every], *(finite[-1:] if (len(finite) - 1) % every else [])]


def _render_ledger(facts: Facts) -> str:
    counts = facts.record.input
    if not counts:
        return ""
    head = ("epoch", "due", "once", "more", "never", "skipped", "left")
    rows = [[f"{row.get(name, 0):,}" for name in head] for row in counts[-20:]]
    older = f"The last 20 of {len(counts):,} epochs. " if len(counts) > 20 else ""
    backup = facts.job.cluster.backup_workers
    what = "were handed out" if backup else "have trained the model"
    late = f" Late gradients were dropped (cluster.backup_workers={backup})." if backup else ""
    note = f"{older}How often records {what}, by the newest checkpoint.{late}"
    return document.section(
        "Ledger",
        document.table(head, rows, right=range(7)),
        f"<p class=note>{note}</p>",
    )


def _render_slices(facts: Facts) -> str:
    drawn = []
    for split, rows in facts.slices.items():
        if split in facts.record.intervals and all(row["slice"] == "all" for row in rows):
            continue  # the result has them
        cells = [
            _build_slice_row(row, name, one) for row in rows for name, one in row["metrics"].items()
        ]
        head = ("slice", "records", "metric", "value", "95 % interval")
        drawn.append(document.figure(split, document.table(head, cells, right={1, 3})))
    return document.section("Slices", document.figures(*drawn)) if drawn else ""


def _build_slice_row(row: dict[str, Any], name: str, one: dict[str, Any]) -> tuple[str, ...]:
    return row["slice"], f"{row['records']:,}", name, figure(one["value"]), _format_interval(one)


def _format_interval(one: dict[str, Any]) -> str:
    known = {key: one[key] for key in ("few", "alike", "few_carry", "units") if key in one}
    return figures.interval(one["low"], one["high"], **known)


def _render_config(facts: Facts) -> str:
    text = config_file.changes(facts.job)
    return document.section(
        "Config", "<p>What differs from the defaults.</p>", f"<pre>{html.escape(text)}</pre>"
    )


def _render_versions(facts: Facts) -> str:
    record = facts.record
    hosts: dict[str, list[str]] = {}
    for task, status in sorted(facts.statuses.items()):
        hosts.setdefault(status.host, []).append(task)
    rows = [*record.versions.items()]
    rows += [(f"host {host}", _describe_host(facts, tasks)) for host, tasks in hosts.items()]
    if record.manifest:
        rows.append(("manifest", record.manifest))
    rows += [_format_left_out(split, causes) for split, causes in record.left_out.items()]
    return document.section("Versions and machines", document.table(("", ""), rows))


def _describe_host(facts: Facts, tasks: Sequence[str]) -> str:
    """Returns what a machine has, if its processes told, and which they are."""
    of = next((found for task in tasks if (found := facts.statuses[task].machine)), None)
    if of is None:
        return ", ".join(tasks)
    gpus = f", {of['gpus']} GPUs" if of.get("gpus") else ""
    has = f"{of['cores']} processors, {of['memory'] / 1e9:,.1f} GB of memory{gpus}, {of['system']}"
    return f"{has}: {', '.join(tasks)}"


def _format_left_out(split: str, causes: dict[str, int]) -> tuple[str, str]:
    counted: Iterable[str] = (f"{count:,} {cause}" for cause, count in causes.items())
    return f"left out of {split}", ", ".join(counted)
