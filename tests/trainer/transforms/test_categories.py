"""Each transform to ids against NumPy; hashes against recorded ids, which must never change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import feature_config
from trainer.transforms import categories


def test_buckets():
    boundaries = (0.0, 10.0, 10.5)
    x = np.array([-5, -0.0, 0.0, 9.99, 10.0, 10.5, 1e9], np.float32)
    step = feature_config.Buckets(step="buckets", boundaries=boundaries)
    found = categories.buckets(tf.constant(x), step)
    assert found.dtype == tf.int64
    np.testing.assert_array_equal(found, np.digitize(x, boundaries))


def test_buckets_of_whole_numbers():
    step = feature_config.Buckets(step="buckets", boundaries=(100.0, 1200.0))
    x = np.array([99, 100, 1199, 1200], np.int64)
    np.testing.assert_array_equal(categories.buckets(tf.constant(x), step), [0, 1, 1, 2])


@pytest.mark.parametrize(
    ("values", "x", "wanted"),
    [
        (("EWR", "JFK", "LGA"), ["LGA", "EWR", "JFK"], [2, 0, 1]),
        ((5, -3, 7), [7, 5, -3], [2, 0, 1]),
    ],
)
@pytest.mark.parametrize("oov", [1, 4])
def test_vocabulary(values, x, wanted, oov):
    step = feature_config.Vocabulary(step="vocabulary", values=values, oov=oov)
    kind = tf.string if isinstance(values[0], str) else tf.int64
    np.testing.assert_array_equal(categories.vocabulary(tf.constant(x, kind), step), wanted)
    unknown = tf.constant(["", "BOS", "ewr"] if kind == tf.string else [0, 1, 2], kind)
    found = categories.vocabulary(unknown, step).numpy()
    assert ((found >= 3) & (found < 3 + oov)).all()


@pytest.mark.parametrize("x", [tf.constant(["a", "b", ""]), tf.constant([1, 2, 3], tf.int64)])
@pytest.mark.parametrize("oov", [1, 4])
def test_a_vocabulary_without_values(x, oov):
    """As of a column of which no value is frequent enough."""
    step = feature_config.Vocabulary(step="vocabulary", values=(), oov=oov)
    hashed = categories.hash_(x, feature_config.Hash(step="hash", buckets=oov))
    np.testing.assert_array_equal(categories.vocabulary(x, step), hashed)


def test_hash():
    step = feature_config.Hash(step="hash", buckets=1000)
    found = categories.hash_(tf.constant(["N14228", "", "Zürich"]), step)
    np.testing.assert_array_equal(found, HASHES)
    numbers = categories.hash_(tf.constant([517, -1], tf.int64), step)
    texts = categories.hash_(tf.constant(["517", "-1"]), step)
    np.testing.assert_array_equal(numbers, texts)


def test_identity():
    step = feature_config.Identity(step="identity", ids=8)
    x = np.array([0, 6, 7, 8, -1, 10**12], np.int64)
    found = categories.identity(tf.constant(x), step)
    np.testing.assert_array_equal(found, np.where((x >= 0) & (x < 7), x, 7))


def test_cross():
    step = feature_config.Cross(step="cross", buckets=1 << 20)
    origin, hour = tf.constant(["EWR", "JFK", "EWR"]), tf.constant([5, 5, 6], tf.int64)
    found = categories.cross([origin, hour], step).numpy()
    assert len(set(found)) == 3
    joined = tf.constant([f"{o}\x1f{h}" for o, h in (("EWR", 5), ("JFK", 5), ("EWR", 6))])
    wanted = categories.hash_(joined, feature_config.Hash(step="hash", buckets=1 << 20))
    np.testing.assert_array_equal(found, wanted)


def test_crossed_texts_do_not_run_together():
    step = feature_config.Cross(step="cross", buckets=1 << 20)
    one = categories.cross([tf.constant(["ab"]), tf.constant(["c"])], step)
    other = categories.cross([tf.constant(["a"]), tf.constant(["bc"])], step)
    assert one.numpy() != other.numpy()


HASHES = [647, 263, 643]
