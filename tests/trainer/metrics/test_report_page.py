"""The table and the page of an evaluation."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from trainer.metrics import report_page
from trainer.metrics.intervals import MetricEstimate
from trainer.metrics.slice_metrics import SliceResult, SliceRow
from trainer.metrics.summaries import Classes

FOUND = {
    "300 test": [
        SliceRow("all", 1500, {"accuracy": MetricEstimate(0.9, 0.88, 0.92)}, {"accuracy": 0.5}),
        SliceRow(
            "a=<b>",
            5,
            {
                "accuracy": MetricEstimate(0.4, 0.1, 0.8),
                "auc": MetricEstimate(1, 0.3, 1, few=True),
                "log_loss": MetricEstimate(1e-7, 1e-7, 1e-7, few=True, alike=True),
            },
            {},
        ),
    ],
    "300 eval": [],
}


def test_a_line_for_each_slice_and_metric():
    head, *lines = report_page.format_table(FOUND).splitlines()
    assert head.split() == [
        "split",
        "slice",
        "records",
        "metric",
        "value",
        "95",
        "%",
        "interval",
        "baseline",
    ]
    assert [line.split() for line in lines] == [
        ["300", "test", "all", "1,500", "accuracy", "0.9000", "[0.8800,", "0.9200]", "0.5000"],
        ["300", "test", "a=<b>", "5", "accuracy", "0.4000", "[0.1000,", "0.8000]"],
        ["300", "test", "a=<b>", "5", "auc", "1.0000", "too", "few", "records"],
        ["300", "test", "a=<b>", "5", "log_loss", "1e-07", "unknown:", "all", "alike"],
    ]


def _page(found):
    return report_page.render_page(
        "A <title>", {of: SliceResult(list(r)) for of, r in found.items()}
    )


def _dots(page):
    drawn = [ElementTree.fromstring(plot) for plot in re.findall("<svg.*?</svg>", page)]
    return [plot for plot in drawn if plot.find("circle") is not None]


def test_dots_intervals_and_baselines_are_drawn_on_an_axis_from_zero_to_one():
    page = _page(FOUND)
    assert "<title>A &lt;title&gt;</title>" in page and "a=&lt;b&gt;" in page
    assert "<script" not in page and "http" not in page
    first, second = (float(plot.find("circle").get("cx")) for plot in _dots(page))
    assert first - second == pytest.approx((0.9 - 0.4) * 190, abs=0.11)  # each is rounded
    kinds = [[path.get("class") for path in plot.findall("path")] for plot in _dots(page)]
    assert kinds == [["grid", "interval", "baseline"], ["grid", "interval"]]


def test_a_figure_of_too_few_records_is_drawn_without_an_interval():
    rows = [
        SliceRow("all", 1500, {"auc": MetricEstimate(0.9, 0.88, 0.92)}, {}),
        SliceRow("small", 4, {"auc": MetricEstimate(1.0, 0.2, 1.0, few=True)}, {}),
    ]
    page = _page({"test": rows})
    assert [plot.find("circle").get("class") for plot in _dots(page)] == ["full", "paper"]
    assert "too few records" in page


def test_errors_have_the_axis_of_the_baseline():
    def page(value, n):
        estimate = MetricEstimate(value, value - 1, value + 1)
        rows = [
            SliceRow("all", n, {"rmse": estimate}, {"rmse": 40.0}),
            SliceRow("s", n, {"rmse": estimate}, {"rmse": 90.0}),
        ]
        return _page({"test": rows})

    good, bad = page(10, 100), page(55, 200)
    assert ">60<" in good and ">60<" in bad
    first = float(_dots(good)[0].find("circle").get("cx"))
    assert first == pytest.approx(5 + 190 * 10 / 60, abs=0.1)


def test_plots_of_a_split_are_before_its_slices():
    summary = Classes()
    summary.add(np.array([0, 1, 2]), np.array([0, 1, 1]))
    rows = [SliceRow("all", 3, {"accuracy": MetricEstimate(0.6, 0.1, 0.9)}, {})]
    page = report_page.render_page(
        "t", {"step 3, test": SliceResult(rows, summary, ("x", "y", "z"))}
    )
    assert page.index("step 3, test") < page.index("Confusion") < page.index("<h3>accuracy</h3>")
    assert "<td>z</td><td>y</td>" in page


def test_an_interval_of_a_figure_that_few_records_carry():
    carried = MetricEstimate(0.5, 0.4, 0.6, few_carry=True)
    rows = [SliceRow("all", 1500, {"rmse": carried}, {})]
    assert report_page.build_cells({"test": rows})[0][5] == "[0.4000, 0.6000], few records carry it"
    _, line, note = report_page.format_table({"test": rows}).splitlines()
    assert "[0.4000, 0.6000]*" in line
    assert note == "* few records carry this error: the interval may be too narrow"
    page = _page({"test": rows})
    assert "[0.4000, 0.6000], few records carry it" in page and "may be too narrow" in page
    assert report_page.build_content(SliceResult(rows))["slices"][0]["metrics"]["rmse"]["few_carry"]
