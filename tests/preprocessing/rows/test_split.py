"""Which split a row goes to: by hash, by time, by a column; functions of the row alone."""

from __future__ import annotations

import datetime

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from pipeline.config.splits import SPLITS
from preprocessing.rows import hashing, split
from tests.preprocessing import tables

TRAIN, EVAL, TEST = range(3)
_COLUMNS = {
    "day": {"type": "int64"},
    "time": {"type": "string"},
    "label": {"type": "int64"},
}


def _data(rule, **inputs):
    found = {name: {"files": name} for name in ("train", *inputs)}
    return tables.make_config("x", _COLUMNS, inputs=found, split=rule).data


def _assign(rule, rows=5000, of="train", **columns):
    """Returns the splits of rows that are numbered by their keys, and the faults."""
    columns = {"day": range(rows), "time": ["2020-01-01"] * rows, **columns}
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    keys = pa.array([b"train/%06d" % row for row in range(len(batch))])
    found, faults = split.assign(batch, of, _data(rule))
    return split.draw(keys, found, of, data=_data(rule)), faults


@pytest.mark.parametrize(("held", "test"), [(0, 0), (0.05, 0), (0.5, 0.3), (0, 0.2), (0.01, 0.98)])
def test_every_split_gets_its_share(held, test):
    found, faults = _assign({"eval": held, "test": test})
    shares = np.bincount(found, minlength=3) / len(found)
    np.testing.assert_allclose(shares, [1 - held - test, held, test], atol=0.02)
    assert not faults


def test_rows_are_cut_at_exactly_the_shares():
    """From both ends of the hashes, as long as anybody has records of this version."""
    rule = {"eval": 0.3, "test": 0.2}
    found, _ = _assign(rule)
    keys = pa.array([b"train/%06d" % row for row in range(len(found))])
    bits = hashing.hash_keys(keys, _data(rule).split.salt, hashing.FOR_SPLIT)
    share = bits.astype(float) / 2.0**64
    expected = np.where(share < 0.3, EVAL, np.where(share >= 0.8, TEST, TRAIN))
    np.testing.assert_array_equal(found, expected)


def test_larger_shares_keep_what_was_held_out():
    small, _ = _assign({"eval": 0.1, "test": 0.1})
    large, _ = _assign({"eval": 0.3, "test": 0.2})
    assert (large[small > TRAIN] == small[small > TRAIN]).all()


def test_the_salt_decides():
    first, _ = _assign({"eval": 0.5})
    other, _ = _assign({"eval": 0.5, "salt": "other"})
    assert 0.4 < (first == other).mean() < 0.6


def test_rows_that_agree_in_the_columns_stay_together():
    days = np.arange(5000) % 100
    found, _ = _assign({"columns": ["day"], "eval": 0.3, "test": 0.3}, day=days)
    of_day = [set(found[days == day].tolist()) for day in range(100)]
    assert all(len(splits) == 1 for splits in of_day)
    assert set.union(*of_day) == {TRAIN, EVAL, TEST}


def test_two_columns_together_name_a_group():
    rule = {"columns": ["day", "time"], "eval": 0.5}
    found, _ = _assign(rule, day=[1, 1, 1] * 50, time=["a", "b", "c"] * 50)
    assert [len(set(found[start::3].tolist())) for start in range(3)] == [1, 1, 1]


def test_by_time():
    texts = ["2012-12-31T23:59:59Z", "2013-01-01", "2013-01-01 05:00", "2013-02-01T00:00:00Z"]
    rule = {"by": "time", "column": "time", "eval": "2013-01-01", "test": "2013-02-01"}
    found, faults = _assign(rule, len(texts), time=texts)
    assert found.tolist() == [TRAIN, EVAL, EVAL, TEST] and not faults


def test_zones_count():
    texts = ["2013-01-01T00:30:00+01:00", "2012-12-31T23:30:00-01:00"]
    found, _ = _assign({"by": "time", "column": "time", "eval": "2013-01-01"}, 2, time=texts)
    assert found.tolist() == [TRAIN, EVAL]


def test_zones_of_whole_hours_as_postgres_writes_them():
    texts = ["2013-01-01 00:30:00+01", "2012-12-31 23:30:00.25-01", "2013-01-01 00:00+00"]
    found, faults = _assign({"by": "time", "column": "time", "eval": "2013-01-01"}, 3, time=texts)
    assert found.tolist() == [TRAIN, EVAL, EVAL] and not faults


def test_nanoseconds_as_pandas_writes_them():
    texts = ["2012-12-31 23:59:59.999999999", "2013-01-01T00:00:00.000000000Z"]
    found, faults = _assign({"by": "time", "column": "time", "eval": "2013-01-01"}, 2, time=texts)
    assert found.tolist() == [TRAIN, EVAL] and not faults


def test_what_is_no_time_is_a_fault_and_a_missing_one_is_none():
    texts = ["2013-01-01", "soon", None, "2013-13-01", "2014-01-01T00:00:00Z"]
    rule = {"by": "time", "column": "time", "eval": "2014-01-01"}
    found, ((reason, rows),) = _assign(rule, len(texts), time=texts)
    assert reason == "time" and rows.tolist() == [False, True, False, True, False]
    assert found[[0, 4]].tolist() == [TRAIN, EVAL]


@hypothesis.given(
    st.lists(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))),
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)),
)
def test_times_compare_as_those_of_python(times, moment):
    rule = {"by": "time", "column": "time", "test": moment.isoformat()}
    texts = pa.array([time.isoformat() for time in times], pa.string())
    found, faults = _assign(rule, len(times), time=texts)
    assert found.tolist() == [TEST if time >= moment else TRAIN for time in times] and not faults


def test_times_are_read_in_the_form_that_the_column_has():
    texts = ["12/31/2012 11:59 PM", "1/1/2013", "1/1/2013 12:00 am", "12/31/2012 23:30 -0100"]
    texts = [*texts, "2/30/2013", "2/1/2013 0:30+02:00", "2/1/2013 1:00"]
    rule = {"by": "time", "column": "time", "eval": "2013-01-01", "test": "2013-02-01"}
    columns = {**_COLUMNS, "time": {"type": "string", "dates": "m/d/y"}}
    data = tables.make_config("x", columns, split=rule).data
    batch = pa.record_batch({"time": pa.array(texts)})
    found, ((reason, rows),) = split.assign(batch, "train", data)
    assert found.tolist() == [TRAIN, EVAL, EVAL, EVAL, TRAIN, EVAL, TEST]
    assert reason == "time" and rows.tolist() == [False] * 4 + [True, False, False]


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("ymd", ["20121231T235959-0200", "20130101T010000+0200", "20121231235959.9999999"]),
        (
            "m/d/y",
            ["12/31/2012 23:59:59 -0200", "1/1/2013 1:00 +0200", "12/31/2012 23:59:59.9999999"],
        ),
    ],
)
def test_zones_and_seconds_count_in_other_forms(form, texts):
    rule = {"by": "time", "column": "time", "eval": "2013-01-01"}
    columns = {**_COLUMNS, "time": {"type": "string", "dates": form}}
    data = tables.make_config("x", columns, split=rule).data
    batch = pa.record_batch({"time": pa.array(texts)})
    found, faults = split.assign(batch, "train", data)
    assert found.tolist() == [EVAL, TRAIN, TRAIN] and not faults


def test_there_is_no_year_0():
    texts = ["0000-01-01", "0000-01-01T05:00:00Z", "0001-01-01"]
    rule = {"by": "time", "column": "time", "eval": "2013-01-01"}
    _, ((reason, rows),) = _assign(rule, len(texts), time=texts)
    assert reason == "time" and rows.tolist() == [True, True, False]


def test_numbers_are_times_as_well():
    found, _ = _assign({"by": "time", "column": "day", "eval": 7, "test": 9}, 10)
    assert found.tolist() == [TRAIN] * 7 + [EVAL] * 2 + [TEST]


def test_the_values_of_a_column():
    found, faults = _assign({"by": "column", "column": "time"}, 3, time=["test", "train", "eval"])
    assert found.tolist() == [TEST, TRAIN, EVAL] and not faults
    rule = {"by": "column", "column": "day", "values": {0: "train", 5: "test"}}
    found, ((reason, rows),) = _assign(rule, 4, day=[5, 0, 3, None])
    assert found[:2].tolist() == [TEST, TRAIN]
    assert reason == "split" and rows.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    "rule",
    [
        {"eval": 0.5, "test": 0.4},
        {"by": "time", "column": "time", "eval": "2000-01-01"},
        {"by": "column", "column": "time"},
    ],
)
def test_only_train_is_cut(rule):
    found, faults = _assign(rule, of="test")
    assert set(found.tolist()) == {TEST} and not faults


def test_splits_that_will_exist():
    def existing(rule, **inputs):
        return split.list_splits(_data(rule, **inputs))

    assert existing({}) == ["train", "eval"]
    assert existing({"eval": 0}) == ["train"]
    assert existing({"eval": 0, "test": 0.1}) == ["train", "test"]
    assert existing({"eval": 0}, test=1) == ["train", "test"]
    assert existing({"by": "time", "column": "day", "test": 3}) == ["train", "test"]
    assert existing({"by": "column", "column": "time"}) == list(SPLITS)
    rule = {"by": "column", "column": "day", "values": {1: "train", 2: "eval"}}
    assert existing(rule) == ["train", "eval"]
    only_test = tables.make_config("x", _COLUMNS, inputs={"test": {"files": "t"}}).data
    assert split.list_splits(only_test) == ["test"]


def test_a_split_with_inputs_of_its_own_is_not_cut_from_train():
    data = _data({"eval": 0.5, "test": 0.2}, eval=1)
    assert split.list_held_out(data) == ["test"]
    assert (
        split.find_input_split(data, "eval") == "eval"
        and split.find_input_split(data, "test") == "train"
    )
