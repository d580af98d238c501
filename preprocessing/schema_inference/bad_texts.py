"""Counts rows with texts that no column takes: bytes that are not UTF-8, or a NUL."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from pipeline import config
from pipeline.config.column_config import JSON
from preprocessing.arrow import cast, lists

_TEXT = config.Column(type="string", missing="allow")


@dataclasses.dataclass
class BadTexts:
    """The rows of a column with such texts. In `escaped` ones the bytes are right, and an item of
    an array of JSON has half of a surrogate pair or a NUL as an escape."""

    rows: int = 0
    escaped: int = 0

    @property
    def of_bytes(self) -> int:
        """Rows that may be in another encoding."""
        return self.rows - self.escaped

    def cut(self, texts: pa.Array, separator: str) -> pa.Array:
        """Returns the lists that stand in texts, as bytes; those that are no text are counted."""
        texts, bad = cast.cast(texts, pa.string())
        if bad is not None:
            self.rows += int(bad.sum())
        texts = texts.drop_null()
        as_json = separator == JSON
        found = (lists.parse_json(texts) if as_json else lists.split_texts(texts, separator))[0]
        # As bytes, of which those that are no text are refused like any other.
        return found.cast(pa.list_(pa.binary()))

    def see(self, found: pa.Array, *, as_json: bool) -> None:
        """Counts rows, each of which has one text or a list of them; `as_json` if it is cut out of
        JSON."""
        items = found.flatten() if pa.types.is_nested(found.type) else found
        if not _is_text(items.type):
            return
        bad = np.zeros(len(items), bool)
        for _, rows in cast.convert(items, _TEXT)[1]:
            bad |= rows
        if items is not found:
            bad = lists.find_rows_with(bad, lists.count_items(found))
        count = int(np.count_nonzero(bad))
        self.rows += count
        self.escaped += count if as_json else 0


def _is_text(kind: pa.DataType) -> bool:
    known = pa.types
    texts = known.is_string(kind) or known.is_large_string(kind)
    return texts or known.is_binary(kind) or known.is_large_binary(kind)
