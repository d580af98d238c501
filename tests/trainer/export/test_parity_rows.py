"""Rows to compare on: of all the split, and changed one column at a time."""

from __future__ import annotations

import math

import tensorflow as tf

from pipeline.config import Column
from pipeline.records import manifest
from tests.trainer import small_table
from trainer.export import parity_edges, parity_rows


def _features(row):
    return tf.train.Example.FromString(row.example).features.feature


def test_rows_come_from_all_of_the_split(tmp_path):
    table = small_table.Table(tmp_path)
    stored = small_table.payloads("eval")
    few = [row.example for row in parity_rows.build_rows(table.records, 7) if not row.changed]
    assert 7 <= len(few) <= 14
    places = [stored.index(example) for example in few]
    assert max(places) >= 90
    every = [row.example for row in parity_rows.build_rows(table.records) if not row.changed]
    assert every == stored


def test_each_column_is_changed_by_itself(tmp_path):
    table = small_table.Table(tmp_path)
    rows = parity_rows.build_rows(table.records, 8)
    originals = [row for row in rows if not row.changed]
    changed = [row for row in rows if row.changed]
    assert {(row.columns, row.change) for row in changed} == {
        *((("dep time",), change) for change in ("missing", "least", "greatest", "out of range")),
        *((("day",), change) for change in ("missing", "least", "greatest", "out of range")),
        *((("carrier",), change) for change in ("missing", "unseen text", "empty text")),
        (("carrier",), "known value"),
    }
    numbered = [*enumerate(changed[:-2]), *enumerate(changed[-2:])]
    for number, row in numbered:
        before, after = _features(originals[number % len(originals)]), _features(row)
        differ = {n for n in before.keys() | after.keys() if before[n] != after[n]}
        assert differ <= set(row.columns)
        assert (row.change == "out of range") == (not row.allowed)
    words = [row.change_of("carrier") for row in changed if row.known]
    assert words == ["known value 'UA'", "known value 'AA'"] and all(r.known for r in changed[-2:])
    found = {(*row.columns, row.change): _features(row) for row in changed}
    assert "carrier" not in found["carrier", "missing"]
    assert list(found["day", "greatest"]["day"].int64_list.value) == [31]
    assert list(found["dep time", "out of range"]["dep time"].float_list.value) == [4801]


def test_of_many_columns_several_are_changed_in_a_row():
    edges = [
        parity_edges.Edge(f"c{n}", change, change != "out of range", None)
        for n in range(300)
        for change in ("least", "greatest", "out of range")
    ]
    groups = parity_rows.group_edges(edges, 256)
    assert 200 < len(groups) <= 256
    assert sorted((e.column, e.change) for g in groups for e in g) == sorted(
        (e.column, e.change) for e in edges
    )
    for group in groups:
        assert len({(edge.change, edge.allowed) for edge in group}) == 1
        assert len({edge.column for edge in group}) == len(group)
    assert parity_rows.group_edges(edges[:256], 256) == [[edge] for edge in edges[:256]]


def test_rows_changed_in_several_columns_hold_all_of_these_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(parity_rows, "CHANGED", 8)
    table = small_table.Table(tmp_path)
    changed = [row for row in parity_rows.build_rows(table.records, 8) if row.changed]
    least = [row for row in changed if row.change == "least"]
    assert len(changed) <= 8 and [row.columns for row in least] == [("dep time", "day")]
    found = _features(least[0])
    assert list(found["day"].int64_list.value) == [1]
    assert list(found["dep time"].float_list.value) == [0]


def test_pixels_and_shapes(tmp_path):
    table = small_table.Table(tmp_path)
    column = table.job.data.columns["pixels"]
    found = {
        change: f.bytes_list.value[0]
        for change, _, f in parity_edges.list_pixel_edges(column, None)
    }
    assert found == {"all 0": bytes(4), "all 255": b"\xff" * 4}
    size = table.job.data.columns["size"].model_copy(update={"min": 0.0, "max": math.inf})
    assert [
        (c, list(f.float_list.value)) for c, _, f in parity_edges.list_number_edges(size, None)
    ] == [("least", [0.0, 0.0])]


def test_extremes_are_what_was_seen_not_what_rules_would_let_pass(tmp_path):
    table = small_table.Table(tmp_path)
    seen = manifest.ColumnStatistics(count=3, missing=0, min=5, max=9)
    column = table.job.data.columns["day"].model_copy(update={"min": -(10**6), "max": 10**6})
    for known, expected in (seen, [seen.min, seen.max]), (None, [-(10**6), 10**6]):
        found = [f.int64_list.value[0] for _, _, f in parity_edges.list_number_edges(column, known)]
        assert found == [*expected, 2 * abs(expected[1]) + 1]


def test_swapped_takes_one_column_of_another_row(tmp_path):
    table = small_table.Table(tmp_path)
    first, second = parity_rows.build_rows(table.records)[:2]
    columns = table.job.data.columns
    made = _features(parity_rows.swap_column(first, "size", second, columns=columns))
    assert made["size"] == _features(second)["size"]
    assert made["pixels"] == _features(first)["pixels"]
    absent = parity_rows.ParityRow(small_table.example(late=1))
    assert "size" not in _features(parity_rows.swap_column(first, "size", absent, columns=columns))
    pair = {**columns, "size": Column(type="float32", list=True, max_items=2)}
    pair["day"] = Column(type="int64", list=True, max_items=2, same_length_as="size")
    made = _features(parity_rows.swap_column(first, "day", second, columns=pair))
    assert {n for n in ("size", "day", "carrier") if made[n] == _features(second)[n]} >= {
        "size",
        "day",
    }


def test_lists_that_belong_together_are_changed_to_one_length():
    columns = {
        "seen": Column(type="string", list=True, max_items=3, min_length=2),
        "alone": Column(type="int64", list=True, max_items=3),
        "dwell": Column(type="float32", list=True, max_items=3, min=0, same_length_as="seen"),
        "rank": Column(type="int64", list=True, max_items=3, min=-1, max=9, same_length_as="seen"),
    }
    others = parity_edges.find_equal_lengths(columns)
    assert {name: set(alike) for name, alike in others.items()} == {
        "seen": {"dwell", "rank"},
        "dwell": {"seen", "rank"},
        "rank": {"seen", "dwell"},
    }
    made = parity_edges.build_lists(2, {**others["seen"], **others["dwell"]})
    assert list(made["seen"].bytes_list.value) == [b"??"] * 2
    assert list(made["dwell"].float_list.value) == [0, 0]
    assert list(made["rank"].int64_list.value) == [9, 9]  # -1 stands for none


def test_a_list_that_is_always_empty_has_no_longest_list():
    column = Column(type="string", list=True, max_items=3)
    nothing = ("most frequent", True, tf.train.Feature(bytes_list=tf.train.BytesList()))
    changes = [change for change, _, _ in parity_edges.list_list_edges(column, [nothing])]
    assert changes == ["empty list"]
