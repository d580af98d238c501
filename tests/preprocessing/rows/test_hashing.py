"""Hashes of keys: the same for ever, even in every bit, and independent of each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.rows import hashing


def _keys(count):
    return pa.array([b"train/%06d" % row for row in range(count)])


def test_a_key_has_its_hash_whatever_keys_are_beside_it():
    long = [b"x" * 300, b"x" * 299 + b"y", b"z" * 5000]
    keys = [b"", b"a", b"a\0", b"12345678", b"123456789", *long]
    together = hashing.hash_keys(pa.array(keys), "salt", hashing.FOR_ORDER)
    assert len(set(together.tolist())) == len(keys)
    for index, key in enumerate(keys):
        alone = hashing.hash_keys(pa.array([key]), "salt", hashing.FOR_ORDER)
        assert alone[0] == together[index]


def test_a_slice_of_an_array_has_the_hashes_of_its_values():
    whole = hashing.hash_keys(_keys(100), "s", hashing.FOR_SPLIT)
    part = hashing.hash_keys(_keys(100).slice(30, 20), "s", hashing.FOR_SPLIT)
    np.testing.assert_array_equal(part, whole[30:50])


@pytest.mark.parametrize("purpose", [hashing.FOR_SPLIT, hashing.FOR_ORDER])
def test_every_bit_is_even(purpose):
    bits = hashing.hash_keys(_keys(20_000), "s", purpose)[:, None] >> np.arange(64).astype("u8")
    assert np.abs((bits & np.uint64(1)).mean(axis=0) - 0.5).max() < 0.02


def test_salts_and_purposes_have_nothing_to_do_with_each_other():
    found = [
        hashing.hash_keys(_keys(2000), salt, purpose).astype(float)
        for salt in ("s", "t")
        for purpose in (hashing.FOR_SPLIT, hashing.FOR_ORDER)
    ]
    assert np.abs(np.corrcoef(found) - np.eye(4)).max() < 0.1


def test_mixing_is_one_to_one():
    values = np.arange(10_000, dtype=np.uint64)
    assert len(set(hashing.mix(values).tolist())) == len(values)
