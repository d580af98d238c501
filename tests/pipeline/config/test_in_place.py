"""What `data.in_place` refuses, and which rules need a look at values."""

from __future__ import annotations

import pytest

from pipeline import config
from pipeline.config import in_place

COLUMNS = {"x": {"type": "float32"}, "y": {"type": "int64"}}


def data(**more) -> config.Data:
    inputs = {"train": {"files": "a-*.tfrecord"}, "eval": {"files": "b.tfrecord"}}
    given = {"source": "tfrecord", "inputs": inputs, "columns": COLUMNS, "label": "y"}
    return config.Data.model_validate({**given, "in_place": True, **more})


def test_files_of_each_split_are_all_it_needs():
    assert data().in_place is True
    assert data(in_place="values").in_place == "values"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"source": "csv"}, "in_place: takes files of source tfrecord as they are, got .*'csv'"),
        ({"key": ["y"]}, "key: with in_place rows are not compared with each other; take it"),
        ({"error_budget": 0.1}, "error_budget: with in_place no row can be left out"),
        ({"shards": {"train": 2}}, "shards: with in_place the files are the shards"),
        ({"seed": 1}, "seed: with in_place rows stay in the order of the files"),
        ({"provenance": True}, "provenance: with in_place nothing is added to a record"),
        ({"csv": {"header": False}}, "csv: with in_place the files are TFRecords"),
        ({"split": {"test": 0.1}}, r"split: test cannot .*inputs.test, or do .*\{test: 0\}"),
        (
            {"inputs": {"train": {"f": "a"}}},
            r"split: eval .*or, unless you train, do .*\{eval: 0\}",
        ),
        (
            {"columns": {**COLUMNS, "x": {"type": "float32", "missing": "drop"}}},
            "columns.x.missing: drop: with in_place no row can be left out; write reject or allow",
        ),
        ({"in_place": "maybe"}, "Input should be False, True or 'values'"),
    ],
)
def test_settings_that_need_written_records_are_rejected(more, problem):
    with pytest.raises(ValueError, match=problem):
        data(**more)


def test_a_split_may_be_left_out_on_purpose():
    assert data(inputs={"train": {"f": "a"}}, split={"eval": 0}).split.held_out == ()


@pytest.mark.parametrize(
    ("column", "key"),
    [
        ({"type": "float32"}, None),
        ({"type": "float32", "missing": "allow"}, None),
        ({"type": "float32", "min": 0}, "columns.x.min"),
        ({"type": "string", "allowed": ["a"]}, "columns.x.allowed"),
        ({"type": "string", "max_length": 3}, "columns.x.max_length"),
        ({"type": "int64", "list": True, "max_items": 3}, "columns.x.max_items"),
        ({"type": "int64", "list": True, "max_items": 3, "on_longer": "truncate"}, None),
    ],
)
def test_rules_that_parsing_keeps_are_distinguished_from_others(column, key):
    assert in_place.rule(data(columns={**COLUMNS, "x": column})) == key
