"""`mmoe`."""

from __future__ import annotations

from pipeline.models.base import Layers
from pipeline.sections import Positive


class Mmoe(Layers):
    """Several networks, the experts, of which each of several [`labels`](#labelsname) has its own
    mixture; with `data.label` there is one mixture. It needs `features`. `hidden_units` are those
    of each expert."""

    names = ("mmoe",)
    of_features = True
    several_labels = True

    experts: Positive = 4
    """Number of experts."""
    tower_units: tuple[Positive, ...] = (32,)
    """Units of the hidden layers that each label has for itself."""

    def layer_shapes(self, width: int) -> tuple[tuple[int, int], ...]:
        """That of the first layer of each expert."""
        return self.experts * super().layer_shapes(width)
