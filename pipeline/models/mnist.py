"""`mnist_cnn` and `mnist_mlp`."""

from __future__ import annotations

from typing import Annotated

import pydantic

from pipeline.models.base import ModelSettings


class Mnist(ModelSettings):
    """Networks for images of digits."""

    names = ("mnist_cnn", "mnist_mlp")

    classes: Annotated[int, pydantic.Field(ge=2)] = 10
    """Number of classes. Labels are 0 to one less."""

    @property
    def label_classes(self) -> int:
        """How many classes the label must be one of."""
        return self.classes
