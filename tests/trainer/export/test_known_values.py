"""Values at which features jump, as many as fit, a value of each column in a row."""

from __future__ import annotations

import tensorflow as tf

from tests.trainer import small_table
from trainer.export import known_values, parity_rows


def _held(row, column):
    feature = tf.train.Example.FromString(row.example).features.feature[column]
    return getattr(feature, feature.WhichOneof("kind")).value[0]


def _known(table):
    return [row for row in parity_rows.build_rows(table.records, 8) if row.known]


def test_rows_lie_on_the_boundaries_of_buckets(tmp_path):
    """Also behind what fills gaps, and not behind what changes values."""
    fill, buckets = "{missing: {fill: 0}}", "{buckets: {boundaries: [%s]}}"
    added = (
        f"  time: {{of: dep time, steps: [{fill}, {buckets % '300.5, 9000'}]}}\n"
        f"  first: {{of: day, steps: [{fill}, {buckets % '2.5, 7'}]}}\n"
        f"  other: {{of: day, steps: [{fill}, log1p, {buckets % '3'}]}}\n"
    )
    text = small_table.CONFIG.replace("  day: {steps:", f"{added}  day: {{steps:")
    found = [
        (row.allowed, {name: _held(row, name) for name in row.columns})
        for row in _known(small_table.Table(tmp_path, text=text))
    ]
    assert found == [
        (True, {"dep time": 300.5, "day": 3, "carrier": b"UA"}),
        (True, {"day": 7, "carrier": b"AA"}),
        (False, {"dep time": 9000}),
    ]


WORDS, IDS = [f"w{n}" for n in range(100)], [2**60 + n for n in range(30)]
VOCABULARIES = (
    small_table.CONFIG.replace("[AA, UA]", str(WORDS))
    .replace("day: {type: int64, min: 1, max: 31", "day: {type: int64, min: 1")
    .replace("identity: {ids: 32}", f"vocabulary: {{values: {IDS}}}")
)


def test_rows_hold_all_values_of_vocabularies(tmp_path):
    table = small_table.Table(tmp_path, text=VOCABULARIES)
    rows = _known(table)
    assert [_held(row, "carrier").decode() for row in rows] == WORDS[::-1]
    assert [_held(row, "day") for row in rows if "day" in row.columns] == IDS
    assert known_values.list_remarks(table.records) == []


def test_of_too_many_values_those_that_fit_lie_evenly(tmp_path, monkeypatch):
    table = small_table.Table(tmp_path, text=VOCABULARIES)
    monkeypatch.setattr(known_values, "ROWS", 34)
    rows = _known(table)
    assert [_held(row, "carrier").decode() for row in rows] == WORDS[::-3]
    assert [_held(row, "day") for row in rows if "day" in row.columns] == IDS
    assert known_values.list_remarks(table.records) == [
        "The export was compared with `Estimator.predict` on 34 of the 100 values of `carrier` "
        "that its features know, not on all."
    ]


def test_bytes_and_values_are_bounded_too(tmp_path, monkeypatch):
    table = small_table.Table(tmp_path, text=VOCABULARIES)
    monkeypatch.setattr(known_values, "VALUES", 100)
    assert {name: len(k.chosen) for name, k in known_values.choose(table.records).items()} == {
        "day": 30,
        "carrier": 50,
    }
    [shard] = table.contents.splits["eval"].shards
    monkeypatch.setattr(known_values, "BYTES", shard.bytes / shard.records * 10.5)
    assert len(_known(table)) == 10


def test_lists_as_long_as_each_other_keep_the_values_of_both(tmp_path):
    size = "size: {type: string, list: true, max_items: 2}"
    codes = "codes: {type: int64, list: true, max_items: 2, same_length_as: size}"
    steps = "size: {steps: [{vocabulary: {values: [a, b, c]}}]}"
    text = (
        small_table.CONFIG.replace("size: {type: float32, shape: [2]}", f"{size}\n    {codes}")
        .replace("size: {steps: []}", steps)
        .replace("features:", "features:\n  codes: {steps: [{vocabulary: {values: [7, 8]}}]}")
    )

    def made(split):
        return [
            tf.train.Example(
                features=tf.train.Features(
                    feature={"late": small_table.feature(1), "carrier": small_table.feature(b"AA")}
                )
            ).SerializeToString()
        ] * small_table.ROWS[split]

    rows = _known(small_table.Table(tmp_path, text=text, made=made))
    assert [_held(row, "size") for row in rows] == [b"c", b"b", b"a"]
    assert [_held(row, "codes") for row in rows[:2]] == [7, 8]
    last = tf.train.Example.FromString(rows[2].example).features.feature["codes"]
    assert len(last.int64_list.value) == 1


def test_rows_hold_the_values_of_hashed_columns_that_occur(tmp_path):
    text = small_table.CONFIG.replace("identity: {ids: 32}", "hash: {buckets: 9}")
    table = small_table.Table(tmp_path, text=text)
    features = [
        tf.train.Example.FromString(example).features.feature
        for split in ("train", "eval")
        for example in table.records.read_serialized(split).unbatch().as_numpy_iterator()
    ]
    occurring = {value for feature in features for value in feature["day"].int64_list.value}
    rows = [row for row in _known(table) if "day" in row.columns]
    assert {_held(row, "day") for row in rows} == occurring
    assert len(rows) == len(occurring) > 20
    assert known_values.list_remarks(table.records) == [
        "Of `day`, hashed, the export was compared on values of up to 2,048 rows of "
        "train and of eval; other values may be answered differently."
    ]
