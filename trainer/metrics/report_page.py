"""What an evaluation found, as a table in text and as one HTML page without scripts."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.console import figures, text_table
from pipeline.console.figures import figure
from pipeline.pages import charts, document
from pipeline.pages.document import Markup
from trainer.metrics import plots
from trainer.metrics.intervals import MetricEstimate
from trainer.metrics.slice_metrics import SliceResult, SliceRow

# In the folder of a run, and among what accompanies a model.
FILE_NAME = "evaluation.html"
# In the folder of a run: the same for machines.
CONTENT_NAME = "evaluation.json"
# What was evaluated, such as `test` or `step 300, test`, to its slices.
Found = Mapping[str, Sequence[SliceRow]]

COLUMNS = ("split", "slice", "records", "metric", "value", "95 % interval", "baseline")
# Their axes end at 1.
RATES = (
    "accuracy",
    "auc",
    "average_precision",
    "grouped_auc",
    "ndcg",
    "mrr",
    "hit_rate",
)
_WIDTH = 200


def format_interval(one: MetricEstimate) -> str:
    """Returns the interval as text."""
    return figures.interval(
        one.low,
        one.high,
        few=one.few,
        alike=one.alike,
        few_carry=one.few_carry,
        units=one.units,
    )


def build_cells(found: Found) -> list[tuple[str, ...]]:
    """Returns the `COLUMNS` of a line for each slice: the metric, its interval, the baseline."""
    return [
        (
            title,
            row.slice,
            f"{row.records:,}",
            name,
            figure(one.value),
            format_interval(one),
            figure(row.baseline[name]) if name in row.baseline else "",
        )
        for title, rows in found.items()
        for row in rows
        for name, one in row.metrics.items()
    ]


def format_table(found: Found) -> str:
    """Returns what `build_cells` does for a terminal, which has room for a mark only where few
    records carry a figure: a line below says what it means."""
    estimates = [one for rows in found.values() for row in rows for one in row.metrics.values()]
    shown = [
        (*line[:5], _format_marked(one), *line[6:])
        for line, one in zip(build_cells(found), estimates, strict=True)
    ]
    marked = [figures.describe_carriers(one.units) for one in estimates if one.few_carry]
    notes = [f"* {remark}" for remark in dict.fromkeys(marked)]
    return "\n".join([*text_table.lines([COLUMNS, *shown], right={2, 4, 6}), *notes])


def _format_marked(one: MetricEstimate) -> str:
    return format_interval(dataclasses.replace(one, few_carry=False)) + (
        "*" if one.few_carry else ""
    )


def build_content(one: SliceResult) -> dict[str, Any]:
    """Returns the slices and notes of a split for JSON."""
    return {"slices": list(map(dataclasses.asdict, one.rows)), "notes": list(one.notes)}


def describe(found: Mapping[str, SliceResult]) -> list[str]:
    """Returns the notes of each split, as lines of text."""
    return [f"{of}: {note}" for of, one in found.items() for note in one.notes]


def render_page(title: str, found: Mapping[str, SliceResult]) -> str:
    """Returns a page with the plots of each split, and then its slices: a dot and its interval for
    each."""
    lead = (
        "Dots are the model, bars their 95 % confidence intervals, which take examples for "
        "independent, or with eval.group groups; ticks are the baseline: always the most frequent "
        "label of the split, or its mean; of probabilities, always the share of positives; of an "
        "area under the ROC, a half; within groups, an order by chance. Each record counts once. "
        "Hollow dots are of too few records to say anything: fewer than ten, or ten of each label, "
        "or ten groups; or of records that are all alike, which do not tell how others vary. Where "
        "few records carry an error, its interval may be too narrow. Axes do not depend on the "
        "model."
    )
    sections = [
        document.section(
            of,
            plots.draw(one.summary, one.names) if one.summary is not None else "",
            *(f"<p class=note>{html.escape(note)}</p>" for note in one.notes),
            *(_render_slices(one.rows, name) for name in (one.rows[0].metrics if one.rows else ())),
        )
        for of, one in found.items()
    ]
    return document.document(title, lead, sections)


def _render_slices(rows: Sequence[SliceRow], name: str) -> str:
    shown = [row for row in rows if name in row.metrics]
    top = _find_top(shown[0], name)
    head = ("slice", "records", name, "", "95 % interval", "baseline")
    cells = [_build_cells(row, name, top) for row in shown]
    axis = Markup(
        charts.svg(
            _WIDTH,
            14,
            f'<text y="11">0</text><text x="{_WIDTH}" y="11" text-anchor="end">'
            f"{charts.number(top)}</text>",
        )
    )
    drawn = document.table(head, [*cells, ("", "", "", axis, "", "")], right={1, 2, 5})
    return f"<h3>{html.escape(name)}</h3>{drawn}"


def _find_top(row: SliceRow, name: str) -> float:
    """Returns the upper end of the axis, whose lower end is 0: of rates 1; of errors, half as much
    again as the baseline, by which pages on the same records have the same axis."""
    simple, rate = row.baseline.get(name), name.partition("@")[0] in RATES
    return 1.0 if rate else 1.5 * (simple or row.metrics[name].high) or 1.0


def _build_cells(row: SliceRow, name: str, top: float) -> tuple[str, ...]:
    one, simple = row.metrics[name], row.baseline.get(name)
    return (
        row.slice,
        f"{row.records:,}",
        figure(one.value),
        Markup(_draw_interval(one, simple, top)),
        format_interval(one),
        "" if simple is None else figure(simple),
    )


def _draw_interval(one: MetricEstimate, simple: float | None, top: float) -> str:
    def at(value: float) -> float:
        return 5 + min(1.0, max(0.0, value / top)) * (_WIDTH - 10)

    color, kind = charts.BLUE, "paper" if one.few else "full"
    parts = [
        f'<path class="grid" d="M5 9H{_WIDTH - 5}"/>',
        f'<circle class="{kind}" cx="{at(one.value):.1f}" cy="9" r="4" fill="{color}" '
        f'stroke="{color}"/>',
    ]
    if not one.few:
        span = f"M{at(one.low):.1f} 9H{at(one.high):.1f}"
        parts.insert(1, f'<path class="interval" d="{span}" stroke="{color}" stroke-width="2"/>')
    if simple is not None:
        parts.append(
            f'<path class="baseline" d="M{at(simple):.1f} 3v12" stroke="{charts.ORANGE}" '
            'stroke-width="2"/>'
        )
    return charts.svg(_WIDTH, 18, "".join(parts))
