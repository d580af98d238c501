"""Steps to ids: int64 of the shape of the input, from 0 to a number that is known."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import pydantic

from pipeline import errors
from pipeline.sections import Positive
from pipeline.steps import percentiles, whole
from pipeline.steps.base import CATEGORIES, NUMBERS, Kind, Statistic, Step, Values
from pipeline.steps.numbers import check_alike

if TYPE_CHECKING:
    import tensorflow as tf

# Between the values that are crossed; no text of people has it.
_SEPARATOR = "\x1f"


class Buckets(Step):
    """Turns a number into the id of the interval that it lies in."""

    takes = NUMBERS
    gives = "ids"
    instead = "set boundaries"
    count: Annotated[int, pydantic.Field(ge=2, le=100)] | None = None
    """Number of intervals, each with as many rows of the train split. Give `count` or
    `boundaries`."""
    boundaries: tuple[float, ...] | None = None
    """Boundaries between intervals, in ascending order. A boundary belongs to the upper interval.
    """

    @pydantic.model_validator(mode="after")
    def _check_boundaries(self) -> Buckets:
        if self.boundaries is None and self.count is None:
            raise ValueError("needs count or boundaries")
        ordered = self.boundaries is None or (
            bool(self.boundaries) and list(self.boundaries) == sorted(set(self.boundaries))
        )
        if not ordered:
            raise ValueError(f"boundaries must rise, got {list(self.boundaries or ())}")
        return self

    def needs(self, kind: Kind) -> tuple[Statistic, ...]:
        """Percentiles, between which boundaries are."""
        return ("percentiles",) if self.boundaries is None else ()

    def filled(self, values: Values) -> Buckets:
        """Has boundaries. Raises `UsageError` if most of them would be the same."""
        if self.boundaries is not None or self.count is None or values.percentiles is None:
            return self
        cuts = [
            percentiles.quantile_at(values.percentiles, n / self.count)
            for n in range(1, self.count)
        ]
        boundaries = tuple(sorted(set(cuts)))
        if 2 * len(boundaries) < len(cuts):
            raise errors.UsageError(
                f"only {len(boundaries)} of the {len(cuts)} boundaries between {self.count} "
                "buckets are different, because few values make up most rows. Set count: "
                f"{len(boundaries) + 1}, or give boundaries"
            )
        return self.model_copy(update={"boundaries": boundaries})

    @property
    def jumps(self) -> tuple[float | str, ...]:
        """The boundaries."""
        return self.boundaries or ()

    def categories(self) -> int:
        """One more than there are boundaries."""
        return len(self.boundaries or ()) + 1

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """The number of boundaries that are not above x."""
        import tensorflow as tf

        assert self.boundaries is not None
        if x.dtype == tf.int64:
            limits = tf.constant([whole.round_up(self.boundaries)], tf.int64)
            found = tf.searchsorted(limits, tf.reshape(x, [1, -1]), "right", tf.int64)
            return tf.reshape(found, tf.shape(x))
        x = tf.cast(x, tf.float32)
        found = tf.raw_ops.Bucketize(input=x, boundaries=list(self.boundaries))
        return tf.cast(found, tf.int64)

    def layer(self, x: tf.Tensor) -> tf.Tensor:
        """The same by a layer of Keras, which cannot save that op."""
        import tensorflow as tf

        if not self.boundaries:
            return tf.zeros_like(x, tf.int64)
        if x.dtype == tf.int64:
            reached = tf.expand_dims(x, -1) >= whole.round_up(self.boundaries)
            return tf.reduce_sum(tf.cast(reached, tf.int64), axis=-1)
        layer = tf.keras.layers.Discretization(bin_boundaries=list(self.boundaries))
        return tf.cast(layer(tf.cast(x, tf.float32)), tf.int64)


# Values of a vocabulary, at most, with which each of a column is compared in a Keras model.
_COMPARED = 32
# Keras takes a list of three or four that begins with a text for a reference to a layer.
_NO_REFERENCE = 5


class Vocabulary(Step):
    """Turns a value into its place in the vocabulary; all other values share the ids after it."""

    takes = ("integer", "text")
    gives = "ids"
    takes_missing = True
    instead = "set values, or add vocabulary: {} to the column in the config and preprocess again"
    oov: Positive = 1
    """Number of ids that values outside the vocabulary share."""
    values: tuple[int | str, ...] | None = None
    """The vocabulary, each value once. Not set: that of the column in the train split."""
    of: str | None = None
    """Another column whose vocabulary it is, so that both can share a table. Not with `values`."""

    @pydantic.model_validator(mode="after")
    def _check_one_vocabulary(self) -> Vocabulary:
        if self.values is not None and self.of is not None:
            raise ValueError("values and of exclude each other")
        return self

    @property
    def statistics_of(self) -> str | None:
        """The column whose vocabulary it is."""
        return self.of

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for values that are not like those it gets, or there twice."""
        values = self.values or ()
        check_alike(values, kind)
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice!r} is there twice")

    def needs(self, kind: Kind) -> tuple[Statistic, ...]:
        """All values there are."""
        return ("vocabulary",) if self.values is None else ()

    def filled(self, values: Values) -> Vocabulary:
        """Has the values."""
        listed = values.vocabulary if self.values is None else self.values
        return self.model_copy(update={"values": listed, "of": None})

    @property
    def jumps(self) -> tuple[float | str, ...]:
        """The vocabulary, from its rare end."""
        return (self.values or ())[::-1]

    def categories(self) -> int:
        """One for each value, and those of all others."""
        return len(self.values or ()) + self.oov

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """i where x is the value of number i; else, of v values, v + fingerprint(x) mod oov."""
        import tensorflow as tf

        assert self.values is not None
        if not self.values:
            return tf.strings.to_hash_bucket_fast(text_of(x), self.oov)
        keys, count = tf.constant(list(self.values), x.dtype), len(self.values)
        numbered = tf.lookup.KeyValueTensorInitializer(keys, tf.range(count, dtype=tf.int64))
        if self.oov == 1:  # the same, without the fingerprints
            return tf.lookup.StaticHashTable(numbered, count).lookup(x)
        table = tf.lookup.StaticVocabularyTable(numbered, self.oov, lookup_key_dtype=x.dtype)
        return table.lookup(x)

    @property
    def together(self) -> bool:
        """Where all other values share one id."""
        return bool(self.values) and self.oov == 1

    @classmethod
    def apply_all(cls, steps: Sequence[Vocabulary], x: tf.Tensor) -> tf.Tensor:
        """The same, column by column: a value is looked up in all vocabularies at once, and that
        number together with its column's."""
        import tensorflow as tf

        listed = [step.values or () for step in steps]
        every = {value: n for n, value in enumerate(dict.fromkeys(itertools.chain(*listed)))}
        width = len(steps)
        places = {
            every[value] * width + column: place
            for column, values in enumerate(listed)
            for place, value in enumerate(values)
        }
        numbers = _table(tf.constant(list(every), x.dtype), tf.range(len(every), dtype=tf.int64))
        of_both = _table(
            tf.constant(list(places), tf.int64), tf.constant(list(places.values()), tf.int64)
        )
        found = of_both.lookup(numbers.lookup(x) * width + tf.range(width, dtype=tf.int64))
        return tf.where(found < 0, tf.constant([len(v) for v in listed], tf.int64), found)

    def layer(self, x: tf.Tensor) -> tf.Tensor:
        """The same without such tables, which Keras cannot save: its own put what is unknown
        first, and choose among several ids for that in another way."""
        import tensorflow as tf

        layers, values = tf.keras.layers, list(self.values or ())
        known = tf.zeros_like(x, tf.int64)
        if values and x.dtype == tf.string:
            unused = max(map(str, values), key=len) + "?"
            known = layers.StringLookup(vocabulary=values, oov_token=unused)(x)
        elif values:
            lowest = min(int(value) for value in values)
            known = layers.IntegerLookup(vocabulary=values, oov_token=lowest - 1)(x)
        unknown = tf.strings.to_hash_bucket_fast(text_of(x), self.oov) + len(values)
        return tf.where(known > 0, known - 1, unknown)

    @property
    def layers_together(self) -> bool:
        """Where a value can be compared with each of the vocabulary."""
        return self.together and 0 < len(self.values or ()) <= _COMPARED

    @classmethod
    def layer_all(cls, steps: Sequence[Vocabulary], x: tf.Tensor) -> tf.Tensor:
        """The same: a value of each column is compared with all of its vocabulary."""
        import tensorflow as tf

        listed = [list(step.values or ()) for step in steps]
        longest = max(_NO_REFERENCE, *map(len, listed))
        # The first that is equal counts, so that a value may be there again behind the last.
        filled = [values + values[:1] * (longest - len(values)) for values in listed]
        equal = tf.equal(tf.expand_dims(x, 2), filled)
        found = tf.argmax(tf.cast(equal, tf.int32), axis=2)
        return tf.where(tf.reduce_any(equal, axis=2), found, [len(values) for values in listed])


class Hash(Step):
    """Turns a value into one of `buckets` ids, by a hash; or into several, by as many."""

    takes = ("integer", "text")
    gives = "ids"
    takes_missing = True
    scatters = True
    buckets: Annotated[int, pydantic.Field(ge=2)]
    """Number of ids."""
    functions: Annotated[int, pydantic.Field(ge=1, le=8)] = 1
    """Number of hash functions. With 2 or more a value has as many ids, whose vectors are combined
    as those of a list: two values that share one id seldom share all of them."""

    @property
    def ids_of_each(self) -> int:
        """One by each function."""
        return self.functions

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for several ids of several values a row, unless these are a list."""
        if shape and self.functions > 1:
            raise ValueError(
                f"functions: {self.functions} takes one value a row or a list, and gets values of "
                f"shape {list(shape)}"
            )

    def categories(self) -> int:
        """As many as there are buckets."""
        return self.buckets

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """fingerprint(x) mod buckets; of several functions, `[*shape of x, functions]`, function
        n > 0 gives fingerprint(n + separator + x) mod buckets."""
        import tensorflow as tf

        x = text_of(x)
        found = [tf.strings.to_hash_bucket_fast(x, self.buckets)]
        for number in range(1, self.functions):
            salted = tf.strings.join([str(number), x], separator=_SEPARATOR)
            found.append(tf.strings.to_hash_bucket_fast(salted, self.buckets))
        return found[0] if len(found) == 1 else tf.stack(found, axis=-1)


class Identity(Step):
    """Takes whole numbers as ids; numbers outside the range get the last id."""

    takes = ("integer",)
    gives = "ids"
    takes_missing = True
    ids: Annotated[int, pydantic.Field(ge=2)]
    """Number of ids. Values 0 to `ids` - 2 keep their number."""

    def categories(self) -> int:
        """As many as are given."""
        return self.ids

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """x if 0 <= x < ids - 1, else ids - 1."""
        import tensorflow as tf

        last = self.ids - 1
        x = tf.cast(x, tf.int64)
        return tf.where((x >= 0) & (x < last), x, last)


class Cross(Step):
    """Turns several values together into one of `buckets` ids, by a hash. Only the first step of a
    feature, with a list in `of`."""

    takes = CATEGORIES
    lists = None
    gives = "ids"
    several = True
    takes_missing = True
    buckets: Annotated[int, pydantic.Field(ge=2)]
    """Number of ids."""

    def categories(self) -> int:
        """As many as there are buckets."""
        return self.buckets

    def apply(self, x: Sequence[tf.Tensor]) -> tf.Tensor:
        """fingerprint(x1 + separator + x2 + ...) mod buckets."""
        import tensorflow as tf

        joined = tf.strings.join([text_of(one) for one in x], separator=_SEPARATOR)
        return tf.strings.to_hash_bucket_fast(joined, self.buckets)


def _table(keys: tf.Tensor, values: tf.Tensor) -> tf.lookup.StaticHashTable:
    """Returns a table with -1 for all other keys."""
    import tensorflow as tf

    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)


def text_of(x: tf.Tensor) -> tf.Tensor:
    """Returns texts as they are, whole numbers in decimal."""
    import tensorflow as tf

    return x if x.dtype == tf.string else tf.strings.as_string(x)
