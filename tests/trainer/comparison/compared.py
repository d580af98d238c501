"""Results of comparisons, made by hand."""

from __future__ import annotations

import numpy as np

from trainer.comparison.paired import Difference
from trainer.comparison.pairing import Count, Pairs
from trainer.comparison.result import ComparedSlice, Comparison, Differing
from trainer.metrics.intervals import MetricEstimate

PLACES = np.arange(90)
PAIRS = Pairs(PLACES, PLACES, 7, (Count("train", 80, 20, 0),), "the same content")


def change(a, b, half, *, few=False):
    """Returns a difference with an interval of `half` on both sides."""
    return Difference(a, b, MetricEstimate(b - a, b - a - half, b - a + half, few))


def result(of_auc, **others):
    """Returns a comparison of two runs on two slices, whose difference in AUC is given."""
    metrics = {"auc": of_auc, "log_loss": change(0.5, 0.4, 0.05)}
    parts = [
        ComparedSlice("all", 90, metrics),
        ComparedSlice("c=<A>", 4, {"auc": change(0.5, 0.6, 1, few=True)}),
    ]
    differing = Differing([("train.steps", "5", "6" * 99)], [], [], [("steps", "5", "6")])
    given = {"metric": "auc", "wanted": "auc", "higher": True, "notes": ("a note",), **others}
    return Comparison(
        names=("one", "two"),
        steps=(1000, 20),
        split="eval",
        pairs=PAIRS,
        slices=parts,
        differing=differing,
        **given,
    )


WORSE = change(0.8, 0.7, 0.05)
