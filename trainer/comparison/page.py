"""Comparisons as text for a terminal, and as one HTML page without scripts."""

from __future__ import annotations

import dataclasses
import html
import math
import re
import types
from collections.abc import Iterable, Mapping, Sequence

from pipeline import errors
from pipeline.console import figures, text_table
from pipeline.console.figures import figure
from pipeline.pages import charts, document
from pipeline.pages.document import Markup
from pipeline.reports.differences import Row
from trainer.comparison import paired
from trainer.comparison.paired import Difference
from trainer.comparison.result import ComparedSlice, Comparison
from trainer.metrics import groups, report_page

_WIDTH = 220
_CLASSES = {"better": "good", "worse": "bad"}
# Of longer tables the first rows are shown.
_ROWS, _TEXT = 200, 60
_NONE: Mapping[str, errors.PipelineError] = types.MappingProxyType({})


def format_lines(
    found: Sequence[Comparison], refused: Mapping[str, errors.PipelineError] = _NONE
) -> list[str]:
    """Returns the comparisons with one A for a terminal; of several, an overview comes after them.
    Last is why runs were `refused`, by their names."""
    rest = ["", *(f"{name}: not compared: {why}" for name, why in refused.items())]
    rest = rest if refused else []
    if len(found) == 1:
        return [*_format_comparison(found[0]), "", describe_verdict(found[0]), *rest]
    shown = [line for one in found for line in (*_format_comparison(one), "", "")]
    head = ("B", "records", "metric", "A", "B", "B - A", "95 % interval", "B is")
    overview = text_table.lines([head, *_build_overview(found)], right={1, 3, 4, 5})
    return [*shown[:-1], *overview, *rest]


def _build_overview(found: Sequence[Comparison]) -> Iterable[tuple[str, ...]]:
    """Yields a row per run: what the deciding metric says of it."""
    for one in found:
        whole = one.whole if one.metric else ComparedSlice("", one.whole.records, {})
        whole = dataclasses.replace(whole, name=one.names[1])
        rows = [cells for cells in _build_cells(one, whole) if cells[2] == one.metric]
        yield from rows or [(whole.name, f"{whole.records:,}", one.wanted, *[""] * 4, "no verdict")]


def _format_comparison(found: Comparison) -> list[str]:
    shown = [f"{side}: {describe(found, n)}" for n, side in enumerate("AB")]
    shown += [_describe_records(found), *found.notes]
    for title, rows in _build_sections(found):
        shown += ["", title if rows else f"{title}: none"]
        rest = [(f"  {name}", _cut(a), _cut(b)) for name, a, b in rows[:_ROWS]]
        table = text_table.lines([("", "A", "B"), *rest])
        shown += table if rows else []
        shown += [f"  and {len(rows) - _ROWS:,} more"] if len(rows) > _ROWS else []
    head = ("slice", "records", "metric", "A", "B", "B - A", "95 % interval", "B is")
    cells = [*_build_cells(found, found.whole)]
    for part in found.slices[1:]:
        cells += [cell for cell in _build_cells(found, part) if found.metric in (None, cell[2])]
    return [*shown, "", *text_table.lines([head, *cells], right={1, 3, 4, 5})]


def describe(found: Comparison, number: int) -> str:
    """Returns the name of A (0) or B (1), and which of its checkpoints is compared."""
    return f"{found.names[number]}, step {found.steps[number]:,}"


def describe_verdict(found: Comparison) -> str:
    """Returns in one sentence what the deciding metric says."""
    if found.metric is None and found.wanted in found.defined:
        units, here = "records", f"{found.whole.records:,}"
        if groups.is_of_groups(found.wanted):
            units, here = "groups with both labels", f"{here} records"
        return (
            f"No verdict, there are {figures.TOO_FEW} {units}: {found.wanted!r} is not defined on "
            f"these {here}"
        )
    if found.metric is None:
        return (
            f"No verdict: {found.wanted!r} has no paired interval; name one of "
            f"{', '.join(found.whole.metrics)} with METRIC="
        )
    one = found.whole.metrics[found.metric]
    interval = report_page.format_interval(one.change)
    change = f"{found.metric} {_format_signed(one.change.value)} {interval}"
    units = one.change.units.partition(":")[0]
    if one.change.alike:
        return f"No verdict, all records change alike: {change}"
    if one.change.few:
        return f"No verdict, there are {figures.TOO_FEW} {units}: {change}"
    if found.verdict == paired.UNDECIDED:
        return f"Undecided, few {units} carry the difference: {change}"
    if not found.verdict:
        return f"B is neither certainly better nor certainly worse than A: {change}"
    return f"B is {found.verdict} {'from' if found.verdict == 'different' else 'than'} A: {change}"


def attribute_verdict(found: Comparison, runs: int) -> str:
    """Returns the verdict of one of so many runs compared with A; of several it names B."""
    return describe_verdict(found) if runs == 1 else f"{found.names[1]}: {describe_verdict(found)}"


def build_file_name(names: Sequence[str], split: str, checkpoint: str | None) -> str:
    """Returns the name of the page of these runs: it has the split and the checkpoint that they are
    compared by, unless those are the usual ones."""
    parts = [*names, *([] if split == "eval" else [split])]
    if checkpoint is not None:
        parts.append(f"step-{checkpoint}" if checkpoint.isdecimal() else checkpoint)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(parts)).strip("-")[-200:]
    return f"{name}.html"


def _describe_records(found: Comparison) -> str:
    pairs = found.pairs
    less = (
        f"; {pairs.trained:,} more are left out, because one of the two was trained on them"
        if pairs.trained
        else ""
    )
    return f"compared on {len(pairs.a):,} records of {found.split} ({pairs.by}){less}"


def _build_sections(found: Comparison) -> list[tuple[str, list[Row]]]:
    differing = found.differing
    counts = [
        (
            f"records of {one.split}",
            f"{one.common + one.only_a:,}, {one.only_a:,} only here",
            f"{one.common + one.only_b:,}, {one.only_b:,} only here",
        )
        for one in found.pairs.counts
        if one.only_a or one.only_b
    ]
    return [
        ("config: what differs", differing.config),
        ("data: what differs", [*counts, *differing.statistics]),
        ("versions: what differs", differing.code),
        ("outcome", differing.outcome),
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"


def _format_signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{figure(value)}"


def _build_cells(found: Comparison, part: ComparedSlice) -> Iterable[tuple[str, ...]]:
    for name, one in part.metrics.items():
        yield (
            part.name,
            f"{part.records:,}",
            name,
            figure(one.a),
            figure(one.b),
            _format_signed(one.change.value),
            report_page.format_interval(one.change),
            one.verdict(found.is_higher_better(name)),
        )


def render_page(
    found: Sequence[Comparison], refused: Mapping[str, errors.PipelineError] = _NONE
) -> str:
    """Returns one page with all comparisons, which have the same A, and why runs were `refused`."""
    name = found[0].names[0]
    rows = [(other, str(why)) for other, why in refused.items()]
    rest = [document.section("Not compared", document.table(("B", "why"), rows))] if rows else []
    if len(found) == 1:
        title = f"{found[0].names[1]} compared with {name}"
        return document.document(
            title, _render_lead(found[0]), [*rest, *_render_sections(found[0])]
        )
    sections = [_render_overview(found), *rest]
    for one in found:
        heading = f"<h1>{html.escape(one.names[1])} compared with {html.escape(name)}</h1>"
        sections += [f"{heading}<p class=lead>{_render_lead(one)}</p>", *_render_sections(one)]
    lead = html.escape(f"A: {describe(found[0], 0)}")
    return document.document(f"{len(found)} runs compared with {name}", lead, sections)


def _render_overview(found: Sequence[Comparison]) -> str:
    span = _find_span([one.whole.metrics[one.metric] for one in found if one.metric])
    rows = []
    for one in found:
        start = one.names[1], f"{one.whole.records:,}", one.metric or one.wanted
        if one.metric is None:
            rows.append((*start, *[""] * 5, "no verdict"))
            continue
        change = one.whole.metrics[one.metric]
        rows.append((*start, *_draw_difference(change, one.higher, span)))
    head = ("B", "records", "metric", "A", "B", "B - A", "", "95 % interval", "B is")
    return document.section("Overview", document.table(head, rows, right={1, 3, 4, 5}))


def _render_lead(found: Comparison) -> str:
    kind = _CLASSES.get(found.verdict, "")
    return "<br>".join(
        [
            f'<b class="{kind}">{html.escape(describe_verdict(found))}</b>',
            *(html.escape(f"{side}: {describe(found, n)}") for n, side in enumerate("AB")),
            html.escape(_describe_records(found)),
            *map(html.escape, found.notes),
        ]
    )


def _render_sections(found: Comparison) -> list[str]:
    sections = [_render_metrics(found), *_render_slices(found)]
    for title, rows in _build_sections(found):
        drawn = document.table(("", "A", "B"), [_cut_row(row) for row in rows[:_ROWS]])
        more = f"<p class=note>And {len(rows) - _ROWS:,} more.</p>" if len(rows) > _ROWS else ""
        heading = title[0].upper() + title[1:]
        sections.append(document.section(heading, drawn if rows else "<p>None.</p>", more))
    return sections


def _cut_row(row: Row) -> tuple[str, str, str]:
    name, a, b = row
    return name, _cut(a), _cut(b)


def _render_metrics(found: Comparison) -> str:
    rows = [
        (name, *_draw_difference(one, found.is_higher_better(name), _find_span([one])))
        for name, one in found.whole.metrics.items()
    ]
    head = ("metric", "A", "B", "B - A", "", "95 % interval", "B is")
    note = (
        "Both models predict the same records. Bars are 95 % intervals of the difference, each on "
        "a scale of its own; the line is no difference. Where few records carry a difference, its "
        "interval may be too narrow, so that B is undecided."
    )
    return document.section(
        "Metrics",
        document.table(head, rows, right={1, 2, 3}),
        f"<p class=note>{note}</p>",
    )


def _render_slices(found: Comparison) -> list[str]:
    parts = found.slices[1:]
    if not parts:
        return []
    names = [found.metric] if found.metric else list(found.whole.metrics)
    drawn = []
    for name in names:
        shown = [part for part in parts if name in part.metrics]
        span = _find_span([part.metrics[name] for part in shown])
        rows = [
            (
                part.name,
                f"{part.records:,}",
                *_draw_difference(part.metrics[name], found.is_higher_better(name), span),
            )
            for part in shown
        ]
        head = ("slice", "records", "A", "B", "B - A", "", "95 % interval", "B is")
        table = document.table(head, rows, right={1, 2, 3, 4})
        drawn.append(f"<h3>{html.escape(name)}</h3>{table}")
    note = "One interval in twenty misses the truth, so of many slices some seem to differ."
    return [document.section("Slices", *drawn, f"<p class=note>{note}</p>")]


def _find_span(shown: Sequence[Difference]) -> float:
    ends = [abs(end) for one in shown for end in (one.change.low, one.change.high)]
    return max((end for end in ends if math.isfinite(end)), default=0.0) or 1.0


def _draw_difference(one: Difference, higher: bool | None, span: float) -> tuple[str, ...]:
    found = one.verdict(higher)
    word = Markup(f'<span class="{_CLASSES.get(found, "")}">{found}</span>')
    values = figure(one.a), figure(one.b), _format_signed(one.change.value)
    return (
        *values,
        Markup(_draw_bar(one, found, span)),
        report_page.format_interval(one.change),
        word,
    )


def _draw_bar(one: Difference, verdict: str, span: float) -> str:
    def at(value: float) -> float:
        return _WIDTH / 2 + max(-1.0, min(1.0, value / span)) * (_WIDTH / 2 - 6)

    color = {"better": charts.GREEN, "worse": "#c0504d"}.get(verdict, charts.BLUE)
    kind = "paper" if one.change.few else "full"
    low, high = at(one.change.low), at(one.change.high)
    bar = f'<path d="M{low:.1f} 9H{high:.1f}" stroke="{color}" stroke-width="2"/>'
    return charts.svg(
        _WIDTH,
        18,
        f'<path class="grid" d="M6 9H{_WIDTH - 6}"/><path class="axis" d="M{_WIDTH / 2:g} 2v14"/>'
        f"{'' if one.change.few else bar}"
        f'<circle class="{kind}" cx="{at(one.change.value):.1f}" cy="9" r="4" fill="{color}" '
        f'stroke="{color}"/>',
    )
