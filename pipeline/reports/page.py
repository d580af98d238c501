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
from pipeline.pages.document import Markup
from pipeline.reports import data, goodput, timeline, unlearned
from pipeline.reports import facts as facts_of
from pipeline.reports.events import Point
from pipeline.reports.facts import Facts

FILE_NAME = "report.html"
_POINTS = 400
_WIDE = 480
# What accompanies the report in the folder of a run, if it is there.
_LINKS = ("evaluation.html", "config.yaml", "run.json", "logs/")
# A color for each cause, all different.
_CAUSE_COLORS = [
    *(c for c in charts.COLORS if c != charts.GREEN),
    "#9aa5b1",
    "#2f3e56",
    "#e3a6bd",
    "#d4c13a",
]
_KINDS = ("compute", "exchange", "input", "other", "between_steps")


def render(facts: Facts) -> str:
    """Returns the page."""
    parts = facts_of.goodput_of(facts)
    sections = [
        _result(facts),
        _curves(facts),
        _throughput(facts),
        _goodput(parts),
        timeline.section(facts),
        _ledger(facts),
        _slices(facts),
        data.section(facts.data),
        _config(facts),
        _versions(facts),
    ]
    return document.document(f"Run {facts.run.name}", _lead(facts, parts), filter(None, sections))


def _lead(facts: Facts, parts: Sequence[goodput.Part]) -> str:
    record = facts.record
    state = facts.state + (f": {facts.reason}" if facts.reason else "")
    pairs = [("state", facts.state), ("step", _step(facts))]
    if record.best:
        pairs.append((f"best {record.best['metric']}", figure(record.best["value"])))
    if facts.seconds:
        pairs.append(("time", duration(facts.seconds)))
    if record.examples_per_second:
        pairs.append(("examples/s", f"{record.examples_per_second:,.0f}"))
    if parts:
        pairs.append(("goodput", f"{parts[0].share:.0%}"))
    if record.restarts:
        pairs.append(("restarts", f"{len(record.restarts)}"))
    counts = topology.counted(record.topology)
    lead = (
        f"Config {html.escape(record.config)}, {html.escape(record.strategy)} with {counts}. "
        f"{html.escape(redaction.redact(state).rstrip('.'))}."
    )
    links = [name for name in _LINKS if storage.exists(storage.join(facts.run.path, name))]
    shown = ", ".join(f'<a href="{name}">{name}</a>' for name in links)
    return f"{lead} {shown}</p>{document.tiles(pairs)}<p class=lead>"


def _step(facts: Facts) -> str:
    steps = [one.step for one in facts.statuses.values() if one.step is not None]
    newest = facts.record.final_step or max(steps, default=None)
    planned = facts.job.train.steps
    text = "none" if newest is None else f"{newest:,}"
    return f"{text} of {planned:,}" if planned else text


def _result(facts: Facts) -> str:
    metrics = facts.record.metrics
    if not metrics:
        return document.section("Result", "<p>There is no final evaluation yet.</p>")
    splits = list(metrics)
    names = sorted({name for of in metrics.values() for name in of} - {"global_step"})
    rows = [(name, *(_value(facts, split, name) for split in splits)) for name in names]
    drawn = [document.table(("metric", *splits), rows, right=range(1, 1 + len(splits)))]
    if unlearnt := _unlearned(facts):
        drawn.append(f"<p class=note>{html.escape(unlearnt)}.</p>")
    if facts.slices:
        drawn.append("<p class=note>In brackets: 95 % intervals.</p>")
    elif facts.job.data.has_records and not storage.exists(
        storage.join(facts.run.path, "evaluation.html")
    ):
        name = html.escape(facts.run.name)
        drawn.append(f"<p class=note>For intervals and plots: make evaluate RUN={name}</p>")
    return document.section("Result", *drawn)


def _unlearned(facts: Facts) -> str | None:
    """Says so if the result is no better than a constant answer, by intervals if there are any."""
    if facts.slices:
        return unlearned.of_rows(facts.slices)
    record = facts.record
    return unlearned.of_result(record.metrics, record.baselines, record.evaluated)


def _value(facts: Facts, split: str, name: str) -> str:
    """Returns a metric, with its interval if the export's slices have one of all records."""
    value = facts.record.metrics[split].get(name)
    if value is None:
        return ""
    whole = (row for row in facts.slices.get(split, []) if row["slice"] == "all")
    one = next((row["metrics"].get(name) for row in whole), None)
    return f"{figure(value, 5)} {_interval(one)}" if one else figure(value, 5)


def _curves(facts: Facts) -> str:
    metric = facts.job.eval.metric
    # The same in all plots, also in those that lack one.
    colors = dict(zip(("train", *facts.evaluations), itertools.cycle(charts.COLORS), strict=False))
    drawn = []
    for tag in dict.fromkeys(("loss", metric, "learning_rate")):
        lines = [("train", facts.training.curve(tag))]
        lines += [(split, of.curve(tag)) for split, of in facts.evaluations.items()]
        shown = [(name, thinned) for name, points in lines if (thinned := _thinned(points))]
        if shown:
            drawn.append(_by_step(tag, shown, colors))
    return document.section("Curves", document.figures(*drawn)) if drawn else ""


def _by_step(
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
        few = len(places) <= 20
        marks.append(frame.line(places, color) + (frame.dots(places, color) if few else ""))
    key = charts.key((colors[name], name) for name, _ in shown)
    return document.figure(title, f"{key}{frame.draw(*marks)}")


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Leaves out what cannot be drawn."""
    finite = [point for point in points if math.isfinite(point.value)]
    every = max(1, math.ceil(len(finite) / _POINTS))
    return [*finite[::every], *(finite[-1:] if (len(finite) - 1) % every else [])]


def _throughput(facts: Facts) -> str:
    record, drawn = facts.record, []
    samples = facts.history.samples if facts.history else []
    interval = facts.history.interval if facts.history else 0.0
    tasks = sorted({task for sample in samples for task in sample.tasks})
    if tasks:
        first, last = samples[0].time, samples[-1].time
        top = max(rate for sample in samples for _, rate in sample.tasks.values())
        clock = timeline.Clock(first, last)
        frame = Frame(
            (first, max(last, first + 1)),
            (0, top or 1),
            clock.label,
            "examples/s",
            width=_WIDE,
            x_ticks=clock.ticks,
        )
        marks = [
            frame.line(
                [(s.time, s.tasks[task][1]) for s in samples if task in s.tasks],
                charts.COLORS[n % len(charts.COLORS)],
                thin=len(tasks) > 4,
            )
            for n, task in enumerate(tasks)
        ]
        key = charts.key(zip(charts.COLORS, tasks, strict=False)) if len(tasks) <= 8 else ""
        note = f"{len(tasks)} processes, sampled every {interval:g} s while they train."
        drawn.append(document.figure("Throughput by process", f"{key}{frame.draw(*marks)}", note))
    spent = _spent(record.step_seconds or _of_statuses(facts))
    if spent:
        drawn.append(spent)
    return document.section("Processes", document.figures(*drawn)) if drawn else ""


def _of_statuses(facts: Facts) -> dict[str, dict[str, float]]:
    return {name: one.seconds for name, one in facts.statuses.items() if one.seconds}


def _spent(by_task: dict[str, dict[str, float]]) -> str:
    """Returns where the time of a traced step of each process went."""
    rows = []
    for task, seconds in sorted(by_task.items()):
        known = {kind: seconds[kind] for kind in _KINDS if kind in seconds}
        whole = sum(known.values())
        if not whole:
            continue
        left, boxes = 0.0, []
        for kind, color in zip(_KINDS, charts.COLORS, strict=False):
            width = 200 * known.get(kind, 0.0) / whole
            boxes.append(
                f'<rect x="{left:.1f}" width="{width:.1f}" height="12" fill="{color}">'
                f"<title>{kind}</title></rect>"
            )
            left += width
        shares = [f"{known.get(kind, 0.0) / whole:.0%}" for kind in _KINDS]
        rows.append((task, Markup(charts.svg(200, 12, "".join(boxes))), *shares))
    if not rows:
        return ""
    names = [kind.replace("_", " ") for kind in _KINDS]
    key = charts.key(zip(charts.COLORS, names, strict=False))
    table = document.table(("process", "", *names), rows, right=range(2, 7))
    return document.figure(
        "Where the time of a step went", f"{key}{table}", "Of the newest step that was traced."
    )


def _goodput(parts: Sequence[goodput.Part]) -> str:
    if not parts:
        return ""
    left, boxes = 0.0, []
    shown = [part for part in parts if part.seconds or part.name == goodput.USEFUL]
    colors = [charts.GREEN, *_CAUSE_COLORS[: len(shown) - 1]]
    for part, color in zip(shown, colors, strict=True):
        width = 600 * part.share
        boxes.append(
            f'<rect x="{left:.1f}" width="{width:.1f}" height="24" fill="{color}">'
            f"<title>{part.name} {part.share:.1%}</title></rect>"
        )
        left += width
    rows: list[tuple[str, ...]] = [
        (
            Markup(f'<span style="color:{color}">&#9632;</span> {part.name}'),
            f"{part.share:.1%}",
            f"{part.seconds:,.1f}",
            part.what,
        )
        for part, color in zip(shown, colors, strict=True)
    ]
    rows.append(("all", "100.0%", f"{sum(part.seconds for part in parts):,.1f}", ""))
    note = (
        "Of all launches, in seconds times the processes that train: examples that survive in the "
        "newest checkpoint, times the best sustained time per example, over wall time times "
        "processes."
    )
    return document.section(
        "Goodput",
        charts.svg(600, 24, "".join(boxes)),
        document.table(("", "share", "process seconds", "what"), rows, right={1, 2}),
        f"<p class=note>{note}</p>",
    )


def _ledger(facts: Facts) -> str:
    counts = facts.record.input
    if not counts:
        return ""
    head = ("epoch", "due", "once", "more", "never", "skipped", "left")
    rows = [[f"{row.get(name, 0):,}" for name in head] for row in counts[-20:]]
    older = f"The last 20 of {len(counts):,} epochs. " if len(counts) > 20 else ""
    note = f"{older}How often records have trained the model, by the newest checkpoint."
    return document.section(
        "Ledger",
        document.table(head, rows, right=range(7)),
        f"<p class=note>{note}</p>",
    )


def _slices(facts: Facts) -> str:
    drawn = []
    for split, rows in facts.slices.items():
        cells = [_slice(row, name, one) for row in rows for name, one in row["metrics"].items()]
        head = ("slice", "records", "metric", "value", "95 % interval")
        drawn.append(document.figure(split, document.table(head, cells, right={1, 3})))
    return document.section("Slices", document.figures(*drawn)) if drawn else ""


def _slice(row: dict[str, Any], name: str, one: dict[str, Any]) -> tuple[str, ...]:
    return row["slice"], f"{row['records']:,}", name, figure(one["value"]), _interval(one)


def _interval(one: dict[str, Any]) -> str:
    few, alike = (one.get(key, False) for key in ("few", "alike"))
    return figures.interval(one["low"], one["high"], few=few, alike=alike)


def _config(facts: Facts) -> str:
    text = config_file.changes(facts.job)
    return document.section(
        "Config", "<p>What differs from the defaults.</p>", f"<pre>{html.escape(text)}</pre>"
    )


def _versions(facts: Facts) -> str:
    record = facts.record
    hosts: dict[str, list[str]] = {}
    for task, status in sorted(facts.statuses.items()):
        hosts.setdefault(status.host, []).append(task)
    rows = [*record.versions.items()]
    rows += [(f"host {host}", ", ".join(tasks)) for host, tasks in hosts.items()]
    if record.manifest:
        rows.append(("manifest", record.manifest))
    rows += [_left_out(split, causes) for split, causes in record.left_out.items()]
    return document.section("Versions and machines", document.table(("", ""), rows))


def _left_out(split: str, causes: dict[str, int]) -> tuple[str, str]:
    counted: Iterable[str] = (f"{count:,} {cause}" for cause, count in causes.items())
    return f"left out of {split}", ", ".join(counted)
