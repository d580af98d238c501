"""A plan for people: the table, the lines to paste, and one page with a plot."""

from __future__ import annotations

import html
from collections.abc import Sequence

from pipeline.console import figures, progress, text_table
from pipeline.pages import charts, document
from pipeline.pages.charts import Frame
from pipeline.planning import costs
from pipeline.planning.costs import Outlook
from pipeline.planning.demands import Calibration, Machines
from pipeline.planning.prediction import Predicted

_COLUMNS = (
    "strategy",
    "workers",
    "ps",
    "examples/s",
    "limited by",
    "busy",
    "staleness",
    "memory per ps",
    "trains",
    "time",
    "USD",
)
_NUMBERS = (1, 2, 3, 5, 6, 7, 8, 9, 10)
_WIDTH, _HEIGHT = 520, 320


def lines(outlooks: Sequence[Outlook]) -> list[str]:
    """Returns the plan as a table for the terminal."""
    return text_table.lines([_COLUMNS, *map(_build_row, outlooks)], right=_NUMBERS)


def _build_row(one: Outlook) -> tuple[str, ...]:
    found = one.predicted
    busy = found.busy.get(found.bottleneck)
    return (
        found.strategy,
        str(found.workers),
        str(found.servers or "-"),
        _format_rate(found),
        found.bottleneck,
        "-" if busy is None else f"{busy:.0%}",
        _format_staleness(found),
        figures.size(round(found.server_memory)) if found.servers else "-",
        f"{one.training_share:.1%}",
        _format_time(one),
        _format_usd(one),
    )


def _format_rate(found: Predicted) -> str:
    high = f"{found.high:,.0f}"
    return f"at most {high}" if found.is_bound else f"{found.low:,.0f} to {high}"


def _format_staleness(found: Predicted) -> str:
    if found.staleness is None:
        return "-"
    low, high = (f"{late:.1f}" for late in found.staleness)
    return low if low == high else f"{low} to {high}"


def _format_time(one: Outlook) -> str:
    if one.hours is None:
        return "-"
    low, high = (progress.duration(hours * 3600) for hours in one.hours)
    if one.is_open:
        return f"over {low}"
    return low if low == high else f"{low} to {high}"


def _format_usd(one: Outlook) -> str:
    if one.usd is None:
        return "-"
    low, high = one.usd
    return f"over {low:,.2f}" if one.is_open else f"{low:,.2f} to {high:,.2f}"


def format_measured(found: Calibration) -> list[str]:
    """Returns what a step was measured to take, a line each."""
    counted = (
        "counted in the run's own network" if found.runs[-1].counted_bytes else "by traces of steps"
    )
    run = found.runs[-1]
    rows = [
        f"{found.strategy}: a step of {found.examples_per_process:,} examples takes "
        f"{1e3 * found.mean('worker_cpu'):,.2f} ms of a training process's processor"
    ]
    if found.has_servers:
        rows[0] += f" and {1e3 * found.mean('server_cpu'):,.2f} ms of the servers'"
        rows.append(
            f"  it pulls {figures.size(round(found.mean('pulled')))} and pushes "
            f"{figures.size(round(found.mean('pushed')))} ({counted}), "
            f"{found.mean('rows'):,.0f} rows of tables"
        )
        if found.further_server is not None:
            rows.append(
                f"  each further server takes {1e3 * found.further_server.worker:,.2f} ms of a "
                f"training process's processor and {1e3 * found.further_server.server:,.2f} ms of "
                "the servers', by a step that does nothing else"
            )
    elif run.pushed:
        rows.append(f"  it sends {figures.size(round(run.pushed))} to other processes ({counted})")
    parts = ", ".join(
        f"{state} {1e3 * seconds:,.2f} ms" for state, seconds in run.seconds.items() if seconds > 0
    )
    rows.append(f"  with {costs.format_count(run.workers, 'worker')} its time went to {parts}")
    evaluation = run.evaluation_seconds
    shown = "not seen" if evaluation is None else f"{evaluation:,.1f} s"
    rows.append(
        f"  start {run.start_seconds:,.1f} s, a save {run.save_seconds:,.2f} s, "
        f"an evaluation {shown}"
    )
    return rows


def settings(one: Outlook) -> str:
    """Returns the lines of a config that ask for a topology."""
    found = one.predicted
    ps = f"\n  ps: {found.servers}" if found.servers else ""
    return f"cluster:\n  strategy: {found.strategy}\n  workers: {found.workers}{ps}"


def knees(outlooks: Sequence[Outlook]) -> list[str]:
    """Returns for each strategy and number of servers how many workers are worth their while, as
    far as rates show that."""
    found = []
    for strategy, servers in _list_groups(outlooks):
        of = [one.predicted for one in outlooks if _get_group(one) == (strategy, servers)]
        last = costs.knee(of)
        ratio = f"{costs.format_count(servers, 'server')}: " if servers else ""
        if costs.is_last_helpful(of):
            found.append(f"{strategy}, {ratio}each worker still helps at {last.workers}")
        elif last.workers < max(one.workers for one in of):
            found.append(
                f"{strategy}, {ratio}beyond {costs.format_count(last.workers, 'worker')} each adds "
                "less than half of what the first do"
            )
    return found


def _get_group(one: Outlook) -> tuple[str, int]:
    return one.predicted.strategy, one.predicted.servers


def _list_groups(outlooks: Sequence[Outlook]) -> list[tuple[str, int]]:
    return list(dict.fromkeys(_get_group(one) for one in outlooks))


def limits(machines: Machines, *, machine: str, preemptions: float) -> str:
    """Returns what a plan is for: machines, of which each is a `machine` of the price table if that
    is known, and how often a day each is lost."""
    found = [f"{machines.worker:g} cores for each process" if machines.worker else "the same cores"]
    if machines.worker_link:
        found.append(f"links of {machines.worker_link * 8 / 1e6:g} Mbit/s")
    if machines.disk:
        found.append(f"storage of {machines.disk / 1e6:g} MB/s")
    if machine:
        found.append(f"the price of {machine}")
    if preemptions:
        found.append(f"each machine lost {preemptions:g} times a day")
    return ", ".join(found)


def render(
    title: str,
    outlooks: Sequence[Outlook],
    found: Sequence[Calibration],
    *,
    lead: str,
    chosen: Outlook | None,
) -> str:
    """Returns the plan as one page."""
    parts = [
        document.section(
            "Throughput", document.figure("Examples a second", _plot(outlooks), _NOTE)
        ),
        document.section(
            "Topologies", document.table(_COLUMNS, map(_build_row, outlooks), right=_NUMBERS)
        ),
    ]
    measured = [line for one in found for line in format_measured(one)]
    for name, lines_ in (("Knee", knees(outlooks)), ("Measured", measured)):
        if lines_:
            parts.append(document.section(name, *(f"<p>{html.escape(one)}</p>" for one in lines_)))
    if chosen is not None:
        parts.insert(
            0,
            document.section(
                "Config",
                f"<p>{html.escape(chosen.name)}</p><pre>{html.escape(settings(chosen))}</pre>",
            ),
        )
    return document.document(title, html.escape(lead), parts)


_NOTE = (
    "Bands are ranges; a dashed line is where a resource is busier than it was in any calibration "
    "run, so that only an upper bound is known."
)


def _plot(outlooks: Sequence[Outlook]) -> str:
    predicted = [one.predicted for one in outlooks]
    frame = Frame(
        (0, max(one.workers for one in predicted) + 1),
        (0, 1.05 * max(one.high for one in predicted)),
        "workers besides the chief",
        "examples/s",
        width=_WIDTH,
        height=_HEIGHT,
    )
    marks, names = [], []
    for (strategy, servers), color in zip(_list_groups(outlooks), _choose_colors(), strict=False):
        of = sorted(
            (one.predicted for one in outlooks if _get_group(one) == (strategy, servers)),
            key=lambda one: one.workers,
        )
        known = [one for one in of if not one.is_bound]
        marks.append(frame.band([(one.workers, one.low, one.high) for one in known], color))
        marks.append(frame.line([(one.workers, one.rate) for one in known], color))
        marks.append(frame.dots([(one.workers, one.rate) for one in known], color))
        # At most so much: the bound that the table has, from the top of the band on.
        beyond = known[-1:] + [one for one in of if one.is_bound]
        marks.append(frame.line([(one.workers, one.high) for one in beyond], color, dashed=True))
        names.append((color, f"{strategy}, {servers} ps" if servers else strategy))
    return charts.key(names) + frame.draw(*marks)


def _choose_colors() -> Sequence[str]:
    return charts.COLORS * 8
