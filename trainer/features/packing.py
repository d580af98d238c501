"""Values of one type side by side in one tensor, on their way through an input pipeline.

What a pipeline passes on it passes tensor by tensor, and each costs time to declare, to copy and to
slice: of a wide table more than all else that is done to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.config import Column

Tensors = dict[str, tf.Tensor]

# Of so many of a type, moving each by itself is most of what a pipeline costs.
_MANY = 32


class Packing:
    """The tensors `[records]` of each type of which there are many, by name. `parts` are those that
    are packed together, in their order."""

    def __init__(self, types: Mapping[str, tf.DType]) -> None:
        alike: dict[str, list[str]] = {}
        for name, dtype in types.items():
            alike.setdefault(f"packed/{dtype.name}", []).append(name)
        self.parts = {name: parts for name, parts in alike.items() if len(parts) >= _MANY}

    def pack(self, values: Mapping[str, tf.Tensor]) -> Tensors:
        """Returns `[records]` tensors of one type as one, `[records, tensors]`, and all others as
        they are."""
        rest = dict(values)
        return {
            name: stack_tensors([rest.pop(part) for part in parts])
            for name, parts in self.parts.items()
        } | rest

    def unpack(self, values: Mapping[str, tf.Tensor]) -> Tensors:
        """Returns what `pack` was given; what has not been packed as it is."""
        found = dict(values)
        for name, parts in self.parts.items():
            if name in found:
                # A model may have a variable that is called "unstack".
                values = tf.unstack(found.pop(name), len(parts), axis=1, name="pipeline.unpack")
                found |= zip(parts, values, strict=True)
        return found


def stack_tensors(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns tensors `[records, ...]` of one type and shape as one, `[records, tensors, ...]`.

    In a graph or a Keras model, those that have been taken apart are taken as they lie together: of
    a wide table it then has an op for them all, and one that looks for what an op is made of has
    few to see.
    """
    places: dict[Any, tuple[tf.Tensor, list[int], list[int]]] = {}
    for place, value in enumerate(values):
        part = find_slice(value)
        if part is None:
            return tf.stack(values, axis=1)
        _, columns, taken = places.setdefault(part.source, (part.whole, [], []))
        columns.append(part.column)
        taken.append(place)
    parts = [_take_columns(whole, columns) for whole, columns, _ in places.values()]
    if len(parts) == 1:
        return parts[0]
    behind = np.concatenate([taken for _, _, taken in places.values()])
    return tf.gather(tf.concat(parts, axis=1), np.argsort(behind).tolist(), axis=1)


class TensorSlice(NamedTuple):
    """What a tensor has been taken from: that is `whole[:, column]`; `source` names the op or the
    call of a layer that took it apart."""

    source: Any
    whole: Any
    column: int


def find_slice(value: tf.Tensor) -> TensorSlice | None:
    """Returns what `tf.unstack(…, axis=1)` took a symbolic tensor from; `None` for any other."""
    if tf.is_symbolic_tensor(value):
        op = value.op
        apart = op.type == "Unpack" and op.get_attr("axis") == 1
        return TensorSlice(op.name, op.inputs[0], value.value_index) if apart else None
    if tf.keras.backend.is_keras_tensor(value):
        node = value.node
        apart = getattr(node.layer, "function", None) is tf.unstack
        if apart and node.call_kwargs.get("axis") == 1:
            return TensorSlice(id(node), node.call_args[0], value._keras_history.tensor_index)
    return None


def _take_columns(whole: tf.Tensor, columns: Sequence[int]) -> tf.Tensor:
    as_it_is = list(columns) == list(range(whole.shape[1] or 0))
    return whole if as_it_is else tf.gather(whole, list(columns), axis=1)


def build_packing(columns: Mapping[str, Column]) -> Packing:
    """Returns the packing of columns of one value a record."""
    return Packing(
        {
            name: tf.as_dtype(column.type)
            for name, column in columns.items()
            if column.shape == () and not column.list and column.type not in ("uint8", "image")
        }
    )
