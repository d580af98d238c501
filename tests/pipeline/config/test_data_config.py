import re

import pydantic
import pytest

from pipeline import config
from pipeline.config import Column, Data

INPUTS = {"train": {"images": "i", "labels": "l"}}


def test_the_label_must_be_a_column():
    with pytest.raises(pydantic.ValidationError, match=r"'digit' is not among the columns \['x'\]"):
        Data(inputs=INPUTS, columns={"x": Column(type="int64")}, label="digit")


def test_keys_are_columns_with_one_value():
    columns = {"x": Column(type="int64"), "y": Column(type="int64", missing="allow")}
    with pytest.raises(pydantic.ValidationError, match="key: 'z' is not among the columns"):
        Data(inputs=INPUTS, columns=columns, label="x", key=("z",))
    with pytest.raises(
        pydantic.ValidationError, match="key: 'y' must be a column of single values"
    ):
        Data(inputs=INPUTS, columns=columns, label="x", key=("y",))


@pytest.mark.parametrize("name", ["utf-9", "hex", "rot13", "undefined"])
def test_encodings_are_those_of_python(name):
    with pytest.raises(pydantic.ValidationError, match=f"Python knows no encoding '{name}'"):
        config.Csv(encoding=name)


def test_spaces_do_not_delimit_what_is_trimmed():
    with pytest.raises(pydantic.ValidationError, match="takes away spaces, and the delimiter"):
        config.Csv(delimiter=" ", trim=True)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"label": "x"}, "label: 'x' is a list, and a label is one value"),
        (
            {"label": "y", "key": ["x"]},
            "key: 'x' must be a column of single values that are never missing",
        ),
    ],
)
def test_a_list_is_neither_label_nor_key(named, message):
    columns = {
        "x": Column(type="int64", list=True, max_items=3),
        "y": Column(type="int64"),
    }
    with pytest.raises(pydantic.ValidationError, match=message):
        Data(inputs=INPUTS, columns=columns, **named)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"same_length_as": "z"},
            r"columns\.w\.same_length_as: 'z' is not another column with",
        ),
        ({"same_length_as": "w"}, "'w' is not another column with list: true"),
        ({"same_length_as": "y"}, "'y' is not another column with list: true"),
        ({"same_length_as": "v"}, "'v' is as long as 'x'; name that"),
        ({"max_items": 4}, r"max_items is 4, and 3 in columns\.x; both lists are cut at the same"),
        ({"on_longer": "truncate"}, r"on_longer is truncate, and reject in columns\.x"),
    ],
)
def test_lists_that_cannot_belong_together(other, message):
    one = {"type": "int64", "list": True, "max_items": 3}
    columns = {
        "x": Column(**one),
        "v": Column(**one, same_length_as="x"),
        "w": Column(**{**one, "same_length_as": "x", **other}),
        "y": Column(type="int64"),
    }
    with pytest.raises(pydantic.ValidationError, match=message):
        Data(inputs=INPUTS, columns=columns, label="y")


@pytest.mark.parametrize(
    ("kind", "separator", "csv", "mark"),
    [
        ("float32", ".", {}, "may be the decimal mark"),
        ("float32", ".", {"decimal": ","}, "may be the decimal mark"),
        ("float32", "e", {}, "may be part of a number"),
        ("float32", "+", {}, "may be part of a number"),
        ("int64", "1", {}, "may be part of a number"),
        ("int64", "-", {}, "may be part of a number"),
        ("float32", ",", {"decimal": ","}, "is data.csv.decimal"),
        ("float32", ",", {"thousands": ","}, "is data.csv.thousands"),
        ("int64", ",", {"thousands": ","}, "is data.csv.thousands"),
    ],
)
def test_a_separator_that_numbers_have_too_is_refused(kind, separator, csv, mark):
    column = Column(type=kind, list=True, max_items=3, separator=separator)
    columns = {"x": column, "y": Column(type="int64")}
    message = (
        rf"columns\.x\.separator: '{re.escape(separator)}' {mark}, so that .* one number or several"
    )
    with pytest.raises(pydantic.ValidationError, match=message):
        Data(inputs=INPUTS, columns=columns, label="y", csv=csv)


@pytest.mark.parametrize(
    ("kind", "separator", "csv"),
    [
        ("int64", ",", {"decimal": ","}),
        ("int64", ".", {}),
        ("float32", ",", {}),
        ("string", ",", {"thousands": ","}),
        ("float32", "json", {"decimal": ","}),
    ],
)
def test_a_separator_that_no_item_has(kind, separator, csv):
    column = Column(type=kind, list=True, max_items=3, separator=separator)
    columns = {"x": column, "y": Column(type="int64")}
    assert Data(inputs=INPUTS, columns=columns, label="y", csv=csv).columns["x"] == column
