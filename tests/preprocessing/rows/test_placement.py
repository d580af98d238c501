"""Shard and order: stable, uniform, and independent of each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipeline.config.splits import SPLITS
from preprocessing.rows import placement, split
from tests.preprocessing import idx_files

_INPUTS = {"train": {"images": "i", "labels": "l"}, "test": {"images": "i", "labels": "l"}}
_TRAIN = {"eval": 0}


def _data(**values):
    return idx_files.make_config(_INPUTS, **values).data


def _place(count, **values):
    """Places rows of `train`, of which `data.split` cuts some."""
    keys = pa.array([b"train/%06d" % row for row in range(count)])
    data = _data(**values)
    splits = split.draw(keys, np.zeros(count, np.uint8), "train", data=data)
    return placement.place(keys, splits, data)


def test_places_are_what_they_were():
    # Golden: other numbers here would move users' rows between train and eval.
    places = _place(3, split={"eval": 0.5})
    assert places.order.tolist() == [
        10672803805313351879,
        2904427590745751868,
        5081268535063100831,
    ]
    assert places.split.tolist() == [1, 0, 0]
    assert places.shard.tolist() == [0, 2, 0]


def test_a_row_stays_where_it_is_when_others_come():
    few, many = _place(100), _place(1000)
    for name in ("split", "shard", "order"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:100])


def test_the_seed_decides_the_order_and_not_the_split():
    found = [_place(1000, seed=seed) for seed in (0, 1, -1, 2**40)]
    ranks = [np.argsort(np.argsort(places.order)) for places in found]
    for a in range(4):
        np.testing.assert_array_equal(found[a].split, found[0].split)
        for b in range(a):
            assert abs(np.corrcoef(ranks[a], ranks[b])[0, 1]) < 0.1


def test_shards_are_even_and_say_nothing_about_the_order():
    places = _place(8000, split=_TRAIN, shards={"train": 8})
    assert np.bincount(places.shard, minlength=8).min() > 850
    rank = np.argsort(np.argsort(places.order))
    assert abs(np.corrcoef(places.shard, rank)[0, 1]) < 0.05
    assert abs(np.corrcoef(np.arange(8000), rank)[0, 1]) < 0.05


def test_splits_without_a_number_have_one_shard():
    data = _data(shards={"train": 5})
    assert [placement.count_shards(data, name) for name in SPLITS] == [5, 1, 1]
    assert set(_place(500, split={"eval": 0.9}).shard[10:].tolist()) <= {0, 1, 2}
