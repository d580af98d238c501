"""One HTML page, without scripts or anything to fetch, with a plot per column and split."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from pipeline import config
from pipeline.pages import charts, document
from pipeline.records import distances, manifest
from preprocessing.statistics import bins

_BARS, _DIGITS = 8, (4, 6, 9, 12, 17)
_WIDTH, _HEIGHT, _ROW = 300, 90, 18
_COLORS = {"train": "#3b6ea5", "eval": "#c77d2e", "test": "#5a9157"}


def render(contents: manifest.Manifest, title: str) -> str:
    """Returns the page of a record set."""
    splits = contents.statistics
    counts = ", ".join(f"{name} {split.records:,}" for name, split in contents.splits.items())
    sections = [_render_section(name, contents) for name in contents.columns]
    lead = (
        f"Records: {counts}. {len(contents.columns)} columns in {len(splits)} splits; label "
        f"{html.escape(contents.label)}. Quantiles of more than 16,384 different values are "
        "rounded, the rest is exact. "
        "Histograms show the values between the outermost percents of all splits."
    )
    if (sampled := contents.sampled) is not None:
        sensitive = contents.columns[sampled.column].sensitive
        lead += f" {html.escape(sampled.describe(sensitive=sensitive))}"
    return document.document(title, lead, sections)


def _render_section(name: str, contents: manifest.Manifest) -> str:
    column = contents.columns[name]
    found = {split: of.columns[name] for split, of in contents.statistics.items()}
    shape = f" of {list(column.shape)}" if column.shape else ", lists" if column.list else ""
    figures = [
        f"<figure><figcaption>{split}</figcaption>{_draw_plot(found, split)}"
        f"{_render_figures(one, column)}</figure>"
        for split, one in found.items()
    ]
    return (
        f"<section><h2>{html.escape(name)} <small>{column.type}{shape}</small></h2>"
        f'<div class="splits">{"".join(figures)}</div></section>'
    )


def _render_figures(found: manifest.ColumnStatistics, column: config.Column) -> str:
    missing = distances.compute_missing_share(found, column)
    pairs = [("values", f"{found.count:,}"), ("missing", f"{missing:.2%}")]
    lengths = found.lengths
    if lengths is not None and lengths.quantiles is not None:
        pairs += [
            ("items a row", f"{lengths.mean:,.4g}"),
            ("fewest", _format_number(lengths.min)),
            ("most", _format_number(lengths.max)),
            ("99 %", f"{lengths.quantiles[99]:,.6g}"),
        ]
    if found.mean is not None and found.variance is not None and found.quantiles is not None:
        pairs += [
            ("mean", f"{found.mean:,.4g}"),
            ("std", f"{found.variance**0.5:,.4g}"),
            ("min", _format_number(found.min)),
            ("max", _format_number(found.max)),
            ("median", f"{found.quantiles[50]:,.6g}"),
        ]
    if found.distinct is not None:
        pairs.append(("different", f"{found.distinct:,}"))
    if found.not_finite:
        pairs.append(("not finite", f"{found.not_finite:,}"))
    return "<dl>" + "".join(f"<dt>{k}</dt><dd>{v}</dd>" for k, v in pairs) + "</dl>"


def _format_number(number: int | float | None) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"


def _draw_plot(found: dict[str, manifest.ColumnStatistics], split: str) -> str:
    """Plots one split, on the axes that all splits of the column share."""
    color = _COLORS.get(split, "#777")
    if found[split].quantiles is not None:
        numbers = [one for one in found.values() if one.quantiles is not None]
        return _draw_histogram(found[split], numbers, color)
    if found[split].vocabulary:
        return _draw_bars(found[split], [one for one in found.values() if one.vocabulary], color)
    why = "not counted by value" if found[split].count else "no values"
    return charts.svg(_WIDTH, _ROW, f'<text y="12">{why}</text>')


def _draw_histogram(
    one: manifest.ColumnStatistics, everyone: Sequence[manifest.ColumnStatistics], color: str
) -> str:
    """Draws shares of equally wide bins between the outermost percentiles of all splits."""
    edges = bins.find_edges(one)
    top = max(float(bins.compute_shares(other, edges).max(initial=0)) for other in everyone)
    return draw_axes(draw_columns(bins.compute_shares(one, edges) / (top or 1), color), edges)


def draw_columns(heights: np.ndarray, color: str) -> str:
    """Returns one bar a bin; `heights` are from 0 to 1."""
    width = _WIDTH / len(heights)
    return "".join(
        f'<rect x="{i * width:.1f}" y="{_HEIGHT - h:.1f}" width="{width - 0.5:.1f}" '
        f'height="{h:.1f}" fill="{color}"/>'
        for i, h in enumerate((heights * (_HEIGHT - 4)).tolist())
        if h > 0
    )


def draw_axes(drawn: str, edges: np.ndarray) -> str:
    """Returns the plot of bars over `edges`, with the numbers at its ends."""
    half = 0.5 if bins.are_whole(edges) else 0.0
    low, high = float(edges[0] + half), float(edges[-1] - half)
    # As many as tell the ends apart, such as two moments of one day in Unix seconds.
    digits = next((n for n in _DIGITS if f"{low:.{n}g}" != f"{high:.{n}g}"), _DIGITS[0])
    return charts.svg(
        _WIDTH,
        _HEIGHT + _ROW,
        f'{drawn}<line x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}" stroke="#999"/>'
        f'<text y="{_HEIGHT + 13}">{low:,.{digits}g}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 13}" text-anchor="end">{high:,.{digits}g}</text>',
    )


def _draw_bars(
    one: manifest.ColumnStatistics, everyone: Sequence[manifest.ColumnStatistics], color: str
) -> str:
    """Draws the shares of the values that are most frequent in the first split."""
    names = [value for value, _ in (everyone[0].vocabulary or ())[:_BARS]]
    counts = dict(one.vocabulary or ())
    top = max(dict(o.vocabulary or ()).get(n, 0) / max(1, o.count) for o in everyone for n in names)
    rows = []
    for index, name in enumerate(names):
        share = counts.get(name, 0) / max(1, one.count)
        length = share / (top or 1) * (_WIDTH - 150)
        text = str(name) if len(str(name)) <= 13 else f"{str(name)[:12]}…"
        y = index * _ROW
        rows.append(
            f'<text x="92" y="{y + 13}" text-anchor="end">{html.escape(text) or "(empty)"}</text>'
            f'<rect x="98" y="{y + 3}" width="{length:.1f}" height="12" fill="{color}"/>'
            f'<text x="{102 + length:.1f}" y="{y + 13}">{share:.1%}</text>'
        )
    return charts.svg(_WIDTH, len(names) * _ROW, "".join(rows))
