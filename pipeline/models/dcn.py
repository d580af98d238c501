"""`dcn`."""

from __future__ import annotations

from pipeline.models.base import Layers
from pipeline.sections import Positive


class Dcn(Layers):
    """Cross layers, each of which multiplies all features once more, next to a network of fully
    connected layers. It needs `features`."""

    names = ("dcn",)
    of_features = True
    several_labels = True

    cross_layers: Positive = 3
    """Number of cross layers; n of them make products of up to n + 1 features."""
    rank: Positive | None = None
    """Makes the square matrix of each cross layer the product of two that are this narrow. Not
    set: the matrix is whole."""

    def layer_shapes(self, width: int) -> tuple[tuple[int, int], ...]:
        """Those of the cross layers, too."""
        each = ((width, width),) if self.rank is None else ((width, self.rank), (self.rank, width))
        return (*super().layer_shapes(width), *(self.cross_layers * each))
