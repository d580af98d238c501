"""Plots of an evaluation: what is on them, and that their axes do not follow the model."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np

from trainer.metrics import plots
from trainer.metrics.intervals import MetricEstimate
from trainer.metrics.summaries import Binary, Classes, PredictedNumbers


def _binary(seed, strength):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 2000)
    found = Binary()
    found.add(labels, 1 / (1 + np.exp(-(rng.normal(size=2000) + strength * (labels - 0.5)))))
    return found


def _texts(drawn):
    charts = [ElementTree.fromstring(c) for c in re.findall(r"<svg.*?</svg>", drawn)]
    return [[text.text for text in chart.iter("text")] for chart in charts]


def test_a_classifier_of_two_classes():
    drawn = plots.draw(_binary(0, 2), ["no", "<yes>"])
    captions = re.findall("<figcaption>(.*?)</figcaption>", drawn)
    assert captions == ["ROC", "Precision and recall", "Calibration", "Confusion at 0.5"]
    assert "predicted to observed" in drawn
    assert "2,000 records" in drawn
    assert "<yes>" in _texts(drawn)[-1] or "<yes…" in _texts(drawn)[-1]
    assert "<yes>" not in drawn


def test_axes_of_rates_are_those_of_any_model():
    good, bad = (_texts(plots.draw(_binary(seed, s)))[:4] for seed, s in ((0, 6), (1, 0.2)))
    assert good == bad and "1" in good[0]


def test_one_label_alone_has_no_curves():
    found = Binary()
    found.add(np.zeros(5, int), np.full(5, 0.2))
    drawn = plots.draw(found)
    assert "ROC" not in drawn and "Confusion at 0.5" in drawn
    cells = re.findall("<tr>(.*?)</tr>", drawn, re.DOTALL)
    shown = {name: next(row for row in cells if name in row) for name in ("recall", "specificity")}
    assert "1.000" not in shown["recall"] and "1.000 [0.566, 1.000]" in shown["specificity"]


def test_many_classes():
    rng = np.random.default_rng(0)
    found = Classes()
    labels = rng.integers(0, 30, 5000)
    found.add(labels, np.where(rng.random(5000) < 0.8, labels, rng.integers(0, 30, 5000)))
    names = [f"class {n}" for n in range(30)]
    drawn = plots.draw(found, names)
    assert "Of 30 classes, the 12 with the most errors." in drawn
    assert len(re.findall("<rect", drawn)) == 144
    top = found.top_confusions(1)[0]
    assert f"<td>class {top.label}</td><td>class {top.predicted}</td>" in drawn


def test_numbers_have_the_scale_that_was_given():
    rng = np.random.default_rng(0)

    def page(noise):
        found = PredictedNumbers(-10, 30)
        labels = rng.normal(size=3000) * 10 + 10
        found.add(labels, labels + rng.normal(size=3000) * noise)
        return plots.draw(found)

    near, far = page(4), page(6)
    assert _texts(near) == _texts(far)
    assert "-10 to 30" in near and "by tenth of the predictions" in near


def test_an_estimate_as_text():
    assert plots.format_estimate(MetricEstimate(0.5, 0.4, 0.6)) == "0.500 [0.400, 0.600]"
    assert plots.format_estimate(None) == ""
