"""`linear`."""

from __future__ import annotations

from typing import Any

from pipeline.models.base import OfLogits


class Linear(OfLogits):
    """A linear model: one weight for every number and every id. It needs `features`."""

    names = ("linear",)
    of_features = True
    several_labels = True

    def table_parts(self, feature: Any, job: Any) -> tuple[str, ...]:
        """A weight of each id."""
        return ("wide",)
