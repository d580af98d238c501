"""The page of the reference experiments: a plot and a table each."""

from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.cells import Line
from pipeline.pages import charts, document

_LEAD = (
    "The reference experiments of the field on this machine. “one core” is a single process kept "
    "to one core, every other job had all of them. Load is the one-minute average before each cell."
)
# Student's t for 95 % and two degrees of freedom: three seeds.
_T = 4.303
PUBLISHED = {"central_storage": "0.80 (in-graph)", "parameter_server": "0.50 (distributed)"}


def write(root: pathlib.Path, found: Mapping[str, Line]) -> pathlib.Path:
    """Writes reference.html and returns its path."""
    path = root / "reference.html"
    loads = [line["load"][0] for line in found.values()]
    lead = f"{_LEAD} It was {min(loads):g} to {max(loads):g}, {statistics.median(loads):g} in half."
    sections = [
        _render_devices(found),
        _render_products(found),
        _render_servers(found),
        _render_images(found),
        _render_study(found),
    ]
    path.write_text(document.document("Reference experiments", lead, sections), encoding="utf-8")
    return path


def group_by_name(found: Mapping[str, Line], what: str) -> dict[str, list[Mapping[str, Any]]]:
    """Returns the results of an experiment by cell, of all its rounds or seeds."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for name, line in found.items():
        kind, _, rest = name.partition(", ")
        if kind == what:
            label = rest.rpartition(", round ")[0] or rest.rpartition(", seed ")[0] or rest
            rows.setdefault(label, []).append(line["result"])
    return rows


def _compute_median(results: Iterable[Mapping[str, Any]], key: str) -> float:
    return statistics.median(result[key] for result in results)


def _render_devices(found: Mapping[str, Line]) -> str:
    rows = group_by_name(found, "devices")
    rates = {name: _compute_median(results, "rate") for name, results in rows.items()}
    cells = [
        (
            name,
            f"{rate:,.0f}",
            f"{rate / rates['one process']:.2f}",
            f"{rate / 2 / rates['one core']:.2f}",
            PUBLISHED.get(name, ""),
            f"{_compute_median(rows[name], 'first_step'):.1f}",
        )
        for name, rate in rates.items()
    ]
    head = (
        "two devices by", "examples/s", "of one process", "of two single cores", "published",
        "s to the first step",
    )  # fmt: skip
    return document.section(
        "One process, towers, mirrored copies, servers: the CNN on MNIST",
        document.table(head, cells, right=range(1, 6)),
    )


def _render_products(found: Mapping[str, Line]) -> str:
    (result,) = (line["result"] for name, line in found.items() if name == "products")
    cells = [
        (one["device"], f"{one['size']:,}", one["dtype"], f"{one['flops'] / 1e9:,.1f}")
        for one in result["products"]
    ]
    head = ("device", "size", "type", "GFLOP/s")
    return document.section("Matrix products", document.table(head, cells, right=(1, 3)))


def _render_servers(found: Mapping[str, Line]) -> str:
    """One line a number of servers, over the processes that train."""
    lines: dict[str, dict[int, float]] = {}
    for name, results in group_by_name(found, "servers").items():
        trainers, servers = name.split(", ")
        lines.setdefault(servers, {})[int(trainers.split()[0])] = _compute_median(results, "rate")
    most = max(max(line.values()) for line in lines.values())
    sizes = sorted(next(iter(lines.values())))
    frame = charts.Frame(
        (sizes[0], sizes[-1]),
        (0, 1.1 * most),
        "processes that train",
        "examples/s",
        x_ticks=[(size, str(size)) for size in sizes],
    )
    marks = [
        frame.line(sorted(line.items()), color)
        for line, color in zip(lines.values(), charts.COLORS, strict=False)
    ]
    drawn = frame.draw(*marks) + charts.key(zip(charts.COLORS, lines, strict=False))
    head = ("servers", *(f"{size} train" for size in sizes))
    cells = [(name, *(f"{line[size]:,.0f}" for size in sizes)) for name, line in lines.items()]
    table = document.table(head, cells, right=range(1, len(head)))
    figure = document.figure("Examples a second", drawn)
    return document.section("Servers and workers", document.figures(figure, table))


def _render_images(found: Mapping[str, Line]) -> str:
    cells = [
        (
            name,
            f"{_compute_median(results, 'epoch'):.1f}",
            f"{_compute_median(results, 'rate'):,.0f}",
        )
        for name, results in group_by_name(found, "images").items()
    ]
    head = ("mirrored", "s an epoch", "images/s")
    return document.section("An epoch of images", document.table(head, cells, right=(1, 2)))


def _render_study(found: Mapping[str, Line]) -> str:
    rows = group_by_name(found, "study")
    figures = [
        document.figure(title, _render_curves(rows, key, label))
        for title, key, label in (
            ("Accuracy by examples", "examples", "examples"),
            ("Accuracy by seconds", "seconds", "seconds since the first step"),
        )
    ]
    cells = []
    for name, results in rows.items():
        middle, half = compute_interval([result["accuracy"][-1] for result in results])
        seconds, spread = compute_interval([result["seconds"][-1] for result in results])
        cells.append(
            (name, f"{middle:.4f} ± {half:.4f}", f"{seconds:.1f} ± {spread:.1f}")
        )  # fmt: skip
    head = ("strategy", "test accuracy at the end", "seconds")
    note = (
        '<p class="note">Means of the seeds, with 95 % intervals by Student’s t. Each process or '
        "replica takes batches of 128; two train, except in none and one_device. The first "
        "save is evaluated and exported while they train: in one process between two steps, else "
        "by an evaluator beside them.</p>"
    )
    key = charts.key(zip(charts.COLORS, rows, strict=False))
    return document.section(
        "Asynchronous and synchronous training at equal examples",
        document.figures(*figures),
        key,
        document.table(head, cells, right=(1, 2)),
        note,
    )


def _render_curves(rows: Mapping[str, Sequence[Mapping[str, Any]]], key: str, label: str) -> str:
    lines = {name: _compute_means(results, key) for name, results in rows.items()}
    points = [point for line in lines.values() for point in line]
    low = min(middle - half for _, middle, half in points)
    frame = charts.Frame(
        (0, max(x for x, _, _ in points)), (max(low, 0.85), 1), label, "test accuracy", width=480
    )
    marks = []
    for line, color in zip(lines.values(), charts.COLORS, strict=False):
        marks.append(frame.line([(x, middle) for x, middle, _ in line], color))
        marks.append(frame.intervals([(x, m - half, m + half) for x, m, half in line], color))
    return frame.draw(*marks)


def _compute_means(
    results: Sequence[Mapping[str, Any]], key: str
) -> list[tuple[float, float, float]]:
    """Returns x, mean accuracy and half its interval of each save that all seeds have."""
    saves = zip(*(zip(one[key], one["accuracy"], strict=True) for one in results), strict=False)
    found = []
    for save in saves:
        found.append((statistics.mean(x for x, _ in save), *compute_interval([y for _, y in save])))
    return found


def compute_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean of three values, and half the width of its 95 % interval."""
    half = _T * statistics.stdev(values) / math.sqrt(len(values)) if len(values) == 3 else math.nan
    return statistics.mean(values), half
