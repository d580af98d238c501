"""Transforms of texts to bags of ids."""

from __future__ import annotations

import tensorflow as tf

from pipeline import feature_config


def ngrams(x: tf.Tensor, step: feature_config.Ngrams) -> tf.Tensor:
    """fingerprint(g) mod buckets of every run g of 1 to n words or characters of x in lower case.

    Takes `[batch]` texts; gives `[batch, longest]` int64, with -1 after the last of a text.
    """
    text = tf.strings.lower(x, encoding="utf-8")
    words = step.unit == "word"
    units = tf.strings.split(text) if words else tf.strings.unicode_split(text, "UTF-8")
    runs = tf.strings.ngrams(units, list(range(1, step.n + 1)), separator=" " if words else "")
    return tf.strings.to_hash_bucket_fast(runs.to_tensor(""), step.buckets) * tf.cast(
        tf.sequence_mask(runs.row_lengths()), tf.int64
    ) - tf.cast(~tf.sequence_mask(runs.row_lengths()), tf.int64)
