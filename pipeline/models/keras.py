"""`keras`."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic

from pipeline.models.base import OfClasses
from pipeline.sections import Fraction


class Keras(OfClasses):
    """Any `tf.keras` model. Its last layer gives probabilities, or a number for regression."""

    names = ("keras",)
    own_network = True

    network: Annotated[str, pydantic.Field(pattern=r"^[\w.]+:[\w.]+$")]
    """A function that returns the model, as `package.module:function`."""
    arguments: dict[str, Any] = pydantic.Field(default={})
    """Keyword arguments of that function."""
    batch_norm_momentum: Fraction | None = None
    """Momentum of all batch normalization layers. Not set: that of each layer."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """What it reports in an evaluation without `eval.group`; metrics of the network itself are
        not among them."""
        return ("loss",) if self.task == "regression" else ("accuracy", "loss")
