"""The result of a search as one HTML page: how it went, what matters, and every trial."""

from __future__ import annotations

import html
import itertools
import urllib.parse
from collections.abc import Sequence

from pipeline import storage
from pipeline.console.figures import figure
from pipeline.pages import charts, document
from pipeline.pages.charts import BLUE, COLORS, GREEN, ORANGE, Frame
from pipeline.pages.document import Markup
from pipeline.tuning import methods, space
from pipeline.tuning.methods import Trial
from pipeline.tuning.result import SearchResult, compare_records

FILE_NAME = "tune.html"
_GREY, _RED = "#8a8a8a", "#b3261e"
_BAR, _LABELS = 22, 250
_AXIS, _HEIGHT, _TOP, _SIDE = 150, 260, 44, 70


def render(result: SearchResult, storage_root: str) -> str:
    """Returns the page; links are relative to its folder, `<storage>/tune/<name>`."""
    best = result.best
    lead = f"{len(result.trials)} trials of {html.escape(result.config)}, method "
    lead += f"{result.plan.method}, sampler {result.sampler}, seed {result.plan.seed}"
    sections = [
        document.tiles(_list_tiles(result)),
        _render_best(result)
        if best is not None
        else document.section("Best", "<p>No trial yet.</p>"),
        document.section(
            "How it went",
            document.figures(
                document.figure(
                    "Best so far",
                    _plot_history(result),
                    "Each dot is a trial at its last rung, in the order they were begun. The line "
                    "is the best of those that have come farthest by then, without failed ones.",
                ),
                document.figure(
                    f"{result.metric} by examples",
                    _plot_curves(result),
                    "Each line is a trial, from rung to rung; the best one is orange.",
                ),
            ),
        ),
        _render_importance(result),
        document.section(
            "Parallel coordinates",
            _render_parallel_axes(result),
            '<p class="note">A line for each trial; darker is better, and the best is orange. '
            "Values are of the last rung a trial has reached: compare lines of one rung.</p>",
        ),
        document.section(
            "The same records",
            "".join(f"<p>{html.escape(str(one))}</p>" for one in compare_records(result)),
        ),
        document.section("Trials", _render_table(result, storage_root)),
    ]
    return document.document(f"Search {result.name}", lead, sections)


def _list_tiles(result: SearchResult) -> list[tuple[str, str]]:
    best = result.best
    states = [result.state(one) for one in result.trials]
    return [
        (f"best {result.metric}", figure(best.reached[-1]) if best else "none"),
        ("trials", f"{len(states):,}"),
        ("to the end", f"{states.count('done'):,}"),
        ("failed", f"{states.count('failed'):,}"),
        ("examples", charts.number(result.examples)),
    ]


def _render_best(result: SearchResult) -> str:
    best = result.best
    assert best is not None
    rows = [(key, space.text(value)) for key, value in best.values.items()]
    note = f"{result.note[0].upper()}{result.note[1:]}." if result.note else ""
    return document.section(
        f"Best: trial {best.number}",
        document.table(["key", "value"], rows),
        f"<p>Its run is <code>{html.escape(best.run)}</code>. Its settings from the start:</p>",
        _render_command(result.command),
        _render_command(result.flags),
        f"<p>{html.escape(note)}</p>" if note else "",
    )


def _render_command(command: str) -> str:
    return f'<pre style="white-space: pre-wrap">{html.escape(command)}</pre>'


def _find_span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
    return low - margin, high + margin


def _plot_history(result: SearchResult) -> str:
    trials = [one for one in result.trials if one.reached]
    if not trials:
        return "<p>none</p>"
    frame = Frame(
        (-0.5, len(result.trials) - 0.5),
        _find_span([one.reached[-1] for one in trials]),
        "trial",
        result.metric,
        width=480,
    )
    so_far = []
    for count in range(1, len(result.trials) + 1):
        best = methods.find_best(result.plan, result.trials[:count])
        if best is not None:
            so_far.append((count - 1.0, best.reached[-1]))
    colors = {"done": BLUE, "failed": _RED}
    dots = [
        frame.dots([(one.number, one.reached[-1])], colors.get(result.state(one), _GREY))
        for one in sorted(trials, key=lambda one: (result.state(one) in colors, one.number))
    ]
    paused = "paused or replaced" if result.plan.method == "pbt" else "paused"
    names = [(BLUE, "trained to the end"), (_GREY, paused), (ORANGE, "best so far")]
    if any(one.state == "failed" for one in trials):
        names.insert(2, (_RED, "failed"))
    return frame.draw(*dots, frame.line(_build_stairs(so_far), ORANGE)) + charts.key(names)


def _build_stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found = [*points[:1]]
    for before, after in itertools.pairwise(points):
        found += [(after[0], before[1]), after]
    return found


def _plot_curves(result: SearchResult) -> str:
    trials = [one for one in result.trials if one.reached]
    if not trials:
        return "<p>none</p>"
    values = [value for one in trials for value in one.reached]
    frame = Frame(
        (0, result.rungs[-1] * 1.03), _find_span(values), "examples", result.metric, width=480
    )
    best = result.best
    marks = []
    for one in sorted(trials, key=lambda one: one is best):
        points = [(_count_examples(one, n, result), value) for n, value in enumerate(one.reached)]
        color = ORANGE if one == best else BLUE
        marks += [frame.line(points, color, thin=one != best), frame.dots(points[-1:], color)]
    return frame.draw(*marks)


def _count_examples(trial: Trial, rung: int, result: SearchResult) -> float:
    """Returns on how many examples a trial was trained at a rung: its own count, if it has one."""
    return float(trial.facts.get(rung, {}).get("examples", result.rungs[rung]))


def _render_importance(result: SearchResult) -> str:
    if not result.importance:
        text = "Too few trials to tell."
        return document.section("What matters", f"<p>{text}</p>")
    rows = sorted(result.importance.items(), key=lambda row: -row[1])
    drawn = "".join(
        f'<text x="{_LABELS - 6}" y="{n * _BAR + 15}" text-anchor="end">{html.escape(key)}</text>'
        f'<rect x="{_LABELS}" y="{n * _BAR + 3}" width="{max(1.0, share * 400):.1f}" '
        f'height="{_BAR - 6}" fill="{GREEN}"/>'
        f'<text x="{_LABELS + share * 400 + 6:.1f}" y="{n * _BAR + 15}">{share:.0%}</text>'
        for n, (key, share) in enumerate(rows)
    )
    return document.section(
        "What matters",
        charts.svg(_LABELS + 460, len(rows) * _BAR + 4, drawn),
        f'<p class="note">Share of each key in what sets the best {methods.BEST_PART:.0%} of '
        f"{len(result.trials):,} trials apart from all, by their values at the first rung "
        "(PED-ANOVA of Optuna).</p>",
    )


def _render_parallel_axes(result: SearchResult) -> str:
    trials = [one for one in result.trials if one.reached]
    if not trials:
        return "<p>none</p>"
    keys = result.plan.space
    low, high = _ends([one.reached[-1] for one in trials])
    width = 2 * _SIDE + _AXIS * len(keys)
    marks = []
    for n, one in enumerate(keys):
        ends = [space.text(value) for value in (one.choices or (one.low, one.high))]
        labels = (
            [(one.place(c), space.text(c)) for c in one.choices]
            if one.choices
            else [(0.0, ends[0]), (1.0, ends[-1])]
        )
        marks.append(_draw_axis(n, one.key, labels))
    marks.append(_draw_axis(len(keys), result.metric, [(0.0, figure(low)), (1.0, figure(high))]))
    best = result.best
    # The best lines are drawn last, over the others.
    order = sorted(trials, key=lambda t: _rate_trial(result, t, (low, high)))
    for trial in [*(one for one in order if one != best), *([best] if best else [])]:
        good = _rate_trial(result, trial, (low, high))
        places = [one.place(trial.values[one.key]) for one in keys]
        places.append((trial.reached[-1] - low) / (high - low))
        drawn = "L".join(f"{_x(n):.1f} {_y(place):.1f}" for n, place in enumerate(places))
        color, opacity = (ORANGE, 1.0) if trial == best else (COLORS[0], 0.15 + 0.75 * good)
        title = f"trial {trial.number}: {result.metric} {figure(trial.reached[-1])}"
        marks.append(
            f'<path d="M{drawn}" fill="none" stroke="{color}" stroke-opacity="{opacity:.2f}" '
            f'stroke-width="{2.4 if trial == best else 1.2}"><title>{html.escape(title)}</title>'
            "</path>"
        )
    drawn = charts.svg(width, _HEIGHT + _TOP + 24, "".join(marks))
    return f'<div class="wide">{drawn}</div>'


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _rate_trial(result: SearchResult, trial: Trial, ends: tuple[float, float]) -> float:
    part = (trial.reached[-1] - ends[0]) / (ends[1] - ends[0])
    return part if result.plan.higher else 1 - part


def _x(axis: int) -> float:
    return _SIDE + axis * _AXIS


def _y(place: float) -> float:
    return _TOP + (1 - place) * _HEIGHT


def _draw_axis(number: int, name: str, labels: Sequence[tuple[float, str]]) -> str:
    x = _x(number)
    *section, last = name.split(".")
    drawn = [
        f'<path class="axis" d="M{x} {_TOP}V{_TOP + _HEIGHT}" stroke="#999" fill="none"/>',
        f'<text x="{x}" y="11" text-anchor="middle">{html.escape(".".join(section))}</text>',
        f'<text class="ink" x="{x}" y="24" text-anchor="middle">{html.escape(last)}</text>',
    ]
    for place, label in labels:
        short = label if len(label) <= 16 else f"{label[:15]}…"
        drawn.append(
            f'<text x="{x + 5}" y="{_y(place) + (12 if place == 0 else -3):.1f}">'
            f"{html.escape(short)}</text>"
        )
    return "".join(drawn)


def _render_table(result: SearchResult, storage_root: str) -> str:
    keys = [one.key for one in result.plan.space]
    ranked = {one.number: n for n, one in enumerate(_rank_trials(result))}
    rows = []
    for one in sorted(result.trials, key=lambda t: (ranked.get(t.number, 1 << 30), t.number)):
        rows.append(
            [
                str(one.number),
                _link_report(one, storage_root),
                _describe_state(one, result),
                figure(one.reached[-1]) if one.reached else "",
                *(space.text(one.values[key]) for key in keys),
                one.error or _describe_history(one),
            ]
        )
    head = ["trial", "run", "state", result.metric, *keys, ""]
    return document.table(head, rows, right={0, 3})


def _rank_trials(result: SearchResult) -> list[Trial]:
    """Returns the trials that came farthest first, the best of a rung before the others."""
    found: list[Trial] = []
    for rung in reversed(range(len(result.rungs))):
        there = methods.rank_trials(result.plan, result.trials, rung)
        found += [one for one in there if methods.find_last_rung(result.plan, one) == rung]
    return found


def _describe_state(trial: Trial, result: SearchResult) -> str:
    state = result.state(trial)
    if state == "failed":
        return Markup('<span class="bad">failed</span>')
    if state == "done":
        early = ", stopped early" if len(trial.reached) < len(result.rungs) else ""
        return Markup(f'<span class="good">done{early}</span>')
    return f"paused at rung {len(trial.reached)}" if state in ("paused", "pruned") else state


def _describe_history(trial: Trial) -> str:
    found = [] if trial.parent is None else [f"copy of trial {trial.parent}"]
    if trial.interrupted:
        found.append(f"interrupted at step {' and '.join(f'{s:,}' for s in trial.interrupted)}")
    return ", ".join(found)


def _link_report(trial: Trial, storage_root: str) -> str:
    report = storage.join(storage_root, "runs", trial.run, "report.html")
    if not storage.exists(report):
        return trial.run
    link = urllib.parse.quote(f"../../runs/{trial.run}/report.html")
    return Markup(f'<a href="{link}">{html.escape(trial.run)}</a>')
