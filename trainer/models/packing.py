"""Values of one type side by side in one tensor, on their way through an input pipeline.

What a pipeline passes on it passes tensor by tensor, and each costs time to declare, to copy and to
slice: of a wide table more than all else that is done to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from pipeline.config import Column

Tensors = dict[str, tf.Tensor]

# Of so many of a type, moving each by itself is most of what a pipeline costs.
_MANY = 32


class Packing:
    """The tensors `[records]` of each type of which there are many, by name."""

    def __init__(self, types: Mapping[str, tf.DType]) -> None:
        alike: dict[str, list[str]] = {}
        for name, dtype in types.items():
            alike.setdefault(f"packed/{dtype.name}", []).append(name)
        self._packed = {name: parts for name, parts in alike.items() if len(parts) >= _MANY}

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def pack(self, values: Mapping[str, tf.Tensor]) -> Tensors:
        """Returns `[records]` tensors of one type as one, `[records, tensors]`, and all others as
        they are."""
        rest = dict(values)
        return {
            name: tf.stack([rest.pop(part) for part in parts], axis=1)
            for name, parts in self._packed.items()
        } | rest

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def unpack(self, values: Mapping[str, tf.Tensor]) -> Tensors:
        """Returns what `pack` was given; what has not been packed as it is."""
        found = dict(values)
        for name, parts in self._packed.items():
            if name in found:
                found |= zip(parts, tf.unstack(found.pop(name), len(parts), axis=1), strict=True)
        return found


def of_columns(columns: Mapping[str, Column]) -> Packing:
    """Returns the packing of columns of one value a record."""
    return Packing(
        {
            name: tf.as_dtype(column.type)
            for name, column in columns.items()
            if column.shape == () and not column.list and column.type not in ("uint8", "image")
        }
    )
