"""The page of all suites: a plot and a table each."""

from __future__ import annotations

import html
import pathlib
from typing import Any

from benchmarks.peers import summary
from benchmarks.peers.suites import SUITES, Suite
from pipeline.pages import charts, document

_BAR, _NAMES, _WIDTH = 22, 360, 660  # pixels
_LEAD = (
    "The same data and the same work on the same machine, in turns. Figures are medians of the "
    "rounds. Processor seconds change less "
    "with what else runs than figures per second."
)


def write(root: pathlib.Path, kept: dict[str, Any]) -> pathlib.Path:
    """Writes bench-peers.html and returns its path."""
    path = root / "bench-peers.html"
    sections = [
        _render_section(suite, kept[name]) for name, suite in SUITES.items() if name in kept
    ]
    path.write_text(document.document("Next to others", _LEAD, sections), encoding="utf-8")
    return path


def _render_section(suite: Suite, kept: dict[str, Any]) -> str:
    rows = summary.list_rows(suite, kept)
    figures = [
        document.figure(figure.title, _render_bars(rows, figure.key, figure.form))
        for figure in suite.figures[:2]
    ]
    table = document.table(
        summary.list_titles(suite),
        [summary.list_cells(row, suite) for row in rows],
        right=range(1, len(suite.figures) + 2),
    )
    command = f"<p>Measured by <code>make bench-peers ONLY={suite.name}</code>.</p>"
    missed = [document.escape(line) for line in summary.describe_missed(rows)]
    lost = "<p>Where we lose:</p><ul>" + "".join(f"<li>{line}</li>" for line in missed) + "</ul>"
    parts = [command, document.figures(*figures), table, lost if missed else ""]
    return document.section(suite.title, *parts)


def _render_bars(rows: list[summary.Row], key: str, form: str) -> str:
    """Returns a bar for each program that has the figure, ours in another color."""
    shown = [row for row in rows if key in row.medians]
    most = max((row.medians[key] for row in shown), default=1.0) or 1.0
    scale = (_WIDTH - _NAMES - 70) / most
    drawn = []
    for number, row in enumerate(shown):
        top, value = number * _BAR, row.medians[key]
        color = charts.ORANGE if row.program.title.startswith("this project") else charts.BLUE
        drawn.append(
            f'<text class="ink" x="{_NAMES - 6}" y="{top + 15}" text-anchor="end">'
            f"{html.escape(row.program.title)}</text>"
            f'<rect x="{_NAMES}" y="{top + 3}" width="{value * scale:.1f}" height="{_BAR - 6}" '
            f'fill="{color}"/>'
            f'<text class="ink" x="{_NAMES + value * scale + 5:.1f}" y="{top + 15}">'
            f"{form.format(value)}</text>"
        )
    return charts.svg(_WIDTH, len(shown) * _BAR + 4, "".join(drawn))
