"""The table and the page of an evaluation."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from trainer import score_page
from trainer.intervals import Estimate
from trainer.scores import Row

FOUND = {
    "300 test": [
        Row("all", 1500, {"accuracy": Estimate(0.9, 0.88, 0.92)}, {"accuracy": 0.5}),
        Row("a=<b>", 5, {"accuracy": Estimate(0.4, 0.1, 0.8), "auc": Estimate(1, 1, 1)}, {}),
    ],
    "300 eval": [],
}


def test_a_line_for_each_slice_and_metric():
    head, *lines = score_page.table(FOUND).splitlines()
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
        ["300", "test", "a=<b>", "5", "auc", "1.0000", "[1.0000,", "1.0000]"],
    ]


def test_dots_intervals_and_baselines_are_drawn_to_scale():
    page = score_page.page("A <title>", FOUND)
    assert "<title>A &lt;title&gt;</title>" in page
    assert "<script" not in page and "http" not in page
    plot = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    first, second = (float(dot.get("cx")) for dot in plot.findall("circle"))
    # From 0.1 to 0.92, over 360 pixels.
    assert first - second == pytest.approx((0.9 - 0.4) / 0.82 * 360, abs=0.11)  # each is rounded
    assert len(plot.findall("path")) == 3  # two intervals, one baseline
    assert "a=<b>" in [text.text for text in plot.findall("text")]
