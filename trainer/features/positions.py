"""Learned vectors of the places in lists, which are added to those of the items there.

The first id of a row is in place 0, the next in 1, and so on; of a step that gives several ids of
each item, all of these are in its place. The vectors begin at 0: a place that no list of train
reaches adds nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from pipeline.records.feature_plan import Planned

v1 = tf.compat.v1
# In the scope of the feature, also where it looks up its ids in the table of another.
VARIABLE = "position_weights"


@dataclasses.dataclass(frozen=True)
class Positions:
    """The places of lists of at most `items`, with `ids_of_each` ids in each place."""

    items: int
    ids_of_each: int = 1

    def locate_dense(self, there: Any) -> Any:
        """Returns the place of each id that is `there`, `[batch, ids]`; elsewhere that of the next.
        Works on tensors of Keras models, too."""
        before = tf.cumsum(tf.cast(there, tf.int64), axis=1, exclusive=True)
        return before // self.ids_of_each

    def locate_sparse(self, ids: tf.SparseTensor) -> tf.SparseTensor:
        """Returns the place of each of the ids, at their places in the tensor."""
        rows = ids.indices[:, 0]
        order = tf.range(tf.size(rows, tf.int64))
        first = tf.math.unsorted_segment_min(order, rows, ids.dense_shape[0])
        places = (order - tf.gather(first, rows)) // self.ids_of_each
        return tf.SparseTensor(ids.indices, places, ids.dense_shape)


def find_positions(planned: Planned) -> Positions | None:
    """Returns the places whose vectors a feature adds, `None` if it adds none."""
    if planned.positions is None:
        return None
    return Positions(planned.positions, planned.ids_of_each)


def look_up(there: tf.Tensor, positions: Positions, size: int) -> tf.Tensor:
    """Returns the vector of the place of each item that is `there`, and zeros elsewhere, `[batch,
    items, size]`. The table is made in the scope that is open."""
    table = v1.get_variable(VARIABLE, [positions.items, size], initializer=v1.zeros_initializer())
    # Only of places that the batch has, so that no other gets a gradient.
    found = v1.nn.embedding_lookup(table, tf.range(tf.shape(there)[1]), partition_strategy="div")
    return tf.where(there[:, :, tf.newaxis], tf.gather(found, positions.locate_dense(there)), 0.0)


def add_positions(column: Any, positions: Positions) -> Any:
    """Returns a column of the vectors of ids that adds those of their places, combined alike."""
    kind = type(column)
    shape, start = (positions.items, column.dimension), v1.zeros_initializer()

    def add_places(self: Any, vectors: tf.Tensor, given: Any, table: Any) -> tf.Tensor:
        return vectors + v1.nn.safe_embedding_lookup_sparse(
            table,
            positions.locate_sparse(given.id_tensor),
            given.weight_tensor,
            combiner=self.combiner,
        )

    def create_state(self: Any, manager: Any) -> None:
        kind.create_state(self, manager)
        manager.create_variable(
            self, name=VARIABLE, shape=shape, dtype=tf.float32, initializer=start
        )

    def compute_in_keras(self: Any, given: Any, manager: Any) -> tf.Tensor:
        vectors = kind._get_dense_tensor_internal(self, given, manager)
        return add_places(self, vectors, given, table=manager.get_variable(self, VARIABLE))

    def compute_elsewhere(self: Any, given: Any, *args: Any) -> tf.Tensor:
        vectors = kind._old_get_dense_tensor_internal(self, given, *args)
        table = v1.get_variable(VARIABLE, shape, initializer=start)
        return add_places(self, vectors, given, table=table)

    # What input layers of Keras call, which canned networks have, and what others call.
    methods = {
        "create_state": create_state,
        "_get_dense_tensor_internal": compute_in_keras,
        "_old_get_dense_tensor_internal": compute_elsewhere,
    }
    return type("PlacesColumn", (kind,), methods)(**column._asdict())
