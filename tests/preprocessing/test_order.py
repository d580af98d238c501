"""Split, shard and order: stable, uniform, and independent of each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from preprocessing import order
from tests.preprocessing import idx_files

_INPUTS = {"train": {"images": "i", "labels": "l"}, "test": {"images": "i", "labels": "l"}}
_EVAL = order.SPLITS.index("eval")


def _data(inputs=None, **values):
    return idx_files.make_config(inputs or _INPUTS, **values).data


def _keys(count, split="train"):
    return pa.array([b"%b/%06d" % (split.encode(), row) for row in range(count)])


def _is_eval(**values):
    return order.place(_keys(5000), "train", _data(**values)).split == _EVAL


def test_the_hash_is_what_it_was():
    # Golden: other numbers here would move users' rows between train and eval.
    places = order.place(_keys(3), "train", _data(eval={"share": 0.5}))
    assert places.order.tolist() == [
        10672803805313351879,
        2904427590745751868,
        5081268535063100831,
    ]
    assert places.split.tolist() == [1, 0, 0]
    assert places.shard.tolist() == [0, 2, 0]


def test_a_key_has_its_place_whatever_keys_are_beside_it():
    keys = [
        b"",
        b"a",
        b"a\0",
        b"12345678",
        b"123456789",
        b"x" * 300,
        b"x" * 299 + b"y",
        b"z" * 5000,
    ]
    data = _data(eval={"share": 0.5})
    together = order.place(pa.array(keys), "train", data)
    assert len(set(together.order.tolist())) == len(keys)
    for index, key in enumerate(keys):
        alone = order.place(pa.array([key]), "train", data)
        assert alone.order[0] == together.order[index]
        assert alone.split[0] == together.split[index]


def test_every_bit_of_the_order_is_even():
    bits = order.place(_keys(20_000), "train", _data()).order[:, None] >> np.arange(64).astype("u8")
    assert np.abs((bits & np.uint64(1)).mean(axis=0) - 0.5).max() < 0.02


def test_a_row_stays_where_it_is_when_others_come():
    data = _data()
    few, many = order.place(_keys(100), "train", data), order.place(_keys(1000), "train", data)
    for name in ("split", "shard", "order"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:100])


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.999])
def test_eval_gets_its_share(share):
    assert abs(_is_eval(eval={"share": share}).mean() - share) < 0.02


def test_a_larger_share_keeps_what_was_in_eval():
    small, large = _is_eval(eval={"share": 0.1}), _is_eval(eval={"share": 0.3})
    assert large[small].all()


def test_the_salt_decides_the_split_and_the_seed_does_not():
    first = _is_eval(eval={"share": 0.5})
    assert 0.4 < (first == _is_eval(eval={"share": 0.5, "salt": "other"})).mean() < 0.6
    np.testing.assert_array_equal(first, _is_eval(eval={"share": 0.5}, seed=7))


def test_the_seed_decides_the_order():
    orders = [order.place(_keys(1000), "train", _data(seed=s)).order for s in (0, 1, -1, 2**40)]
    ranks = [np.argsort(np.argsort(o)) for o in orders]
    for a in range(4):
        for b in range(a):
            assert abs(np.corrcoef(ranks[a], ranks[b])[0, 1]) < 0.1


def test_shards_are_even_and_say_nothing_about_the_order():
    places = order.place(_keys(8000), "train", _data(eval={"share": 0}, shards={"train": 8}))
    assert np.bincount(places.shard, minlength=8).min() > 850
    rank = np.argsort(np.argsort(places.order))
    assert abs(np.corrcoef(places.shard, rank)[0, 1]) < 0.05
    assert abs(np.corrcoef(np.arange(8000), rank)[0, 1]) < 0.05


def test_only_train_is_cut():
    places = order.place(_keys(500, "test"), "test", _data(eval={"share": 0.9}))
    assert set(places.split.tolist()) == {order.SPLITS.index("test")}
    assert set(places.shard.tolist()) == {0}


def test_an_eval_split_of_its_own_is_not_mixed_with_train():
    data = _data({**_INPUTS, "eval": {"images": "i", "labels": "l"}})
    assert set(order.place(_keys(500), "train", data).split.tolist()) == {0}
    assert order.splits_of(data) == ["train", "eval", "test"]


def test_splits_that_will_exist():
    assert order.splits_of(_data()) == ["train", "eval", "test"]
    assert order.splits_of(_data(eval={"share": 0})) == ["train", "test"]
    assert order.splits_of(_data({"test": _INPUTS["test"]})) == ["test"]


def test_splits_without_a_number_have_one_shard():
    data = _data(shards={"train": 5})
    assert [order.shards_of(data, split) for split in order.SPLITS] == [5, 1, 1]
