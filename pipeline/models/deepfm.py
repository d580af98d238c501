"""`deepfm`."""

from __future__ import annotations

import pydantic

from pipeline.models.base import Layers
from pipeline.sections import Positive


class DeepFm(Layers):
    """A linear model, the products of each two vectors of ids, and a network, added. It needs
    `features`, of which one is ids."""

    names = ("deepfm",)
    of_features = True

    factors: Positive = 8
    """Width of the vectors of all ids."""

    @pydantic.model_validator(mode="after")
    def _one_logit(self) -> DeepFm:
        if self.task == "classification" and self.classes != 2:
            raise ValueError(
                f"deepfm predicts one of two classes or a number, got classes: {self.classes}; "
                "use dcn or dnn"
            )
        return self
