"""`dnn` and `dnn_linear_combined`."""

from __future__ import annotations

from typing import Any

from pipeline.models.base import Layers, gives_ids


class Dnn(Layers):
    """A network of fully connected layers; `dnn_linear_combined` adds a linear model to it. Both
    need `features`."""

    names = ("dnn", "dnn_linear_combined")
    of_features = True
    several_labels = True

    batch_norm: bool = False
    """Normalizes each hidden layer over the batch."""

    def table_parts(self, feature: Any, job: Any) -> tuple[str, ...]:
        """Of `dnn_linear_combined` that is for each feature to say."""
        if job.model.name == "dnn":
            return super().table_parts(feature, job)
        return tuple(feature.parts(of_ids=True))

    def check(self, job: Any) -> None:
        """Raises `ValueError` if one of the two parts of `dnn_linear_combined` gets no feature."""
        if job.model.name != "dnn_linear_combined":
            return
        parts = {
            part
            for name, feature in job.features.items()
            for part in feature.parts(of_ids=gives_ids(name, job.features))
        }
        for part, other in (("wide", "dnn"), ("deep", "linear")):
            if part not in parts:
                raise ValueError(
                    f"features: none is for the {part} part of dnn_linear_combined; write part: "
                    f"{part} in one, or use model.name: {other}"
                )
