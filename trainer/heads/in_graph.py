"""What a Keras metric of ours needs in the graph of an Estimator."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Updated:
    """A metric whose update is part of the graph of the evaluation, as that of a metric of Keras.

    Keras makes a `tf.function` of the update of each metric that is not its own
    (docs/tensorflow-pitfalls.md#metrics-of-ones-own). In one, variables of
    `CentralStorageStrategy` cannot be changed: "`merge_call` called while defining a new graph".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.update_state = self._update

    def _update(self, *args: Any, **kwargs: Any) -> Any:
        done = type(self).update_state(self, *args, **kwargs)  # type: ignore[misc]
        if not tf.executing_eagerly():
            self.add_update(done)  # type: ignore[attr-defined]
        return done
