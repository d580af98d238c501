"""What a column may hold, and what stands for a value that is missing."""

import math

import pydantic
import pytest

from pipeline.config import Column


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((3,), 3), ((28, 28, 1), 784)])
def test_the_size_of_a_column(shape, size):
    assert Column(type="uint8", shape=shape).size == size


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"type": "string", "min": 1}, "min and max are for numbers"),
        ({"type": "int64", "max_length": 3}, "are for strings, this is int64"),
        ({"type": "int64", "dates": "iso"}, "dates are of strings, and ymd of int64, this is int"),
        ({"type": "float32", "dates": "ymd"}, "dates are of strings, and ymd of int64, this is fl"),
        ({"type": "uint8", "missing": "allow"}, "uint8 takes neither missing: allow"),
        ({"type": "image", "shape": [2]}, "image takes no shape, min or max"),
        ({"type": "image", "max": 2}, "image takes no shape, min or max"),
        ({"type": "image", "missing": "allow"}, "image takes neither missing: allow"),
        ({"type": "int64", "allowed": [1, "a"]}, "'a' in allowed or default is not of type int64"),
        ({"type": "int64", "default": 0.5}, r"0\.5 in allowed or default is not of type int64"),
        (
            {"type": "int64", "allowed": [0, 1.0]},
            r"1\.0 in allowed or default is not of type int64",
        ),
        ({"type": "float32", "min": 2, "max": 1.5}, r"min 2\S* is above max 1\.5: no value"),
        (
            {"type": "string", "min_length": 3, "max_length": 2},
            "min_length 3 is above max_length 2",
        ),
        ({"type": "string", "allowed": [True, False]}, "got true, which is neither .* in quotes"),
        ({"type": "int64", "min": False}, "got false, which is neither a number nor a text"),
        ({"type": "string", "default": 0}, "0 in allowed or default is not of type string"),
        (
            {"type": "int64", "default": 2**63},
            "5808 in allowed or default is beyond int64",
        ),
        ({"type": "int64", "allowed": [1, -(2**63) - 1]}, "allowed or default is beyond int64"),
        ({"type": "float32", "default": 1e39}, r"1e\+39 in allowed or default is beyond float32"),
    ],
)
def test_rules_that_do_not_fit_the_type(column, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Column(**column)


def test_what_stands_for_missing():
    stand_ins = {kind: Column(type=kind).stands_for_missing for kind in ("int64", "string")}
    assert stand_ins == {"int64": -1, "string": ""}
    assert math.isnan(Column(type="float32").stands_for_missing)
    assert Column(type="float32", default=0).stands_for_missing == 0


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"type": "string", "list": True}, "list: true needs max_items, the most items of a row"),
        ({"type": "string", "max_items": 3}, "max_items is for lists; write list: true, or take"),
        ({"type": "int64", "separator": ";"}, "separator is for lists"),
        (
            {"type": "int64", "list": True, "max_items": 3, "shape": [2]},
            r"items that are int64, float32 or string, got shape \[2\]",
        ),
        ({"type": "image", "list": True, "max_items": 3}, "float32 or string, got type image"),
    ],
)
def test_lists_that_are_none(column, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Column(**column)


def test_only_lists_that_belong_together_are_dumped_so():
    made = Column(type="int64", list=True, max_items=3)
    assert "same_length_as" not in made.model_dump()
    made = Column(type="int64", list=True, max_items=3, same_length_as="x")
    assert Column(**made.model_dump()) == made
    with pytest.raises(pydantic.ValidationError, match="same_length_as is for lists"):
        Column(type="int64", same_length_as="x")


def test_columns_without_dates_are_dumped_as_before():
    assert "dates" not in Column(type="string").model_dump()
    made = Column(type="string", dates="m/d/y")
    assert Column(**made.model_dump()) == made


def test_columns_that_are_no_lists_are_dumped_as_before():
    assert not {"list", "max_items", "on_longer", "separator"} & set(
        Column(type="int64").model_dump()
    )
    made = Column(type="int64", list=True, max_items=3)
    assert Column(**made.model_dump()) == made
