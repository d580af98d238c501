"""Parameters of a checkpoint, as they are evaluated and exported, for layers of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import errors
from trainer.checkpoints import shapes
from trainer.optimizers import averaging


class Parameters:
    """Reads a checkpoint: of parameters that have an average, that one, if `averaged`."""

    def __init__(self, checkpoint: str, *, averaged: bool = False) -> None:
        self._checkpoint = checkpoint
        self._averaged = averaged
        self._reader = tf.train.load_checkpoint(checkpoint)

    def __call__(self, name: str) -> np.ndarray:
        """Returns the values of one. Raises `ModelError` if there is none of that name."""
        average = averaging.name_average(name)
        if self._averaged and self._reader.has_tensor(average):
            name = average
        if not self._reader.has_tensor(name):
            known = self._reader.get_variable_to_shape_map()
            raise errors.ModelError(
                f"checkpoint {self._checkpoint!r}: has no {name!r}{errors.suggest(name, known)}, "
                "which its Keras form needs; it was trained with other code"
            )
        return np.asarray(self._reader.get_tensor(name))

    def load(self, layer: Any, scope: str) -> None:
        """Gives a layer of Keras what the checkpoint has under `scope/`, by the names of its
        weights: kernel, bias, gamma and so on."""
        names = [weight.name.rpartition("/")[2].partition(":")[0] for weight in layer.weights]
        self.fill(layer, [f"{scope}/{name}" for name in names])

    def fill(self, holder: Any, names: Sequence[str]) -> None:
        """Gives the weights of a layer or model of Keras the values of `names`, in their order.
        Raises `shapes.OtherShapes` if one has another shape."""
        shapes.check(self._checkpoint, zip(names, holder.weights, strict=True))
        holder.set_weights([self(name) for name in names])
