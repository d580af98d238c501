"""Columns side by side in one tensor, while records are mixed."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from pipeline.config import Column

Tensors = dict[str, tf.Tensor]

# Of so many columns of a type, moving each by itself is most of what mixing costs.
_MANY = 32


class Packing:
    """The columns of one value a record, of each type of which there are many."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        alike: dict[str, list[str]] = {}
        for name, column in columns.items():
            single = column.shape == () and not column.list
            if single and column.type in ("int64", "float32", "string"):
                alike.setdefault(f"packed/{column.type}", []).append(name)
        self._packed = {name: parts for name, parts in alike.items() if len(parts) >= _MANY}

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def pack(self, columns: Mapping[str, tf.Tensor]) -> Tensors:
        """Returns `[records]` tensors of one type as one, `[records, columns]`, and all others as
        they are."""
        rest = dict(columns)
        return {
            name: tf.stack([rest.pop(part) for part in parts], axis=1)
            for name, parts in self._packed.items()
        } | rest

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def unpack(self, packed: Mapping[str, tf.Tensor]) -> Tensors:
        """Returns the columns that `pack` was given."""
        found = dict(packed)
        for name, parts in self._packed.items():
            found |= zip(parts, tf.unstack(found.pop(name), len(parts), axis=1), strict=True)
        return found
