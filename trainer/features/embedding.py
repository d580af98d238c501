"""Vectors of ids, and of several ids one vector."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def build_column(
    ids: Any, width: int, *, combiner: str, table: str | None = None, one: bool = False
) -> Any:
    """Returns the column of a network that is a vector for each row of a categorical column.

    `combiner` is one of TensorFlow's, or `max`. A row without an id gets zeros; with `one` each has
    exactly one, which takes a fifth of the ops. All columns with the same `table` in an input layer
    look up one variable, `<table>/embedding_weights`; without it a column has one of its own.
    """
    largest = combiner == "max"
    if one:
        ids = type("OneIdColumn", (type(ids),), _AS_FED)(**ids._asdict())
    plain = tf.feature_column.embedding_column(ids, width, "mean" if largest else combiner)
    # Only this is another; the class has no public name.
    methods: dict[str, Any] = {"_var_scope_name": _SCOPE}
    if one:
        methods[_LOOKUP] = _look_up_one
    elif largest:
        methods[_LOOKUP] = _take_largest
    if table is not None:
        methods |= {make: _share_table(type(plain), make, table) for make in _MAKE}
    return type("OwnEmbeddingColumn", (type(plain),), methods)(**plain._asdict())


def weight_ids(ids: Any, weights: str) -> Any:
    """Returns a categorical column whose ids count by the feature `weights`; it keeps its name, and
    with it those of its variables."""
    plain = tf.feature_column.weighted_categorical_column(ids, weights)
    named = type("OwnWeightedColumn", (type(plain),), {"name": property(lambda _: ids.name)})
    return named(**plain._asdict())


# What is called to get rows of a table, and before that to make it: in input layers of Keras, which
# canned networks have, and in others.
_LOOKUP = "_get_dense_tensor_internal_helper"
_MAKE = ("create_state", "_old_get_dense_tensor_internal")
# The scope of its variables in other layers; those of Keras have no slash in it either.
_SCOPE = property(lambda self: self.name.replace("/", "_"))
# What makes a sparse tensor of the ids of a categorical column, in both: here it does not.
_AS_FED = {
    "transform_feature": lambda self, cache, manager: cache.get(self.key, manager),
    "_transform_feature": lambda self, inputs: inputs.get(self.key),
}


def _share_table(kind: Any, make: str, table: str) -> Any:
    """Returns the method that makes the table, or takes it if another column has made it."""

    def make_in_table(self: Any, *args: Any) -> Any:
        # In an input layer each column has a scope within that of the layer.
        here = v1.get_variable_scope()
        layer = here.name.rpartition("/")[0]
        scope = v1.VariableScope(
            v1.AUTO_REUSE,
            f"{layer}/{table}",
            partitioner=here.partitioner,
            custom_getter=here.custom_getter,
            use_resource=here.use_resource,
        )
        with v1.variable_scope(scope):
            return getattr(kind, make)(self, *args)

    return make_in_table


def _look_up_one(self: Any, given: Any, embedding_weights: Any) -> tf.Tensor:
    ids = tf.reshape(given.id_tensor, [-1])
    return look_up_one(embedding_weights, ids, tf.range(tf.size(ids)))


def look_up_one(table: Any, ids: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Returns the vector of each of the `ids`, `[batch]`; of ids that are equal it is looked up
    once, as TensorFlow's columns do. `rows` are 0 to one less than there are."""
    different, places = tf.unique(ids)
    found = v1.nn.embedding_lookup(table, different, partition_strategy="div")
    # Its gradient is added up by vector, that of `tf.gather` is not.
    return tf.sparse.segment_sum(found, places, rows)


def sum_vectors(table: Any, ids: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """Returns the sum of the vectors of each row of `ids`, `[batch, any]` with -1 where there is
    none; each times its weight, of the same shape, if they have any."""
    count = tf.shape(ids)[0]
    ids = tf.reshape(ids, [count, -1])
    where = tf.where(ids >= 0)
    different, places = tf.unique(tf.gather_nd(ids, where))
    found = v1.nn.embedding_lookup(table, different, partition_strategy="div")
    if weights is None:
        return tf.sparse.segment_sum(found, places, where[:, 0], num_segments=count)
    vectors = tf.gather(found, places) * tf.gather_nd(weights, where)[:, tf.newaxis]
    return tf.math.unsorted_segment_sum(vectors, where[:, 0], count)


def _take_largest(self: Any, sparse_tensors: Any, embedding_weights: Any) -> tf.Tensor:
    ids = sparse_tensors.id_tensor
    return take_largest(embedding_weights, ids.values, ids.indices[:, 0], count=ids.dense_shape[0])


def take_largest(table: Any, ids: tf.Tensor, rows: tf.Tensor, *, count: tf.Tensor) -> tf.Tensor:
    """Returns the largest of each component of the vectors of each row, `[count, width]`; zeros of
    a row without an id. `rows` says whose each of the `ids` is, both `[ids]`."""
    different, places = tf.unique(ids)
    found = v1.nn.embedding_lookup(table, different, partition_strategy="div")
    vectors = tf.gather(found, places)
    found = tf.math.unsorted_segment_max(vectors, rows, count)
    some = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, count) > 0
    return tf.where(some[:, tf.newaxis], found, 0.0)
