"""All runs of a storage as one HTML page that links their reports."""

from __future__ import annotations

import html
import urllib.parse
from collections.abc import Sequence

from pipeline import storage
from pipeline.pages import document
from pipeline.pages.document import Markup
from pipeline.runs import run_list
from pipeline.runs.run_list import Row

FILE_NAME = "runs.html"
_CLASSES = {"done": "good", "failed": "bad", "died": "bad"}


def write(storage_root: str, rows: Sequence[Row]) -> str:
    """Writes the page into the root of a storage, and returns its path."""
    root = storage.make_absolute(storage_root)
    path = storage.join(root, FILE_NAME)
    storage.makedirs(root)
    storage.write_text(path, render(root, rows))
    return path


def render(root: str, rows: Sequence[Row]) -> str:
    """Returns the page; links are relative to the `root` of the storage."""
    drawn = [_build_cells(root, row) for row in rows]
    counts = dict.fromkeys(sorted({row.status for row in rows}), 0)
    for row in rows:
        counts[row.status] += 1
    lead = ", ".join(f"{count:,} {html.escape(status)}" for status, count in counts.items())
    return document.document(
        "Runs", lead or "No runs.", [document.table(run_list.COLUMNS, drawn, right={3})]
    )


def _build_cells(root: str, row: Row) -> list[str]:
    name, config, status, *others = run_list.cells(row)
    report = f"runs/{row.name}/report.html"
    if storage.exists(storage.join(root, report)):
        link = urllib.parse.quote(report)
        name = Markup(f'<a href="{link}">{html.escape(name)}</a>')
    shown = Markup(f'<span class="{_CLASSES.get(status, "")}">{html.escape(status)}</span>')
    return [name, config, shown, *others]
