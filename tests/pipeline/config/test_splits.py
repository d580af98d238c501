"""Rules of `data.split`: what is refused, and how moments are written."""

from __future__ import annotations

import datetime
import re

import pytest
import yaml

from pipeline import errors
from pipeline.config import config_file, splits
from tests.preprocessing import tables

_COLUMNS = {
    "time": {"type": "string"},
    "day": {"type": "int64"},
    "maybe": {"type": "int64", "missing": "allow"},
    "label": {"type": "int64"},
}


def _split(rule, **data):
    return tables.make_config("x", _COLUMNS, split=rule, **data).data.split


def test_kinds():
    assert isinstance(_split({}), splits.HashSplit)
    assert isinstance(_split({"by": "time", "column": "day", "eval": 3}), splits.TimeSplit)
    assert isinstance(_split({"by": "column", "column": "time"}), splits.ColumnSplit)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"eval": 0.5, "test": 0.5}, "eval=0.5 and test=0.5 leave nothing to train on"),
        ({"columns": ["x"]}, "split: 'x' is not among the columns"),
        (
            {"columns": ["maybe"]},
            "split: 'maybe' must be a column of single values that are never missing",
        ),
        ({"by": "time", "column": "day"}, "missing: eval or test, the moment from which"),
        (
            {"by": "time", "column": "time", "eval": "2020-02-01", "test": "2020-01-01"},
            "eval=2020-02-01 must be before test=2020-01-01",
        ),
        ({"by": "time", "column": "time", "eval": "soon"}, "'soon' is not a time such as 2013-12"),
        (
            {"by": "time", "column": "day", "eval": 5, "test": "2020-01-01"},
            "eval=5 and test='2020-01-01': both numbers or neither",
        ),
        (
            {"by": "time", "column": "day", "eval": "2020-01-01"},
            "'2020-01-01' cannot be compared with column 'day', which is int64",
        ),
        ({"by": "time", "column": "time", "eval": 5}, "5 cannot be compared with column 'time'"),
        ({"by": "column", "column": "day"}, "'train' cannot be compared with column 'day'"),
        ({"by": "column", "column": "no"}, "split: 'no' is not among the columns"),
        ({"by": "column", "column": "day", "values": {}}, "at least 1"),
        ({"by": "column", "column": "day", "values": {1: "tset"}}, "'train', 'eval' or 'test'"),
    ],
)
def test_what_cannot_be(rule, message):
    with pytest.raises(errors.UsageError, match=message):
        _split(rule)


def test_a_split_cannot_come_from_two_places_unless_it_is_the_default_one():
    inputs = {name: {"files": name} for name in ("train", "eval")}
    assert _split({}, inputs=inputs).held_out == ("eval",)
    with pytest.raises(errors.UsageError, match=r"cuts eval out of train, but inputs\.eval is"):
        _split({"by": "time", "column": "day", "eval": 3}, inputs=inputs)


def test_times_without_quotes_in_yaml(tmp_path):
    override = "data.split={by: time, column: time_hour, eval: 2013-11-01, test: 2013-12-01 06:00}"
    loaded = config_file.load("flights", [override])
    assert loaded.data.split.eval == "2013-11-01"
    written = tmp_path / "c.yaml"
    written.write_text(config_file.dump(loaded))
    assert config_file.load(str(written)).data.split == loaded.data.split


def test_the_examples_of_the_docs():
    text = (config_file.SHIPPED.parent / "docs" / "raw-data.md").read_text()
    examples = [yaml.safe_load(line)["split"] for line in re.findall(r"^split: .*$", text, re.M)]
    columns = {name: {"type": "string"} for name in ("user", "day", "fold", "label")}
    made = [tables.make_config("x", columns, split=rule).data.split for rule in examples]
    assert [rule.by for rule in made] == ["hash", "hash", "time", "column"]


def test_instants():
    day = datetime.datetime(2013, 12, 1, 6, 0, 0, 5, datetime.timezone.utc)
    expected = round(day.timestamp() * 1e6)
    for text in ("2013-12-01T06:00:00.000005Z", "2013-12-01 07:00:00.000005+01:00"):
        assert splits.instant(text) == expected
    assert splits.instant("1970-01-01") == 0 and splits.instant(2.5) == 2.5
    assert splits.instant("1969-12-31T23:59:59") == -1_000_000
