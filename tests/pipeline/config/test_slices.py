"""Columns by which metrics are broken down."""

from __future__ import annotations

import pytest

from pipeline import config, errors
from pipeline.config import config_file, slices

COLUMNS = {
    "origin": config.Column(type="string"),
    "size": config.Column(type="float32", shape=(2,)),
    "photo": config.Column(type="image"),
    "zip": config.Column(type="string", sensitive=True),
    "tags": config.Column(type="string", list=True, max_items=3),
}


def test_columns_of_single_values_will_do():
    slices.check(["origin"], COLUMNS, "eval.slices")


def test_another_name_is_refused_with_the_nearest():
    text = r"^eval\.slices 'orign': not one of the columns origin, .* \(did you mean 'origin'\?\)$"
    with pytest.raises(ValueError, match=text):
        slices.check(["origin", "orign"], COLUMNS, "eval.slices")


@pytest.mark.parametrize("name", ["size", "photo", "zip", "tags"])
def test_what_cannot_or_may_not_be_shown_is_refused(name):
    text = f"^--slices '{name}': must be a column of single values that is not sensitive$"
    with pytest.raises(ValueError, match=text):
        slices.check([name], COLUMNS, "--slices")


def test_a_config_is_checked_before_anything_runs():
    with pytest.raises(errors.UsageError, match=r"eval\.slices 'carier': .*did you mean 'carrier'"):
        config_file.load("flights", ["eval.slices=[carier]"])


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (
            "eval.slices=[clicked]",
            "eval.slices 'clicked': must be a column of single values that is not sensitive",
        ),
        (
            "eval.group=clicked",
            "eval.group 'clicked': is string, a list; it must be a column of single whole "
            "numbers or texts",
        ),
    ],
)
def test_lists_make_no_slices_and_no_groups(setting, line):
    with pytest.raises(errors.UsageError) as refused:
        config_file.load("ranking", [setting])
    assert str(refused.value).partition("config 'ranking': ")[2] == line


def test_the_label_makes_no_groups():
    text = r"^config 'flights': eval\.group: 'arr_delay' is the label, which is the same within"
    with pytest.raises(errors.UsageError, match=text):
        config_file.load("flights", ["eval.group=arr_delay"])


def test_groups_are_by_single_whole_numbers_or_texts():
    columns = {
        "user": config.Column(type="string", sensitive=True),
        "query": config.Column(type="int64"),
        "price": config.Column(type="float32"),
        "tags": config.Column(type="int64", shape=(3,)),
        "clicked": config.Column(type="int64", list=True, max_items=3),
    }
    for name in ("user", "query"):
        slices.check_group(name, columns, "eval.group")
    for name, what in (
        ("price", "float32"),
        ("tags", r"int64 of shape \[3\]"),
        ("clicked", "int64, a list"),
    ):
        with pytest.raises(
            ValueError,
            match=f"eval.group '{name}': is {what}; it must be a column of single whole numbers or "
            "texts",
        ):
            slices.check_group(name, columns, "eval.group")
    with pytest.raises(ValueError, match=r"eval.group 'usr': not one of .*did you mean 'user'"):
        slices.check_group("usr", columns, "eval.group")
