"""`linear`."""

from __future__ import annotations

from pipeline.models.base import OfLogits


class Linear(OfLogits):
    """A linear model: one weight for every number and every id. It needs `features`."""

    names = ("linear",)
    of_features = True
    several_labels = True
