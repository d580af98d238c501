"""The page shows both sides of every column, is well formed, and fetches nothing."""

from __future__ import annotations

import contextlib
import io
import re
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.config.drift_config import Drift
from pipeline.records import drift
from preprocessing.build import job
from preprocessing.statistics import drift_page
from tests.preprocessing import tables
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


def _make_lists(root, name: str, fewest: int) -> drift.RecordSplit:
    """Makes records of 400 lists of `fewest` items or up to three more, with the same shares."""
    columns = {
        "id": {"type": "int64"},
        "tags": {"type": "string", "list": True, "max_items": 9},
        "label": {"type": "int64"},
    }
    lines = [f'{n},"{"|".join(["a"] * (fewest + n % 4))}",{n % 2}' for n in range(400)]
    (root / f"{name}.csv").write_text(tables.text(*lines, header=",".join(columns)))
    made = tables.make_config(root / f"{name}.csv", columns, split={"eval": 0})
    with contextlib.redirect_stdout(io.StringIO()):
        job.run(made.model_copy(update={"name": name}), str(root))
    return drift.find(name, str(root))


def test_lists_show_how_far_apart_their_lengths_are(tmp_path):
    a, b = (_make_lists(tmp_path, name, fewest) for name, fewest in (("short", 0), ("long", 4)))
    text = drift_page.render(drift.compare(a, b, Drift()), a, b)
    section = re.findall(r"<h2>(tags .*?)</section>", text, re.DOTALL)[0]
    assert '<b class="bad">drifted</b>' in section
    assert "<dt>distance</dt><dd>JS 0.000 ± 0.000</dd>" in section
    assert re.search(
        r"<dt>distance of items a row</dt><dd>KS 1\.000 ± 0\.000</dd>"
        r"<dt>limit of items a row</dt><dd>0\.\d{3}</dd>",
        section,
    )
    plot = section.partition("<figcaption>items a row</figcaption>")[2].partition("</svg>")[0]
    bars = list(ElementTree.fromstring(f"{plot}</svg>").iter("rect"))
    places = {
        color: [float(bar.get("x")) for bar in bars if bar.get("fill") == color]
        for color in ("#3b6ea5", "#e08a2c")
    }
    assert max(places["#3b6ea5"]) < min(places["#e08a2c"])
