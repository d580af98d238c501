"""Statistics of every type of column equal NumPy's on the whole, however they were gathered."""

from __future__ import annotations

import collections
import itertools
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.arrow import arrow_types
from preprocessing.statistics import column_stats
from tests.preprocessing import tables

COLUMNS = {
    "number": {"type": "float32", "missing": "allow"},
    "pair": {"type": "int64", "shape": [2]},
    "pixels": {"type": "uint8", "shape": [2, 2]},
    "word": {"type": "string", "missing": "allow"},
    "code": {"type": "int64", "vocabulary": {"top_k": 3, "min_count": 2}},
    "label": {"type": "int64"},
}
ROWS = 500


def _data(**columns):
    return tables.make_config("x", {**COLUMNS, **columns}).data


def _batch(data) -> pa.RecordBatch:
    rng = np.random.default_rng(0)
    numbers = rng.normal(5, 3, ROWS).astype(np.float32)
    words = rng.choice(["a", "b", "c"], ROWS, p=[0.7, 0.2, 0.1]).tolist()
    values = {
        "number": [None if i % 7 == 0 else x for i, x in enumerate(numbers.tolist())],
        "pair": rng.integers(-100, 100, (ROWS, 2)).tolist(),
        "pixels": [row.tobytes() for row in rng.integers(0, 256, (ROWS, 4), np.uint8)],
        "word": [None if i % 5 == 0 else word for i, word in enumerate(words)],
        "code": rng.choice([5, 6, 7, 8, 9], ROWS, p=[0.1, 0.4, 0.4, 0.098, 0.002]).tolist(),
        "label": [int(i % 4 == 0) for i in range(ROWS)],
    }
    wanted = arrow_types.arrow_schema(data.columns)
    return pa.record_batch(
        [pa.array(values[n], wanted.field(n).type) for n in wanted.names], wanted
    )


def _statistics(data, *batches, split="train"):
    parts = [column_stats.count_batch(batch, split, data) for batch in batches]
    return column_stats.finish(column_stats.merge(parts, data), data)[split]


@pytest.fixture(scope="module")
def whole():
    data = _data()
    return data, _batch(data), _statistics(data, _batch(data))


def test_a_vocabulary_that_is_declared_is_whole_also_without_values():
    """Of which there may be none in train."""
    code = {"type": "int64", "missing": "allow", "vocabulary": {}}
    data = _data(code=code, word={**COLUMNS["word"], "sensitive": True})
    batch = _batch(_data())
    for name in ("code", "word"):
        place = list(data.columns).index(name)
        batch = batch.set_column(place, name, pa.nulls(ROWS, batch.schema.field(name).type))
    found = _statistics(data, batch).columns
    assert (found["code"].vocabulary, found["code"].distinct) == ((), 0)
    assert found["word"].vocabulary is None


def test_what_is_no_number_is_no_value_either():
    """Each NaN would be another one, so that it mattered how rows are cut."""
    data = _data(label={"type": "float32"})
    batch = _batch(_data()).set_column(
        list(data.columns).index("label"),
        "label",
        pa.array([(math.nan, 1.5, math.inf)[i % 3] for i in range(ROWS)], pa.float32()),
    )
    parts = [batch.slice(start, 50) for start in range(0, ROWS, 50)]
    found = _statistics(data, *parts)
    assert found == _statistics(data, batch) == _statistics(data, *reversed(parts))
    label = found.columns["label"]
    assert (label.not_finite, label.distinct) == (333, 2)
    assert label.vocabulary == ((1.5, 167), (math.inf, 166))


def test_zeros_of_both_signs_are_one_value():
    data = _data(label={"type": "float32"})
    zeros = pa.array([(-0.0, 0.0, 0.0, 2.0)[i % 4] for i in range(ROWS)], pa.float32())
    batch = _batch(_data()).set_column(list(data.columns).index("label"), "label", zeros)
    label = _statistics(data, batch).columns["label"]
    assert label.distinct == 2
    assert label.vocabulary == ((0.0, 3 * ROWS // 4), (2.0, ROWS // 4))


@pytest.mark.parametrize("column", ["number", "pair", "pixels", "code", "label"])
def test_numbers_equal_numpy(whole, column):
    data, batch, found = whole
    array = batch.column(column)
    values = (
        arrow_types.extract_numbers(array.drop_null(), data.columns[column])
        .astype(np.longdouble)
        .ravel()
    )
    got = found.columns[column]
    assert (got.count, got.missing, got.not_finite) == (len(values), array.null_count, 0)
    assert (got.min, got.max) == (values.min(), values.max())
    np.testing.assert_allclose([got.mean, got.variance], [values.mean(), values.var()], rtol=1e-12)
    exact = np.quantile(values.astype(float), np.arange(101) / 100, method="inverted_cdf")
    np.testing.assert_allclose(got.quantiles[1:-1], exact[1:-1], rtol=1e-3, atol=1e-6)
    assert (got.quantiles[0], got.quantiles[-1]) == (values.min(), values.max())


def test_words_are_counted(whole):
    _, batch, found = whole
    counts = collections.Counter(batch.column("word").drop_null().to_pylist())
    word = found.columns["word"]
    assert dict(word.vocabulary) == counts and word.distinct == 3
    assert [value for value, _ in word.vocabulary] == ["a", "b", "c"]
    assert (word.count, word.missing, word.mean) == (400, 100, None)


def test_vocabularies_as_declared(whole):
    _, batch, found = whole
    counts = collections.Counter(batch.column("code").to_pylist())
    wanted = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]
    assert list(found.columns["code"].vocabulary) == wanted
    assert found.columns["code"].distinct == len(counts)
    assert found.columns["pair"].vocabulary is None and found.columns["pair"].distinct is None


def test_ties_are_broken_by_value_and_rare_ones_left_out():
    data = tables.make_config(
        "x", {"label": {"type": "string", "vocabulary": {"top_k": 2, "min_count": 2}}}
    ).data
    batch = pa.record_batch({"label": ["b", "c", "a", "b", "c", "a", "d"]})
    assert _statistics(data, batch).columns["label"].vocabulary == (("a", 2), ("b", 2))


def test_classes_weigh_the_same(whole):
    _, _, found = whole
    assert found.class_weights == ((0, ROWS / (2 * 375)), (1, ROWS / (2 * 125)))


@pytest.mark.parametrize("cuts", [[1], [3, 200, 201], list(range(50, 500, 50))])
def test_batches_and_order_change_nothing(whole, cuts):
    data, batch, found = whole
    edges = [0, *cuts, ROWS]
    parts = [batch.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    assert _statistics(data, *parts) == _statistics(data, *parts[::-1]) == found


def test_not_every_float_is_a_number():
    data = tables.make_config("x", {"label": {"type": "float32", "missing": "allow"}}).data
    values = [math.nan, math.inf, -math.inf, 1.0, 3.0, None, -0.0, 0.0]
    got = _statistics(data, pa.record_batch({"label": pa.array(values, pa.float32())}))
    label = got.columns["label"]
    assert (label.count, label.missing, label.not_finite) == (7, 1, 3)
    assert (label.mean, label.min, label.max) == (1.0, 0.0, 3.0)
    assert math.copysign(1, label.min) == 1 and got.class_weights is None


def test_too_many_values_are_given_up_on_unless_declared(monkeypatch):
    monkeypatch.setattr(column_stats, "MAX_DISTINCT", 10)
    batch = pa.record_batch({"label": [str(i) for i in range(20)]})
    for declared, distinct in ((None, None), ({}, 20)):
        data = tables.make_config("x", {"label": {"type": "string", "vocabulary": declared}}).data
        parts = [batch.slice(0, 7), batch.slice(7)]
        for order in (parts, parts[::-1], [batch]):
            got = _statistics(data, *order).columns["label"]
            assert (got.distinct, got.count) == (distinct, 20)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1001])
def test_bytes_are_counted_one_by_one(size):
    values = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    found = column_stats.count_bytes(values)
    assert found.tolist() == np.bincount(values, minlength=256).tolist()


@pytest.mark.parametrize(("declared", "listed"), [(None, None), ({}, (("secret", 2),))])
def test_sensitive_values_are_listed_only_if_asked_for(declared, listed):
    columns = {"label": {"type": "string", "sensitive": True, "vocabulary": declared}}
    data = tables.make_config("x", columns).data
    got = _statistics(data, pa.record_batch({"label": ["secret", "secret"]})).columns["label"]
    assert (got.vocabulary, got.distinct) == (listed, 1)


def test_a_column_without_values():
    data = tables.make_config("x", {"label": {"type": "int64", "missing": "allow"}}).data
    got = _statistics(data, pa.record_batch({"label": pa.nulls(3, pa.int64())})).columns["label"]
    assert (got.count, got.missing, got.mean, got.quantiles, got.distinct) == (0, 3, None, None, 0)


def test_splits_are_kept_apart():
    data = _data()
    batch = _batch(data)
    parts = [column_stats.count_batch(batch.slice(0, 100), "eval", data)]
    parts.append(column_stats.count_batch(batch.slice(100), "train", data))
    found = column_stats.finish(column_stats.merge(parts, data), data)
    assert list(found) == ["train", "eval"]
    assert found["train"].columns["label"].count == 400
    assert found["eval"].columns["label"].count == 100


def test_parts_can_be_sent_between_workers(whole):
    data, batch, found = whole
    part = pickle.loads(pickle.dumps(column_stats.count_batch(batch, "train", data)))
    assert column_stats.finish(part, data)["train"] == found


def test_lists_are_counted_by_item_and_by_length():
    columns = {
        "tags": {"type": "string", "list": True, "max_items": 9, "missing": "allow"},
        "label": {"type": "int64"},
    }
    data = tables.make_config("x", columns).data
    kind = pa.list_(pa.string())
    parts = [
        pa.record_batch([pa.array(found, kind), pa.array([0] * len(found))], ["tags", "label"])
        for found in ([["a", "b"], None, ["a", "a", "c"]], [[], ["b"]])
    ]
    made = column_stats.merge(
        [column_stats.count_batch(part, "train", data) for part in parts], data
    )
    found = column_stats.finish(made, data)["train"].columns["tags"]
    assert (found.count, found.missing, found.distinct) == (6, 1, 3)
    assert found.vocabulary == (("a", 3), ("b", 2), ("c", 1))
    lengths = found.lengths
    assert (lengths.count, lengths.min, lengths.max, lengths.mean) == (4, 0, 3, 1.5)
    assert lengths.quantiles[50] == pytest.approx(1.5, abs=0.51)
    assert lengths.histogram.counts == (1, 1, 1, 1)
    less = column_stats.merge(
        [made, column_stats.turn_into_removals(column_stats.count_batch(parts[1], "train", data))],
        data,
    )
    found = column_stats.finish(less, data)["train"].columns["tags"]
    assert (found.count, found.lengths.count, found.lengths.mean) == (5, 2, 2.5)
