"""What a step asks of each parameter server, for the report of a run."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.pages import charts, document
from pipeline.pages.document import Markup
from pipeline.reports.facts import Facts
from pipeline.runs import server_loads

_WIDTH, _HEIGHT = 160, 12
_LONGEST = 2.0  # times the mean: where bars end
_NOTE = (
    "What one step of each process asks of each server, by the steps that were traced: {what}. The "
    "line across a bar is the mean of the servers."
)


def section(facts: Facts) -> str:
    """Returns rows and bytes of each server, with their shares of the mean."""
    loads = facts.record.servers or server_loads.add_up(facts.statuses.values())
    if not loads:
        return ""
    rows = [load.rows for load in loads.values()]
    sizes = [load.bytes / 1e3 for load in loads.values()]
    columns, what = [_shares(sizes, ",.1f")], "bytes to and from it"
    head = ["server", "kB", "", "of the mean"]
    if any(rows):  # there are none without tables
        columns, what = [_shares(rows, ",.0f"), *columns], f"rows of tables, and {what}"
        head[1:1] = ["rows", "", "of the mean"]
    cells = [
        [server, *(cell for column in columns for cell in column[n])]
        for n, server in enumerate(loads)
    ]
    return document.section(
        "Servers",
        document.table(head, cells, right={n for n, name in enumerate(head) if n and name}),
        f"<p class=note>{_NOTE.format(what=what)}</p>",
    )


def _shares(values: Sequence[float], shown: str) -> list[tuple[str, Markup, str]]:
    """Returns three cells for each server: its value, a bar, and its share of the mean."""
    return [
        (format(value, shown), Markup(_draw_bar(share)), f"{share:.0%}")
        for value, share in zip(values, server_loads.to_mean(values), strict=True)
    ]


def _draw_bar(to_mean: float) -> str:
    length, mean = min(to_mean, _LONGEST) / _LONGEST * _WIDTH, _WIDTH / _LONGEST
    return charts.svg(
        _WIDTH,
        _HEIGHT,
        f'<rect width="{length:.1f}" height="{_HEIGHT}" fill="{charts.BLUE}"/>'
        f'<path class="axis" d="M{mean:g} 0V{_HEIGHT}"/>',
    )
