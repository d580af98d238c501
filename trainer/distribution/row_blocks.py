"""Which server holds which rows of a table that is cut over several.

Vocabularies are ordered by frequency, so the first rows are asked for in every step and the last
ones hardly ever. Contiguous halves would send nearly all requests to the first server. Here each
server gets a few rows of every frequency: the table is cut into blocks, single rows at its head
and longer ones further back, which go to the servers in turn, back and forth.

The order of rows in checkpoints does not change: each block is a range of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

# A round of blocks, one for each server, is so many times as long as all before it together. On ids
# by Zipf's law (exponents 0.8 to 1.5) each of 4 servers is asked for at most 1.15 times the mean.
_GROWTH = 0.5


class RowRange(NamedTuple):
    """Rows of a table from `first` on; a part holds them from its row `at` on."""

    first: int
    size: int
    part: int
    at: int


class RowBlocks:
    """The blocks of a table of `rows` rows in `parts` parts.

    Parts are as large as those of TensorFlow's "div": the first `rows % parts` have one more row.
    """

    def __init__(self, rows: int, parts: int, *, turn: int = 0) -> None:
        """`turn` is the part that gets the first row, modulo `parts`: another for each table."""
        self.rows, self.parts = rows, parts
        self.sizes = [rows // parts + (part < rows % parts) for part in range(parts)]
        self.blocks = self._assign_rows(turn)

    def _assign_rows(self, turn: int) -> list[RowRange]:
        blocks: list[RowRange] = []
        order = [(place + turn) % self.parts for place in range(self.parts)]
        first = given = 0
        while first < self.rows:
            size = max(1, int(first * _GROWTH / self.parts))
            is_last = given + 2 * size > self.sizes[-1]
            for part in order:
                taken = self.sizes[part] - given if is_last else size
                blocks.append(RowRange(first, taken, part, given))
                first += taken
            given += size
            order.reverse()
        return [block for block in blocks if block.size]

    def list_part_blocks(self, part: int) -> list[RowRange]:
        """Returns the blocks of a part, in the order of its rows."""
        return [block for block in self.blocks if block.part == part]

    def find_places(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns where the rows `ids`, of any shape, are in all parts one after the other. What is
        no id of the table stays what it is."""
        offsets = np.cumsum([0, *self.sizes])
        begins = [*(block.first for block in self.blocks), self.rows]
        shifts = [offsets[block.part] + block.at - block.first for block in self.blocks]
        found = tf.searchsorted(tf.constant(begins, ids.dtype), tf.reshape(ids, [-1]), side="right")
        shift = tf.gather(tf.constant([0, *shifts, 0], ids.dtype), found)
        return ids + tf.reshape(shift, tf.shape(ids))

    def join(self, parts: list[Any]) -> tf.Tensor:
        """Returns the rows of all parts in the order of the table."""
        pieces = {
            (part, block.at): piece
            for part, rows in enumerate(parts)
            for block, piece in zip(
                self.list_part_blocks(part), self.split(rows, part), strict=True
            )
        }
        return tf.concat([pieces[block.part, block.at] for block in self.blocks], axis=0)

    def cut(self, table: Any) -> list[tf.Tensor]:
        """Returns the rows of each part, of those of a table in its order."""
        pieces = tf.split(table, [block.size for block in self.blocks])
        by_place = dict(zip(self.blocks, pieces, strict=True))
        return [
            tf.concat([by_place[block] for block in self.list_part_blocks(part)], axis=0)
            for part in range(self.parts)
        ]

    def split(self, rows: Any, part: int) -> list[tf.Tensor]:
        """Returns the rows of a part block by block."""
        return list(tf.split(rows, [block.size for block in self.list_part_blocks(part)]))
