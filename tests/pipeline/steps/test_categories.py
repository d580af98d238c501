"""Each transform to ids against NumPy; hashes against recorded ids, which must never change."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from pipeline.steps import categories
from pipeline.steps.base import Values


def test_a_vocabulary_of_another_column_is_its_own_once_it_is_known():
    filled = categories.Vocabulary(of="other").filled(Values("text", (1,), vocabulary=("b", "a")))
    assert (filled.values, filled.of) == (("b", "a"), None)
    assert categories.Vocabulary.model_validate(filled.model_dump()) == filled


def test_columns_are_looked_up_together_as_each_by_itself():
    steps = [categories.Vocabulary(values=tuple("abc")), categories.Vocabulary(values=("x",))]
    x = tf.constant([["a", "x"], ["c", "?"], ["?", "a"]])
    wanted = [[0, 0], [2, 1], [3, 1]]
    assert all(step.layers_together for step in steps)
    for together in (categories.Vocabulary.apply_all, categories.Vocabulary.layer_all):
        assert together(steps, x).numpy().tolist() == wanted
    alone = [step.apply(x[:, n]).numpy().tolist() for n, step in enumerate(steps)]
    assert np.transpose(alone).tolist() == wanted


def test_buckets():
    boundaries = (0.0, 10.0, 10.5)
    x = np.array([-5, -0.0, 0.0, 9.99, 10.0, 10.5, 1e9], np.float32)
    step = categories.Buckets(boundaries=boundaries)
    found = step.apply(tf.constant(x))
    assert found.dtype == tf.int64
    np.testing.assert_array_equal(found, np.digitize(x, boundaries))


def test_buckets_of_whole_numbers():
    step = categories.Buckets(boundaries=(100.0, 1200.0))
    x = np.array([99, 100, 1199, 1200], np.int64)
    np.testing.assert_array_equal(step.apply(tf.constant(x)), [0, 1, 1, 2])


@pytest.mark.parametrize("boundary", [16777217, 20190115, 1717243200, 2**53, -(2**40), 1.5, -1.5])
@pytest.mark.parametrize("shape", [(-1,), (3, 3)])
def test_buckets_of_whole_numbers_are_exact(boundary, shape):
    x = math.floor(boundary) + np.arange(-4, 5)
    boundaries = (-math.inf, boundary, boundary + 2, 2.0**63)
    wanted = np.array([sum(b <= v for b in boundaries) for v in x.tolist()])
    step = categories.Buckets(boundaries=boundaries)
    for made in (step.apply, step.layer):
        found = made(tf.constant(x.reshape(shape)))
        assert found.dtype == tf.int64
        np.testing.assert_array_equal(found, wanted.reshape(shape))


def test_no_whole_number_reaches_a_boundary_above_all():
    step = categories.Buckets(boundaries=(2.0**63,))
    x = tf.constant([2**63 - 1, -(2**63)], tf.int64)
    assert step.apply(x).numpy().tolist() == step.layer(x).numpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("values", "x", "wanted"),
    [
        (("EWR", "JFK", "LGA"), ["LGA", "EWR", "JFK"], [2, 0, 1]),
        ((5, -3, 7), [7, 5, -3], [2, 0, 1]),
    ],
)
@pytest.mark.parametrize("oov", [1, 4])
def test_vocabulary(values, x, wanted, oov):
    step = categories.Vocabulary(values=values, oov=oov)
    kind = tf.string if isinstance(values[0], str) else tf.int64
    np.testing.assert_array_equal(step.apply(tf.constant(x, kind)), wanted)
    unknown = tf.constant(["", "BOS", "ewr"] if kind == tf.string else [0, 1, 2], kind)
    found = step.apply(unknown).numpy()
    assert ((found >= 3) & (found < 3 + oov)).all()


@pytest.mark.parametrize("x", [tf.constant(["a", "b", ""]), tf.constant([1, 2, 3], tf.int64)])
@pytest.mark.parametrize("oov", [1, 4])
def test_a_vocabulary_without_values(x, oov):
    """As of a column of which no value is frequent enough."""
    step = categories.Vocabulary(values=(), oov=oov)
    hashed = categories.Hash(buckets=oov).apply(x) if oov > 1 else [0, 0, 0]
    np.testing.assert_array_equal(step.apply(x), hashed)


def test_several_hash_functions():
    x = tf.constant(["UA", "", "é"])
    found = categories.Hash(buckets=1000, functions=3).apply(x).numpy()
    by_hand = [
        tf.strings.to_hash_bucket_fast([f"{salt}{text}" for text in ("UA", "", "é")], 1000)
        for salt in ("", "1\x1f", "2\x1f")
    ]
    np.testing.assert_array_equal(found, np.stack(by_hand, axis=1))
    numbers = categories.Hash(buckets=1000, functions=3).apply(tf.constant([7]))
    same = categories.Hash(buckets=1000, functions=3).apply(tf.constant(["7"]))
    np.testing.assert_array_equal(numbers, same)


def test_few_values_share_all_of_two_hashes():
    x = tf.strings.as_string(tf.range(10_000))
    found = categories.Hash(buckets=1000, functions=2).apply(x).numpy()
    alone = [len(np.unique(ids)) for ids in found.T]
    assert max(alone) == 1000 and len(np.unique(found, axis=0)) > 9900


def test_hash():
    step = categories.Hash(buckets=1000)
    found = step.apply(tf.constant(["N14228", "", "Zürich"]))
    np.testing.assert_array_equal(found, HASHES)
    numbers = step.apply(tf.constant([517, -1], tf.int64))
    texts = step.apply(tf.constant(["517", "-1"]))
    np.testing.assert_array_equal(numbers, texts)


def test_identity():
    step = categories.Identity(ids=8)
    x = np.array([0, 6, 7, 8, -1, 10**12], np.int64)
    found = step.apply(tf.constant(x))
    np.testing.assert_array_equal(found, np.where((x >= 0) & (x < 7), x, 7))


def test_cross():
    step = categories.Cross(buckets=1 << 20)
    origin, hour = tf.constant(["EWR", "JFK", "EWR"]), tf.constant([5, 5, 6], tf.int64)
    found = step.apply([origin, hour]).numpy()
    assert len(set(found)) == 3
    joined = tf.constant([f"{o}\x1f{h}" for o, h in (("EWR", 5), ("JFK", 5), ("EWR", 6))])
    wanted = categories.Hash(buckets=1 << 20).apply(joined)
    np.testing.assert_array_equal(found, wanted)


def test_crossed_texts_do_not_run_together():
    step = categories.Cross(buckets=1 << 20)
    one = step.apply([tf.constant(["ab"]), tf.constant(["c"])])
    other = step.apply([tf.constant(["a"]), tf.constant(["bc"])])
    assert one.numpy() != other.numpy()


HASHES = [647, 263, 643]


@pytest.mark.parametrize(
    ("step", "x", "ids"),
    [
        (categories.Buckets(boundaries=(1.0, 2.0)), np.arange(4, dtype=np.float32), 3),
        (categories.Vocabulary(values=(5, 7)), np.arange(9), 3),
        (categories.Vocabulary(values=(5, 7), oov=2), np.arange(99), 4),
        (categories.Hash(buckets=8), np.arange(999), 8),
        (categories.Identity(ids=6), np.arange(9), 6),
    ],
)
def test_there_are_as_many_ids_as_a_step_says(step, x, ids):
    """Tables have a row for each; another id would be of no row, or of another feature's."""
    found = step.apply(tf.constant(x))
    assert step.categories() == ids
    assert sorted(set(found.numpy().tolist())) == list(range(ids))


def test_vocabularies_of_several_columns_at_once_are_those_of_each():
    steps = [categories.Vocabulary(values=(5, 7)), categories.Vocabulary(values=(7, 1, 2))]
    x = tf.constant([[5, 7], [7, 9], [9, 1]], tf.int64)
    found = categories.Vocabulary.apply_all(steps, x).numpy()
    assert found.tolist() == [[0, 0], [1, 3], [2, 1]]
    for column, step in enumerate(steps):
        np.testing.assert_array_equal(found[:, column], step.apply(x[:, column]))
