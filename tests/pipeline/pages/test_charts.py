"""Charts are drawn to scale, and are well formed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.pages import charts
from pipeline.pages.charts import Frame


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((-44, 190), [0, 50, 100, 150]),
        ((0, 37), [0, 10, 20, 30]),
        ((5, 5), [5]),
        ((0, float("inf")), [0]),
    ],
)
def test_ticks_are_round_numbers(ends, found):
    assert charts.ticks(*ends) == pytest.approx(found)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (0.25, "0.25"),
        (1234.5, "1,234.5"),
        (20_000, "20k"),
        (3_500_000, "3.5M"),
        (2e9, "2G"),
        (1e-6, "1e-06"),
        (1e12, "1e+12"),
    ],
)
def test_numbers_are_short(value, text):
    assert charts.number(value) == text


def test_marks_are_to_scale():
    frame = Frame((10, 20), (0, 1), "x < y", "&")
    drawn = ElementTree.fromstring(
        frame.draw(frame.dots([(10, 0), (15, 0.5), (20, 1)]), frame.mark(15, "red", "<here>"))
    )
    low, middle, high = ((float(d.get("cx")), float(d.get("cy"))) for d in drawn.iter("circle"))
    assert middle == pytest.approx(((low[0] + high[0]) / 2, (low[1] + high[1]) / 2), abs=0.1)
    assert low[0] < high[0] and low[1] > high[1]
    texts = [text.text for text in drawn.iter("text")]
    assert {"x < y", "&", "12", "0.6"} <= set(texts)
    assert [title.text for title in drawn.iter("title")] == ["<here>"]


def test_what_lies_beyond_is_drawn_at_the_edge():
    frame = Frame((0, 1), (0, 1))
    assert frame.place_point(7, -3) == frame.place_point(1, 0)


def test_a_label_at_the_right_end_is_not_cut():
    drawn = charts.Frame((0, 1500), (0, 1)).draw()
    assert 'x="330.0" y="230" text-anchor="end">1,500</text>' in drawn
    assert 'text-anchor="middle">1,000</text>' in drawn


def test_nothing_to_draw_is_no_error():
    frame = Frame((0, 0), (0, 0))
    drawn = frame.draw(frame.line([]), frame.band([]), frame.dots([]), frame.boxes([]))
    ElementTree.fromstring(drawn)
    assert "nan" not in drawn


def test_areas_and_boxes():
    frame = Frame((0, 10), (0, 10))
    drawn = frame.boxes([(0, 5, 0, 10)])
    width, height = (float(re.search(f'{n}="([0-9.]+)"', drawn)[1]) for n in ("width", "height"))
    (left, bottom), (right, top) = frame.place_point(0, 0), frame.place_point(10, 10)
    assert (width, height) == (
        pytest.approx((right - left) / 2, abs=0.1),
        pytest.approx(bottom - top, abs=0.1),
    )
    assert frame.band([(0, 1, 2), (10, 1, 2)]).count("L") == 3
    assert frame.intervals([(5, 2, 8)]).count("V") == 1


def test_a_matrix():
    drawn = ElementTree.fromstring(
        charts.matrix(
            [[0.9, 0.1], [0.5, 0.5]],
            [["90", "10"], ["50", "50"]],
            ["<a>", "a very long name of a class"],
            notes=["10", "2"],
            labels=("label", "predicted"),
        )
    )
    opacities = [float(cell.get("fill-opacity")) for cell in drawn.iter("rect")]
    assert opacities[0] > opacities[2] == opacities[3] > opacities[1] > 0
    texts = [text.text for text in drawn.iter("text")]
    assert "<a>" in texts and "a very long …" not in texts and "a very long n…" in texts


def test_a_key_of_colors():
    assert "&lt;x&gt;" in charts.key([("red", "<x>")])
