"""What an evaluation found, as a table in text and as one HTML page without scripts."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from pipeline.console import text_table
from trainer.metrics.intervals import Estimate
from trainer.metrics.slice_metrics import Row

# What was judged, such as `test` or `step 300, test`, to its slices.
Found = Mapping[str, Sequence[Row]]

COLUMNS = ("split", "slice", "records", "metric", "value", "95 % interval", "baseline")
# In place of an interval that would look like knowledge.
TOO_FEW = "too few records"
_LEFT, _WIDTH, _RIGHT, _ROW = 190, 360, 230, 20
_STYLE = (
    "body { font: 14px/1.45 system-ui, sans-serif; color: #222; margin: 2rem auto; "
    "max-width: 800px; padding: 0 1rem; } p, text.scale { color: #666; fill: #666; } "
    "text { font-size: 12px; }"
)


def cells(found: Found) -> list[tuple[str, ...]]:
    """Returns the `COLUMNS` of a line for each slice: the metric, its interval, the baseline."""
    return [
        (
            title,
            row.slice,
            f"{row.records:,}",
            name,
            f"{one.value:.4f}",
            TOO_FEW if one.few else f"[{one.low:.4f}, {one.high:.4f}]",
            f"{row.baseline[name]:.4f}" if name in row.baseline else "",
        )
        for title, rows in found.items()
        for row in rows
        for name, one in row.metrics.items()
    ]


def table(found: Found) -> str:
    """Returns the `cells` for a terminal."""
    return "\n".join(text_table.lines([COLUMNS, *cells(found)], right={2, 4, 6}))


def page(title: str, found: Found) -> str:
    """Returns a page with a plot for each metric: a dot and its interval for each slice."""
    lead = (
        "Dots are the model, bars their 95 % confidence intervals, ticks the baseline: always the "
        "most frequent label of the split, or its mean; of an area under the ROC, a half. Hollow "
        "dots are of too few records to say anything: fewer than ten, or ten of each label."
    )
    plots = "\n".join(
        f"<h2>{html.escape(of)}: {html.escape(name)}</h2>\n{_plot(rows, name)}"
        for of, rows in found.items()
        for name in (rows[0].metrics if rows else ())
    )
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en">{head}\n<h1>{html.escape(title)}</h1>\n'
        f"<p>{lead}</p>\n{plots}\n</html>\n"
    )


def _plot(rows: Sequence[Row], name: str) -> str:
    shown = [row for row in rows if name in row.metrics]
    ends = [x for row in shown for x in _drawn(row.metrics[name])]
    ends += [row.baseline[name] for row in shown if name in row.baseline]
    low, high = min(ends), max(ends)
    scale = _WIDTH / ((high - low) or 1.0)
    drawn = "".join(_line(row, name, n, low, scale) for n, row in enumerate(shown))
    height = len(shown) * _ROW
    return (
        f'<svg width="{_LEFT + _WIDTH + _RIGHT}" height="{height + _ROW}" role="img">{drawn}'
        f'<text class="scale" x="{_LEFT}" y="{height + 14}">{low:.4g}</text>'
        f'<text class="scale" x="{_LEFT + _WIDTH}" y="{height + 14}" text-anchor="end">{high:.4g}'
        "</text></svg>"
    )


def _drawn(one: Estimate) -> tuple[float, ...]:
    """Returns what is drawn of a figure: without an interval if there are too few records."""
    return (one.value,) if one.few else (one.low, one.value, one.high)


def _line(row: Row, name: str, n: int, low: float, scale: float) -> str:
    one, y = row.metrics[name], n * _ROW + 10
    drawn = [_LEFT + (x - low) * scale for x in _drawn(one)]
    left, middle, right = drawn[0], drawn[len(drawn) // 2], drawn[-1]
    fill, note = ("white", f", {TOO_FEW}") if one.few else ("#3b6ea5", "")
    simple = row.baseline.get(name)
    at = _LEFT + ((simple or 0.0) - low) * scale
    tick = f'<path d="M{at:.1f} {y - 6}v12" stroke="#c77d2e" stroke-width="2"/>'
    return (
        f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{html.escape(row.slice[:26])}</text>'
        f'<path d="M{left:.1f} {y}H{right:.1f}" stroke="#3b6ea5" stroke-width="2"/>'
        f'<circle cx="{middle:.1f}" cy="{y}" r="4" fill="{fill}" stroke="#3b6ea5"/>'
        f"{tick if simple is not None else ''}"
        f'<text x="{_LEFT + _WIDTH + 10}" y="{y + 4}">'
        f"{one.value:.4f} of {row.records:,}{note}</text>"
    )
