"""Bags of n-grams against ones made in Python."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.steps import categories, texts

BUCKETS = 1 << 20


def _ngrams(x, n, unit):
    step = texts.Ngrams(n=n, unit=unit, buckets=BUCKETS)
    return [row.tolist() for row in step.apply(tf.constant(x)).numpy()]


def _hashed(runs):
    step = categories.Hash(buckets=BUCKETS)
    return sorted(step.apply(tf.constant(runs)).numpy().tolist())


def _runs(units, n, between):
    return [
        between.join(units[i : i + size])
        for size in range(1, n + 1)
        for i in range(len(units) - size + 1)
    ]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_words(n):
    [long, short] = _ngrams(["The CAT  sat on\tit", "cat"], n, "word")
    runs = _runs(["the", "cat", "sat", "on", "it"], n, " ")
    assert sorted(long) == _hashed(runs)
    assert short == [*_hashed(["cat"]), *[-1] * (len(runs) - 1)]


def test_characters_not_bytes():
    [found] = _ngrams(["Zür"], 2, "character")
    assert sorted(found) == _hashed(["z", "ü", "r", "zü", "ür"])


def test_no_text_is_an_empty_bag():
    assert _ngrams(["", "a"], 1, "word")[0] == [-1]
    assert _ngrams([""], 2, "word") == [[]]
