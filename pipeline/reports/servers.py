"""What a step asks of each parameter server, for the report of a run."""

from __future__ import annotations

from pipeline.pages import charts, document
from pipeline.pages.document import Markup
from pipeline.reports.facts import Facts
from pipeline.runs import server_loads

_WIDTH, _HEIGHT = 160, 12
_LONGEST = 2.0  # times the mean: where bars end
_NOTE = (
    "What one step of each process asks of each server, by the steps that were traced: rows of "
    "tables, and bytes to and from it. The line across a bar is the mean of the servers."
)


def section(facts: Facts) -> str:
    """Returns rows and bytes of each server, with their shares of the mean."""
    loads = facts.record.servers or server_loads.add_up(facts.statuses.values())
    if not loads:
        return ""
    rows_to_mean = server_loads.to_mean([load.rows for load in loads.values()])
    bytes_to_mean = server_loads.to_mean([load.bytes for load in loads.values()])
    cells = [
        (
            server,
            f"{load.rows:,.0f}",
            Markup(_bar(rows)),
            f"{rows:.0%}",
            f"{load.bytes / 1e3:,.1f}",
            Markup(_bar(size)),
            f"{size:.0%}",
        )
        for (server, load), rows, size in zip(
            loads.items(), rows_to_mean, bytes_to_mean, strict=True
        )
    ]
    head = ("server", "rows", "", "of the mean", "kB", "", "of the mean")
    return document.section(
        "Servers",
        document.table(head, cells, right={1, 3, 4, 6}),
        f"<p class=note>{_NOTE}</p>",
    )


def _bar(to_mean: float) -> str:
    length, mean = min(to_mean, _LONGEST) / _LONGEST * _WIDTH, _WIDTH / _LONGEST
    return charts.svg(
        _WIDTH,
        _HEIGHT,
        f'<rect width="{length:.1f}" height="{_HEIGHT}" fill="{charts.BLUE}"/>'
        f'<path class="axis" d="M{mean:g} 0V{_HEIGHT}"/>',
    )
