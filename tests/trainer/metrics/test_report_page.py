"""The table and the page of an evaluation."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from trainer.metrics import report_page
from trainer.metrics.intervals import Estimate
from trainer.metrics.slice_metrics import Row

FOUND = {
    "300 test": [
        Row("all", 1500, {"accuracy": Estimate(0.9, 0.88, 0.92)}, {"accuracy": 0.5}),
        Row(
            "a=<b>",
            5,
            {"accuracy": Estimate(0.4, 0.1, 0.8), "auc": Estimate(1, 0.3, 1, few=True)},
            {},
        ),
    ],
    "300 eval": [],
}


def test_a_line_for_each_slice_and_metric():
    head, *lines = report_page.table(FOUND).splitlines()
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
    ]


def test_dots_intervals_and_baselines_are_drawn_to_scale():
    page = report_page.page("A <title>", FOUND)
    assert "<title>A &lt;title&gt;</title>" in page
    assert "<script" not in page and "http" not in page
    plot = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    first, second = (float(dot.get("cx")) for dot in plot.findall("circle"))
    # From 0.1 to 0.92, over 360 pixels.
    assert first - second == pytest.approx((0.9 - 0.4) / 0.82 * 360, abs=0.11)  # each is rounded
    assert len(plot.findall("path")) == 3  # two intervals, one baseline
    assert "a=<b>" in [text.text for text in plot.findall("text")]


def test_a_figure_of_too_few_records_is_drawn_without_an_interval():
    rows = [
        Row("all", 1500, {"auc": Estimate(0.9, 0.88, 0.92)}, {}),
        Row("small", 4, {"auc": Estimate(1.0, 0.2, 1.0, few=True)}, {}),
    ]
    page = report_page.page("title", {"test": rows})
    plot = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    assert [dot.get("fill") for dot in plot.findall("circle")] == ["#3b6ea5", "white"]
    *_, low, _ = [text.text for text in plot.findall("text")]
    assert low == "0.88"  # the scale ends where something is drawn
    assert "1.0000 of 4, too few records" in [text.text for text in plot.findall("text")]
