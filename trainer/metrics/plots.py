"""The plots of an evaluation, on axes that do not depend on the model: so pages of two runs on the
same records can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.console import figures
from pipeline.pages import charts, document
from pipeline.pages.charts import Frame, Point
from trainer.metrics import intervals
from trainer.metrics.intervals import MetricEstimate
from trainer.metrics.summaries import DECILES, Binary, Classes, PredictedNumbers, Summary, Threshold

_UNIT = (0.0, 1.0)
# Curves are drawn through as many points as can be told apart.
_FINENESS = 1 / 250
_CLASSES, _CONFUSIONS = 12, 10
# The axis of a histogram ends at the first of them that is enough.
_SHARES = (0.2, 0.5, 1.0)
_BAND = "The band is the 95 % interval at each threshold."


def draw(summary: Summary, names: Sequence[str] = ()) -> str:
    """Returns the plots as HTML; `names` are those of classes, if they have any."""
    if isinstance(summary, Binary):
        return document.figures(*_draw_binary(summary, names))
    if isinstance(summary, Classes):
        return document.figures(*_draw_classes(summary, names))
    return document.figures(*_draw_numbers(summary))


def format_estimate(one: MetricEstimate | None) -> str:
    """Returns a figure and its interval, as text."""
    return "" if one is None else f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def _draw_binary(found: Binary, names: Sequence[str]) -> list[str]:
    if not found.has_both_labels:
        return [document.figure("Confusion at 0.5", _draw_confusion(found, names))]
    thresholds = found.thresholds()
    return [
        _draw_roc(thresholds),
        _draw_precision_recall(thresholds),
        _draw_calibration(found),
        document.figure("Confusion at 0.5", _draw_confusion(found, names), "Rows add up to 100 %."),
    ]


def _thin_out(
    thresholds: Sequence[Threshold], at: Callable[[Threshold], Point]
) -> list[tuple[Threshold, Point]]:
    """Leaves out points that fall on the one before."""
    found: list[tuple[Threshold, Point]] = []
    for one in thresholds:
        place = at(one)
        if found and max(abs(a - b) for a, b in zip(place, found[-1][1], strict=True)) < _FINENESS:
            continue
        found.append((one, place))
    last = thresholds[-1]
    return found if found[-1][0] == last else [*found, (last, at(last))]


def _draw_roc(thresholds: Sequence[Threshold]) -> str:
    frame = Frame(_UNIT, _UNIT, "false positive rate", "true positive rate")
    points = _thin_out(thresholds, lambda one: (one.false_positive_rate, one.recall.value))
    band = [(x, one.recall.low, one.recall.high) for one, (x, _) in points]
    drawn = frame.draw(
        frame.line([(0, 0), (1, 1)], "#999", dashed=True),
        frame.band(band),
        frame.line([place for _, place in points]),
    )
    return document.figure("ROC", drawn, f"{_BAND} Dashed: chance.")


def _draw_precision_recall(thresholds: Sequence[Threshold]) -> str:
    frame = Frame(_UNIT, _UNIT, "recall", "precision")
    points = _thin_out(thresholds[1:], lambda one: (one.recall.value, one.precision.value))
    band = [(x, one.precision.low, one.precision.high) for one, (x, _) in points]
    rate = thresholds[0].positives / (thresholds[0].positives + thresholds[0].negatives)
    drawn = frame.draw(
        frame.line([(0, rate), (1, rate)], "#999", dashed=True),
        frame.band(band),
        frame.line([place for _, place in points]),
    )
    note = f"{_BAND} Dashed: the share of positives, {rate:.4f}."
    return document.figure("Precision and recall", drawn, note)


def _draw_calibration(found: Binary) -> str:
    frame = Frame(_UNIT, _UNIT, "predicted probability", "share of positives")
    bins = found.calibration()
    below = Frame(_UNIT, _UNIT, "predicted probability", "share of records", height=120)
    total = sum(one.count for one in bins)
    shares = [(_find_tenth(one.predicted), one.count / total) for one in bins]
    drawn = frame.draw(
        frame.line([(0, 0), (1, 1)], "#999", dashed=True),
        frame.intervals([(b.predicted, b.observed.low, b.observed.high) for b in bins]),
        frame.dots([(b.predicted, b.observed.value) for b in bins]),
    ) + below.draw(below.boxes([(x + 0.005, x + 0.095, 0, share) for x, share in shares]))
    predicted, observed = found.compute_means()
    ratio = f"{predicted / observed.value:.3f}" if observed.value else "none"
    note = (
        f"Mean of the probabilities {predicted:.4f}, share of positives "
        f"{format_estimate(observed)}; predicted to observed {ratio}. Bars are 95 % intervals. "
        f"Below: {total:,} records by tenth of the scale."
    )
    return document.figure("Calibration", drawn, note)


def _find_tenth(probability: float) -> float:
    """Returns where the tenth of the scale begins."""
    return min(int(probability * 10), 9) / 10


def _get_name(one: int, names: Sequence[str]) -> str:
    return names[one] if 0 <= one < len(names) else str(one)


def _draw_confusion(found: Binary, names: Sequence[str]) -> str:
    counts = found.confusion
    sizes = counts.sum(axis=1)
    shares = [[n / max(1, of) for n in row] for row, of in zip(counts.tolist(), sizes, strict=True)]
    (tn, fp), (fn, tp) = counts.tolist()
    shares_drawn = charts.matrix(
        shares,
        [[f"{100 * share:.0f}" for share in row] for row in shares],
        [_get_name(0, names), _get_name(1, names)],
        notes=[f"{of:,}" for of in sizes],
        labels=("label", "predicted, %"),
    )
    rows = [
        ("true positives", f"{tp:,}", "recall", tp, tp + fn),
        ("false positives", f"{fp:,}", "precision", tp, tp + fp),
        ("true negatives", f"{tn:,}", "specificity", tn, tn + fp),
        ("false negatives", f"{fn:,}", "accuracy", tp + tn, int(sizes.sum())),
    ]
    # A share of no examples has no value.
    cells = [
        (*texts, format_estimate(intervals.wilson(n, of) if of else None)) for *texts, n, of in rows
    ]
    return shares_drawn + document.table(("", "records", "", "95 % interval"), cells, right={1})


def _draw_classes(found: Classes, names: Sequence[str]) -> list[str]:
    of = found.choose(_CLASSES)
    counts, sizes = found.matrix(of), [found.size(one) for one in of]
    shares = [
        [n / max(1, size) for n in row] for row, size in zip(counts.tolist(), sizes, strict=True)
    ]
    drawn = charts.matrix(
        shares,
        [[_format_percent(share) for share in row] for row in shares],
        [_get_name(one, names) for one in of],
        notes=[f"{size:,}" for size in sizes],
        labels=("label", "predicted, %"),
    )
    note = "Shares of each label, with its number of records on the right."
    if len(of) < found.count:
        note += f" Of {found.count:,} classes, the {len(of)} with the most errors."
    classes = [
        (
            _get_name(one, names),
            f"{size:,}",
            format_estimate(found.recall(one)),
            format_estimate(found.precision(one)),
        )
        for one, size in zip(of, sizes, strict=True)
    ]
    confusions = [
        (
            _get_name(one.label, names),
            _get_name(one.predicted, names),
            f"{one.count:,}",
            f"{one.of:,}",
        )
        for one in found.top_confusions(_CONFUSIONS)
    ]
    return [
        document.figure("Confusion", drawn, note),
        document.figure(
            "By class, with 95 % intervals",
            document.table(("class", "records", "recall", "precision"), classes, right={1}),
        ),
        document.figure(
            "Most frequent confusions",
            document.table(("label", "taken for", "records", "of"), confusions, right={2, 3}),
        ),
    ]


def _format_percent(share: float) -> str:
    if not share:
        return ""
    return f"{100 * share:.0f}" if share >= 0.0095 else "<1"


def _draw_numbers(found: PredictedNumbers) -> list[str]:
    scale = (found.low, found.high)
    about = (
        f"Axes: the outermost percents of the labels of train, {charts.number(found.low)} to "
        f"{charts.number(found.high)}; {found.beyond:,} of {found.count:,} records lie beyond and "
        "are drawn at the edge."
    )
    return [
        document.figure("Predicted against observed", _draw_map(found, scale), about),
        document.figure(
            "Residuals, predicted minus observed",
            _draw_residuals(found),
            "Half the scale to each side. The upright axis ends at 0.2, 0.5 or 1; "
            f"{found.count:,} records.",
        ),
        document.figure(
            "Residuals by tenth of the predictions",
            _draw_deciles(found, scale),
            "Dots are means with 95 % intervals; the axes are those above, the upright one a "
            "quarter as long as the scale.",
        ),
    ]


def _draw_map(found: PredictedNumbers, scale: tuple[float, float]) -> str:
    frame = Frame(scale, scale, "predicted", "observed", height=320)
    cells, top = len(found.map), max(1, int(found.map.max()))
    size = (found.high - found.low) / cells
    boxes = [
        frame.boxes(
            [_build_cell(found.low + x * size, found.low + y * size, size)],
            opacity=0.08 + 0.92 * (n / top) ** 0.5,
        )
        for x, column in enumerate(found.map.tolist())
        for y, n in enumerate(column)
        if n
    ]
    ends = [(found.low, found.low), (found.high, found.high)]
    return frame.draw(*boxes, frame.line(ends, "#999", dashed=True))


def _build_cell(x: float, y: float, size: float) -> tuple[float, float, float, float]:
    return x, x + size, y, y + size


def _draw_residuals(found: PredictedNumbers) -> str:
    counts = found.residuals.tolist()
    shares = [n / max(1, found.count) for n in counts]
    top = next(end for end in _SHARES if max(shares) <= end)
    frame = Frame((-found.reach, found.reach), (0, top), "predicted minus observed", "share")
    width = 2 * found.reach / len(counts)
    boxes = [
        (-found.reach + n * width, -found.reach + (n + 1) * width, 0.0, share)
        for n, share in enumerate(shares)
        if share
    ]
    return frame.draw(frame.boxes(boxes), frame.mark(0.0, "#999"))


def _format_ends(one: MetricEstimate) -> str:
    if one.few:
        return figures.interval(one.low, one.high, few=one.few, alike=one.alike, units=one.units)
    return f"[{one.low:,.3g}, {one.high:,.3g}]"


def _draw_deciles(found: PredictedNumbers, scale: tuple[float, float]) -> str:
    deciles, reach = found.deciles(), found.reach / 4
    frame = Frame(scale, (-reach, reach), "mean prediction", "mean residual")
    drawn = frame.draw(
        frame.line([(found.low, 0), (found.high, 0)], "#999", dashed=True),
        frame.intervals([(d.predicted, d.residual.low, d.residual.high) for d in deciles]),
        frame.dots([(d.predicted, d.residual.value) for d in deciles]),
    )
    rows = [
        (
            f"{d.count:,}",
            f"{d.predicted:,.4g}",
            f"{d.observed:,.4g}",
            f"{d.residual.value:,.3g} {_format_ends(d.residual)}",
            f"{d.rmse:,.4g}",
        )
        for d in deciles
    ]
    head = ("records", "predicted", "observed", "residual", "RMSE")
    return drawn + document.table(head, rows, right=range(DECILES))
