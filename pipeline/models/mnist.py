"""`mnist_cnn` and `mnist_mlp`."""

from __future__ import annotations

from typing import Annotated

import pydantic

from pipeline.models.base import METRICS_OF_CLASSES, METRICS_OF_TWO_CLASSES, ModelSettings


class Mnist(ModelSettings):
    """Networks for images of digits."""

    names = ("mnist_cnn", "mnist_mlp")
    inputs = ("image",)

    classes: Annotated[int, pydantic.Field(ge=2)] = 10
    """Number of classes. Labels are 0 to one less."""

    @property
    def label_classes(self) -> int:
        """How many classes the label must be one of."""
        return self.classes

    @property
    def metrics(self) -> tuple[str, ...]:
        """What it reports in an evaluation without `eval.group`."""
        return METRICS_OF_TWO_CLASSES if self.classes == 2 else METRICS_OF_CLASSES
