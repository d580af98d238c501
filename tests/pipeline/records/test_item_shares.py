"""How often items are in train, against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import errors
from pipeline.records import item_shares, manifest
from pipeline.steps.categories import Identity, Vocabulary


def _contents(listed, *, count, missing=0):
    column = manifest.ColumnStatistics(count=count, missing=missing, vocabulary=listed)
    return manifest.Manifest(
        fingerprint="",
        columns={},
        label="",
        block_records=1,
        sources=(),
        splits={},
        statistics={"train": manifest.Statistics(columns={"item": column})},
    )


def _shares(step, listed, *, ids, **counts):
    return item_shares.shares("item", _contents(listed, **counts), [step], ids=ids)


def test_what_the_vocabulary_leaves_out_has_the_ids_after_it():
    step = Vocabulary(oov=2, values=("b", "a", "c"))
    found = _shares(step, (("a", 6), ("b", 3), ("x", 2)), ids=5, count=12, missing=3)
    # Of 15 rows 6 are a and 3 are b; those of x, of unknown ones and of none are of three ids.
    np.testing.assert_allclose(found * 15, [3, 6, 2, 2, 2])


def test_numbers_out_of_range_share_the_last_id():
    found = _shares(Identity(ids=4), ((0, 5), (7, 2), (2, 2), (-1, 1)), ids=4, count=10)
    np.testing.assert_allclose(found * 11, [5, 1, 2, 3])  # 1 is nowhere, which counts as once


def test_counts_are_needed():
    with pytest.raises(
        errors.UsageError, match=r"counts of the values of 'item', .* write vocabulary: \{\} in"
    ):
        _shares(Identity(ids=4), None, ids=4, count=10)
