"""Transforms to ids: int64 of the shape of the input, from 0 to a number that is known."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from pipeline import feature_config

# Between the values that are crossed; no text of people has it.
_SEPARATOR = "\x1f"


def buckets(x: tf.Tensor, step: feature_config.Buckets) -> tf.Tensor:
    """The number of boundaries that are not above x."""
    assert step.boundaries is not None
    found = tf.raw_ops.Bucketize(input=tf.cast(x, tf.float32), boundaries=list(step.boundaries))
    return tf.cast(found, tf.int64)


def vocabulary(x: tf.Tensor, step: feature_config.Vocabulary) -> tf.Tensor:
    """i where x is the value of number i; else, of v values, v + fingerprint(x) mod oov."""
    assert step.values is not None
    if not step.values:
        return tf.strings.to_hash_bucket_fast(text_of(x), step.oov)
    keys, count = tf.constant(list(step.values), x.dtype), len(step.values)
    numbered = tf.lookup.KeyValueTensorInitializer(keys, tf.range(count, dtype=tf.int64))
    if step.oov == 1:  # the same, without the fingerprints
        return tf.lookup.StaticHashTable(numbered, count).lookup(x)
    table = tf.lookup.StaticVocabularyTable(numbered, step.oov, lookup_key_dtype=x.dtype)
    return table.lookup(x)


def hash_(x: tf.Tensor, step: feature_config.Hash) -> tf.Tensor:
    """fingerprint(x) mod buckets."""
    return tf.strings.to_hash_bucket_fast(text_of(x), step.buckets)


def identity(x: tf.Tensor, step: feature_config.Identity) -> tf.Tensor:
    """x if 0 <= x < ids - 1, else ids - 1."""
    last = step.ids - 1
    x = tf.cast(x, tf.int64)
    return tf.where((x >= 0) & (x < last), x, last)


def cross(inputs: Sequence[tf.Tensor], step: feature_config.Cross) -> tf.Tensor:
    """fingerprint(x + separator + y + ...) mod buckets."""
    joined = tf.strings.join([text_of(x) for x in inputs], separator=_SEPARATOR)
    return tf.strings.to_hash_bucket_fast(joined, step.buckets)


def text_of(x: tf.Tensor) -> tf.Tensor:
    """Texts as they are, whole numbers in decimal."""
    return x if x.dtype == tf.string else tf.strings.as_string(x)
