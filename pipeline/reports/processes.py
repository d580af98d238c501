"""How fast the processes of a run were, and where their time went, for its report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pipeline.pages import charts, document
from pipeline.pages.charts import Frame, Point
from pipeline.pages.document import Markup
from pipeline.reports import goodput, timeline
from pipeline.reports.facts import Facts

_WIDE = 480
# More processes than this would make a page all table.
_MOST = 50
# A process has not trained between samples that are more than so many intervals apart.
_APART = 3
# A color for each cause, all different.
CAUSE_COLORS = [
    *(c for c in charts.COLORS if c != charts.GREEN),
    "#9aa5b1",
    "#2f3e56",
    "#e3a6bd",
    "#d4c13a",
]
_KINDS = ("compute", "exchange", "input", "other", "between_steps")


def section(facts: Facts) -> str:
    """Returns how fast each process was over time, and what its steps spend their time on."""
    record, drawn = facts.record, []
    samples = facts.history.samples if facts.history else []
    interval = facts.history.interval if facts.history else 0.0
    tasks = sorted({task for sample in samples for task in sample.tasks})
    if tasks:
        first, last = samples[0].time, samples[-1].time
        top = max(rate for sample in samples for _, rate in sample.tasks.values())
        clock = timeline.TimeAxis(first, last)
        frame = Frame(
            (first, max(last, first + 1)),
            (0, top or 1),
            clock.label,
            "examples/s",
            width=_WIDE,
            x_ticks=clock.ticks,
        )
        marks = []
        for n, task in enumerate(tasks):
            color = charts.COLORS[n % len(charts.COLORS)]
            pieces = _find_pieces(facts, task)
            few = sum(map(len, pieces)) <= charts.FEW
            for piece in pieces:
                marks.append(frame.line(piece, color, thin=len(tasks) > 4))
                if few or len(piece) == 1:
                    marks.append(frame.dots(piece, color))
        key = charts.key(zip(charts.COLORS, tasks, strict=False)) if len(tasks) <= 8 else ""
        note = (
            f"{len(tasks)} processes, sampled every {interval:g} s while they train. A line is "
            "broken where its process did not, and between launches."
        )
        drawn.append(document.figure("Throughput by process", f"{key}{frame.draw(*marks)}", note))
    spent = _render_step_times(record.step_seconds or _select_seconds(facts))
    if spent:
        drawn.append(spent)
    return document.section("Processes", document.figures(*drawn)) if drawn else ""


def _find_pieces(facts: Facts, task: str) -> list[list[Point]]:
    """Returns how fast a process was, in pieces in which it trained all the time: between launches,
    and where it has no sample for long, there is nothing."""
    assert facts.history is not None
    found: list[list[Point]] = []
    for sample in facts.history.samples:
        if task not in sample.tasks:
            continue
        before, now = found[-1][-1][0] if found else -math.inf, sample.time
        begun_since = any(before < launch.began <= now for launch in facts.launches)
        if begun_since or now - before > _APART * facts.history.interval:
            found.append([])
        found[-1].append((now, sample.tasks[task][1]))
    return found


def _select_seconds(facts: Facts) -> dict[str, dict[str, float]]:
    return {name: one.seconds for name, one in facts.statuses.items() if one.seconds}


def _render_step_times(by_task: dict[str, dict[str, float]]) -> str:
    """Returns where the time of a traced step of each process went."""
    rows, colors = [], dict(zip(_KINDS, charts.COLORS, strict=False))
    for task, seconds in sorted(by_task.items()):
        known = {kind: seconds[kind] for kind in _KINDS if kind in seconds}
        whole = sum(known.values())
        if not whole:
            continue
        shares = [(name, known.get(name, 0.0) / whole) for name in colors]
        bar = Markup(_draw_bar(shares, colors, size=(200, 12)))
        rows.append((task, bar, *(f"{share:.0%}" for _, share in shares)))
    if not rows:
        return ""
    names = [kind.replace("_", " ") for kind in _KINDS]
    key = charts.key(zip(charts.COLORS, names, strict=False))
    table = document.table(("process", "", *names), rows, right=range(2, 7))
    note = (
        "Of the newest step that was traced. Between steps is the average of hooks since the trace "
        "before, without saves and evaluations."
    )
    return document.figure("Where the time of a step went", f"{key}{table}", note)


def time_section(
    times: Mapping[str, Mapping[str, float]], parts: Sequence[goodput.CauseShare]
) -> str:
    """Returns where the time of all processes went, and that of each."""
    if not parts:
        return ""
    shown = [part for part in parts if part.seconds or part.name == goodput.USEFUL]
    colors = dict(zip((part.name for part in shown), (charts.GREEN, *CAUSE_COLORS), strict=False))
    rows: list[tuple[str, ...]] = [
        (
            Markup(f'<span style="color:{colors[part.name]}">&#9632;</span> {part.name}'),
            f"{part.share:.1%}",
            f"{part.seconds:,.1f}",
            part.what,
        )
        for part in shown
    ]
    rows.append(("all", "100.0%", f"{sum(part.seconds for part in parts):,.1f}", ""))
    note = (
        "Of all launches, in seconds times the processes that train: examples that survive in the "
        "newest checkpoint, times the best sustained time per example, over wall time times "
        "processes."
    )
    return document.section(
        "Goodput",
        _draw_bar([(part.name, part.share) for part in shown], colors, size=(600, 24)),
        document.table(("", "share", "process seconds", "what"), rows, right={1, 2}),
        f"<p class=note>{note}</p>",
        _render_process_times(times, colors),
    )


def _render_process_times(
    times: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]
) -> str:
    """Returns a bar for each process, and what took most of its time besides what was useful."""
    if len(times) < 2:
        return ""
    rows = []
    for task, seconds in sorted(times.items())[:_MOST]:
        whole = sum(seconds.values()) or 1.0
        shares = [(name, seconds[name] / whole) for name in colors]
        rest = sorted((one for one in shares if one[0] != goodput.USEFUL), key=lambda one: -one[1])
        told = ", ".join(f"{name} {share:.0%}" for name, share in rest[:3] if share >= 0.005)
        bar = Markup(_draw_bar(shares, colors, size=(240, 12)))
        rows.append((task, bar, f"{seconds[goodput.USEFUL] / whole:.0%}", told))
    left = len(times) - len(rows)
    more = f"<p class=note>And {left:,} more processes.</p>" if left else ""
    table = document.table(("process", "", goodput.USEFUL, "most of the rest"), rows, right={2})
    return document.figure("Where the time of each process went", f"{table}{more}")


def _draw_bar(
    shares: Iterable[tuple[str, float]], colors: Mapping[str, str], *, size: tuple[int, int]
) -> str:
    """Returns a bar of boxes, each as wide as its share; they say which they are to who points."""
    width, height = size
    left, boxes = 0.0, []
    for name, share in shares:
        boxes.append(
            f'<rect x="{left:.1f}" width="{width * share:.1f}" height="{height}" '
            f'fill="{colors[name]}"><title>{name} {share:.1%}</title></rect>'
        )
        left += width * share
    return charts.svg(width, height, "".join(boxes))
