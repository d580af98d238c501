"""`deepfm`."""

from __future__ import annotations

from typing import Any

import pydantic

from pipeline.models.base import Layers, gives_ids
from pipeline.sections import Positive


class DeepFm(Layers):
    """A linear model, the products of each two vectors of ids, and a network, added. It needs
    `features`, of which one is ids."""

    names = ("deepfm",)
    of_features = True

    factors: Positive = 8
    """Width of the vectors of all ids."""

    @pydantic.model_validator(mode="after")
    def _check_one_logit(self) -> DeepFm:
        if self.task == "classification" and self.classes != 2:
            raise ValueError(
                f"deepfm predicts one of two classes or a number, got classes: {self.classes}; "
                "use dcn or dnn"
            )
        return self

    def table_parts(self, feature: Any, job: Any) -> tuple[str, ...]:
        """A weight and a vector of each id."""
        return "wide", "deep"

    def vector_width(self, feature: Any, ids: int) -> int:
        """All are as wide, to be multiplied."""
        return self.factors

    def check(self, job: Any) -> None:
        """Raises `ValueError` if no feature is ids, or one has vectors of another width."""
        of_ids = [name for name in job.features if gives_ids(name, job.features)]
        if not of_ids:
            raise ValueError(
                "features: deepfm multiplies vectors of ids, and no feature is ids; use "
                "model.name: dnn"
            )
        for name in of_ids:
            wanted = job.features[name].embedding
            size = getattr(wanted, "size", wanted)
            if size not in ("auto", self.factors):
                raise ValueError(
                    f"features.{name}.embedding: is {size}, and deepfm needs vectors of one width, "
                    f"model.params.factors: {self.factors}; leave it out, or change one of them"
                )
