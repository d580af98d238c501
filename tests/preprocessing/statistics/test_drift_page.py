"""The page shows both sides of every column, is well formed, and fetches nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.config.drift_config import Drift
from pipeline.records import drift
from preprocessing.statistics import drift_page
from tests.support.drifted import make_records


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("page")
    make_records(root, "before", word="<b>")
    make_records(root, "after", shift=15.0, missing=400)
    a, b = (drift.find(name, str(root)) for name in ("before", "after"))
    return drift_page.render(drift.compare(a, b, Drift()), a, b)


def test_every_column_is_there_the_worst_first(page):
    names = re.findall(r"<h2>(\w+) ", page)
    assert set(names) == {"id", "name", "size", "label"} and set(names[:2]) == {"name", "size"}
    assert page.count(">drifted</b>") == 2 and page.count("within limits") == 2
    assert "missing in B</dt><dd>100.00%" in page and "nothing to plot" in page
    assert not re.search(r"https?:|<script|src=|url\(|<b>[0-9]", page)


def test_plots_are_well_formed_and_hold_both_sides(page):
    drawn = [ElementTree.fromstring(plot) for plot in re.findall(r"<svg.*?</svg>", page)]
    assert len(drawn) == 4
    for plot in drawn:
        bars = list(plot.iter("rect"))
        assert all(0 <= float(bar.get("height")) <= 90 for bar in bars)
        colors = {bar.get("fill") for bar in bars}
        assert colors in (set(), {"#3b6ea5", "#e08a2c"})


def test_each_side_has_its_own_color(page):
    """Numbers of `after` are larger: their bars lie further to the right."""
    (plot,) = re.findall(r"<h2>size .*?(<svg.*?</svg>)", page, re.DOTALL)
    bars = list(ElementTree.fromstring(plot).iter("rect"))
    middle = {}
    for side, color in (("A", "#3b6ea5"), ("B", "#e08a2c")):
        own = [bar for bar in bars if bar.get("fill") == color]
        heights = [float(bar.get("height")) for bar in own]
        places = [float(bar.get("x")) * height for bar, height in zip(own, heights, strict=True)]
        middle[side] = sum(places) / sum(heights)
        assert f'<span style="color:{color}">&#9632;</span> {side}: ' in page
    assert middle["A"] < middle["B"]
