"""`dnn` and `dnn_linear_combined`."""

from __future__ import annotations

from pipeline.models.base import Layers


class Dnn(Layers):
    """A network of fully connected layers; `dnn_linear_combined` adds a linear model to it. Both
    need `features`."""

    names = ("dnn", "dnn_linear_combined")
    of_features = True
    several_labels = True

    batch_norm: bool = False
    """Normalizes each hidden layer over the batch."""
