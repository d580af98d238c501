"""Rows of a table in parts: all of them, once, and of every frequency in each part."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from trainer.distribution.row_blocks import RowBlocks

SHAPES = [(2, 2), (3, 2), (7, 3), (10, 8), (101, 4), (1000, 3), (12345, 8)]


@pytest.mark.parametrize(("rows", "parts"), SHAPES)
@pytest.mark.parametrize("turn", [0, 5])
def test_every_row_has_one_place_and_parts_are_as_large_as_tensorflow_cuts(rows, parts, turn):
    layout = RowBlocks(rows, parts, turn=turn)
    places = layout.find_places(tf.range(rows, dtype=tf.int64)).numpy()
    assert sorted(places) == list(range(rows))
    whole, more = divmod(rows, parts)
    assert layout.sizes == [whole + 1] * more + [whole] * (parts - more)
    table = np.arange(rows)
    cut = [part.numpy() for part in layout.cut(table)]
    assert [len(part) for part in cut] == layout.sizes
    np.testing.assert_array_equal(np.concatenate(cut)[places], table)
    np.testing.assert_array_equal(layout.join(cut), table)


@pytest.mark.parametrize("kind", [tf.int32, tf.int64])
def test_what_is_no_id_of_the_table_stays_what_it_is(kind):
    ids = tf.constant([[-1, -7], [100, 2**31 - 1]], kind)
    np.testing.assert_array_equal(RowBlocks(100, 3).find_places(ids), ids)


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("exponent", [0.8, 1.05, 1.2, 1.5])
@pytest.mark.parametrize("batch", [64, 4096])
def test_each_part_gets_its_share_of_requests_by_zipfs_law(parts, exponent, batch):
    """Of contiguous parts, the first gets more than 1.5 times the mean of all of these."""
    rows, rng = 100_000, np.random.default_rng(1)
    chances = np.arange(1, rows + 1.0) ** -exponent
    drawn = rng.choice(rows, (20, batch), p=chances / chances.sum())
    asked = np.concatenate([np.unique(ids) for ids in drawn])
    offsets = np.cumsum(RowBlocks(rows, parts).sizes)
    places = RowBlocks(rows, parts).find_places(tf.constant(asked)).numpy()
    balanced = np.bincount(np.searchsorted(offsets, places, side="right"), minlength=parts)
    assert balanced.max() <= 1.2 * balanced.mean()
    contiguous = np.bincount(np.searchsorted(offsets, asked, side="right"), minlength=parts)
    assert contiguous.max() > 1.2 * contiguous.mean()


def test_another_turn_gives_the_first_row_to_another_part():
    assert {RowBlocks(50, 3, turn=turn).blocks[0].part for turn in range(3)} == {0, 1, 2}


def test_there_are_few_blocks_of_a_large_table():
    assert len(RowBlocks(10_000_000, 2).list_part_blocks(0)) < 45
