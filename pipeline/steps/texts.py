"""Steps of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pydantic

from pipeline.steps.base import Kind, Step

if TYPE_CHECKING:
    import tensorflow as tf


class Ngrams(Step):
    """Turns a text, in lower case, into the hashed ids of all its runs of 1 to `n` words or
    characters."""

    takes = ("text",)
    lists = None
    gives = "bag"
    outside_keras = True  # ragged
    n: Annotated[int, pydantic.Field(ge=1, le=8)] = 1
    """Longest run, in units."""
    unit: Literal["word", "character"] = "word"
    """What runs consist of."""
    buckets: Annotated[int, pydantic.Field(ge=2)]
    """Number of ids."""

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for several texts a row."""
        if shape:
            raise ValueError(f"takes one text per row, got values of shape {list(shape)}")

    def categories(self) -> int:
        """As many as there are buckets."""
        return self.buckets

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """fingerprint(g) mod buckets of every run g of 1 to n words or characters of x in lower
        case: of `[batch]` texts `[batch, longest]` int64, with -1 after the last of a text."""
        import tensorflow as tf

        text = tf.strings.lower(x, encoding="utf-8")
        words = self.unit == "word"
        units = tf.strings.split(text) if words else tf.strings.unicode_split(text, "UTF-8")
        runs = tf.strings.ngrams(units, list(range(1, self.n + 1)), separator=" " if words else "")
        return tf.strings.to_hash_bucket_fast(runs.to_tensor(""), self.buckets) * tf.cast(
            tf.sequence_mask(runs.row_lengths()), tf.int64
        ) - tf.cast(~tf.sequence_mask(runs.row_lengths()), tf.int64)
