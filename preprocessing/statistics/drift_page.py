"""One HTML page, without scripts or anything to fetch, with both sides of each column overlaid."""

from __future__ import annotations

import html
from collections.abc import Sequence

from pipeline.pages import charts, document
from pipeline.records import manifest
from pipeline.records.drift import Compared, RecordSplit
from preprocessing.statistics import bins, stats_page

_A, _B = "#3b6ea5", "#e08a2c"
_BARS, _WIDTH, _ROW = 10, 300, 32


def render(found: Sequence[Compared], a: RecordSplit, b: RecordSplit) -> str:
    """Returns the page of a comparison, the columns in the order of `found`."""
    drifted = sum(one.drifted for one in found)
    lead = (
        f"{_draw_key(_A)} A: {html.escape(a.name)}, {a.records:,} records of {a.split}. "
        f"{_draw_key(_B)} B: {html.escape(b.name)}, {b.records:,} records of {b.split}. "
        f"{drifted} of {len(found)} columns have drifted, the worst first; "
        f"{sum(one.undecided for one in found)} are undecided. "
        "KS is the Kolmogorov-Smirnov statistic, JS the Jensen-Shannon distance (base 2); both are "
        "0 for equal and 1 for disjoint values."
    )
    sections = [_render_section(one, a, b) for one in found]
    return document.document(f"Drift from {a.name} to {b.name}", lead, sections)


def _draw_key(color: str) -> str:
    return f'<span style="color:{color}">&#9632;</span>'


def _render_section(one: Compared, a: RecordSplit, b: RecordSplit) -> str:
    verdict = "undecided" if one.undecided else "within limits"
    if one.drifted:
        verdict = '<b class="bad">drifted</b>'
    plot = ""
    if not one.broken:
        of_a, of_b = a.column(one.column), b.column(one.column)
        plot = _draw_plot(one.measure, of_a, of_b)
        if of_a.lengths and of_b.lengths:
            of_items = _draw_plot("KS", of_a.lengths, of_b.lengths)
            plot += f"<figcaption>items a row</figcaption>{of_items}"
    return (
        f"<section><h2>{html.escape(one.column)} <small>{verdict}</small></h2>"
        f'<div class="splits"><figure>{plot}</figure>{_render_figures(one)}</div></section>'
    )


def _render_figures(one: Compared) -> str:
    if one.broken:
        return f"<p>{html.escape(one.problem)}</p>"
    pairs = [("distance", one.problem)]
    if one.distance is not None:
        pairs = [("distance", f"{one.measure} {one.distance}"), ("limit", f"{one.limit:.3f}")]
    if one.lengths is not None:
        pairs.append(("distance of items a row", f"KS {one.lengths}"))
        pairs.append(("limit of items a row", f"{one.lengths_limit:.3f}"))
    pairs += [("missing in A", f"{one.missing[0]:.2%}"), ("missing in B", f"{one.missing[1]:.2%}")]
    pairs.append(("limit of the change", f"{one.missing_limit:.2%}"))
    if any(one.not_finite):
        shares = [f"{share:.2%}" for share in one.not_finite]
        pairs += [("not finite in A", shares[0]), ("not finite in B", shares[1])]
        pairs.append(("limit of the change", f"{one.not_finite_limit:.2%}"))
    rows = "".join(f"<dt>{key}</dt><dd>{html.escape(value)}</dd>" for key, value in pairs)
    return f'<dl style="grid-template-columns: auto 1fr; align-content: start">{rows}</dl>'


def _draw_plot(measure: str, a: manifest.ColumnStatistics, b: manifest.ColumnStatistics) -> str:
    if measure == "KS" and a.quantiles and b.quantiles:
        edges = bins.find_shared_edges([a, b])
        shares = [bins.compute_shares(one, edges) for one in (a, b)]
        top = max(float(part.max(initial=0)) for part in shares) or 1.0
        drawn = "".join(
            f'<g fill-opacity="0.55">{stats_page.draw_columns(part / top, color)}</g>'
            for part, color in zip(shares, (_A, _B), strict=True)
        )
        return stats_page.draw_axes(drawn, edges)
    if measure == "JS" and a.vocabulary and b.vocabulary:
        return _draw_bars(a, b)
    return charts.svg(_WIDTH, 18, '<text y="12">nothing to plot</text>')


def _draw_bars(a: manifest.ColumnStatistics, b: manifest.ColumnStatistics) -> str:
    """Draws the values whose shares are largest on either side, A's bar above B's."""
    shares = [{v: n / one.count for v, n in one.vocabulary or ()} for one in (a, b)]
    largest = {v: max(s.get(v, 0.0) for s in shares) for v in {**shares[0], **shares[1]}}
    names = sorted(largest, key=lambda v: (-largest[v], str(v)))[:_BARS]
    top = max(largest.values())
    rows = []
    for index, name in enumerate(names):
        text = str(name) if len(str(name)) <= 13 else f"{str(name)[:12]}…"
        y = index * _ROW
        rows.append(
            f'<text x="92" y="{y + 18}" text-anchor="end">{html.escape(text) or "(empty)"}</text>'
        )
        for side, (part, color) in enumerate(zip(shares, (_A, _B), strict=True)):
            share = part.get(name, 0.0)
            length = share / top * (_WIDTH - 150)
            rows.append(
                f'<rect x="98" y="{y + 2 + 13 * side}" width="{length:.1f}" height="11" '
                f'fill="{color}"/><text x="{102 + length:.1f}" y="{y + 12 + 13 * side}">'
                f"{share:.1%}</text>"
            )
    return charts.svg(_WIDTH, len(names) * _ROW, "".join(rows))
