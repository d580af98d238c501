"""The order of reading, held for any number of blocks, readers, seeds and epochs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import manifest
from trainer import order

SEEDS = st.integers(0, 2**63)
EPOCHS = st.integers(0, 10**6)
# As preprocessing makes them: all blocks of a shard are full but its last.
BLOCK = 8
SHARDS = st.lists(st.integers(1, 5 * BLOCK), min_size=1, max_size=6)

settings.register_profile("quick", deadline=None, max_examples=60)
settings.load_profile("quick")


def _split(shard_records: list[int]) -> manifest.Split:
    shards = tuple(
        manifest.Shard(
            path=f"shard-{index}",
            records=records,
            bytes=records * 10,
            crc32c="",
            blocks=tuple(range(0, records * 10, BLOCK * 10)),
        )
        for index, records in enumerate(shard_records)
    )
    return manifest.Split(records=sum(shard_records), shards=shards)


def _blocks(shard_records: list[int]) -> order.Blocks:
    paths = [f"folder/shard-{index}" for index in range(len(shard_records))]
    return order.blocks_of(_split(shard_records), BLOCK, paths)


def test_blocks_are_those_of_the_manifest():
    blocks = _blocks([20, 8, 3])
    assert blocks.paths == ("folder/shard-0", "folder/shard-1", "folder/shard-2")
    assert blocks.shard.tolist() == [0, 0, 0, 1, 2]
    assert blocks.offset.tolist() == [0, 80, 160, 0, 0]
    assert blocks.records.tolist() == [8, 8, 4, 8, 3]
    assert blocks.total_records == 31


def test_an_empty_shard_has_no_blocks():
    assert _blocks([8, 0, 3]).shard.tolist() == [0, 2]


@given(st.integers(1, 200), SEEDS, EPOCHS)
def test_each_epoch_is_a_permutation(blocks, seed, epoch):
    found = order.epoch_order(blocks, seed, epoch)
    assert found.dtype == np.int64
    assert sorted(found.tolist()) == list(range(blocks))
    assert found.tolist() == order.epoch_order(blocks, seed, epoch).tolist()


def test_order_changes_with_epoch_and_seed_only():
    orders = {
        tuple(order.epoch_order(50, seed, epoch)) for seed in range(20) for epoch in range(20)
    }
    assert len(orders) == 400


def test_order_is_the_same_on_every_version():
    """A run that goes on after an upgrade must go on in the same order."""
    assert order.epoch_order(10, 1, 0).tolist() == [6, 0, 7, 9, 4, 1, 8, 5, 2, 3]
    assert order.epoch_order(10, 1, 1).tolist() == [2, 7, 3, 0, 9, 1, 4, 6, 8, 5]


@given(st.integers(1, 100), st.integers(1, 12), SEEDS)
def test_readers_are_disjoint_and_complete(blocks, readers, seed):
    whole = order.epoch_order(blocks, seed, 0)
    parts = [order.dealt(whole, rank, readers) for rank in range(readers)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(blocks))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(SHARDS, st.integers(0, 500), SEEDS)
def test_one_reader_goes_on_in_the_block_where_it_stopped(shards, read, seed):
    blocks = _blocks(shards)
    start = order.start_after(blocks, read, seed, 0, 1)
    whole = order.epoch_order(len(blocks.records), seed, start.epoch)
    skipped = start.epoch * blocks.total_records + int(blocks.records[whole[: start.blocks]].sum())
    assert skipped <= read  # nothing unread is skipped
    assert read < skipped + blocks.records[whole[start.blocks]]  # and no whole block is read again


@given(SHARDS, st.integers(1, 5), st.integers(0, 300), SEEDS)
def test_readers_together_skip_nothing_unread(shards, readers, each, seed):
    """Within an epoch, in which each reader has read as many records as the others."""
    blocks = _blocks(shards)
    read = min(each * readers, blocks.total_records - 1)
    whole = order.epoch_order(len(blocks.records), seed, 0)
    for rank in range(readers):
        start = order.start_after(blocks, read, seed, rank, readers)
        mine = blocks.records[order.dealt(whole, rank, readers)]
        assert start.epoch == 0
        assert mine[: start.blocks].sum() <= read // readers
        if start.blocks < len(mine):
            assert read // readers < mine[: start.blocks + 1].sum()


@pytest.mark.parametrize(
    ("read", "epoch", "blocks"),
    [(0, 0, 0), (7, 0, 0), (8, 0, 1), (30, 0, 3), (31, 0, 3), (32, 1, 0), (72, 2, 1)],
)
def test_start_is_rounded_down_to_whole_blocks(read, epoch, blocks):
    assert order.start_after(_blocks([32]), read, 1, 0, 1) == order.Start(epoch, blocks)
