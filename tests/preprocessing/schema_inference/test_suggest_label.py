"""Label and key that are guessed from what columns are like."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline import config
from preprocessing.schema_inference import profile, suggest_label, traits
from tests.preprocessing.schema_inference.surveyed import survey_values


def test_keys():
    columns = {
        "n": survey_values([1, 2, 3]),
        "user_id": survey_values([1, 1, 2]),
        "id": survey_values(["a", "b", "c"]),
    }
    assert suggest_label.suggest_key(columns, 3) == "id"
    assert suggest_label.suggest_key({"n": columns["n"], "user_id": columns["user_id"]}, 3) is None
    assert suggest_label.suggest_key({"id": survey_values([1, None, 3])}, 3) is None


def test_labels():
    number, word = survey_values([1.5, 2.5, 3.5]), survey_values(["a", "b", "a"])
    three, text = survey_values(["a", "b", "c"] * 2), survey_values(["x"] * 3)
    for columns, label, why in (
        ({"Target": number, "w": word}, "Target", "by its name"),
        ({"sales_2": number, "w": word}, "sales_2", "its name is an outcome's"),
        ({"returned": word, "price": number}, "returned", "its name is an outcome's"),
        ({"w": word, "month": three}, "w", "the last of two values"),
        ({"w": word, "n": number, "t": three}, "w", "the last of two values"),
        ({"w": three, "n": number}, "w", "the last of few values"),
        ({"n": number, "e": text}, "n", "the last number"),
        ({"e": text}, "e", "the last column"),
    ):
        assert suggest_label.suggest_label(columns, 3) == (label, f"a guess: {why}")
    assert not traits.is_class(number) and traits.is_class(survey_values([1, 2, 3] * 5))


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (range(-10, 11), False),  # the years of a short series
        ([0, 0, 1, 1, 2, 3, 5, 9, 17], False),
        ([0, 0, 1], True),
        ([0, 1, 2] * 5, True),
        (["Minsk", "Moscou", "Wilna"], False),
        (["a", "b", "c"] * 2, True),
    ],
)
def test_classes_return(values, classes):
    values = [*values]
    assert traits.is_class(survey_values(values)) == classes
    columns = {
        "n": survey_values([v / 7 for v in range(len(values))]),
        "last": survey_values(values),
    }
    _, why = suggest_label.suggest_label(columns, len(values))
    assert (why == "a guess: the last number") != classes


def test_two_numbers_that_are_no_whole_ones():
    """As pandas writes whole numbers of which some are missing."""
    flag = survey_values(["0.0", None, "1.0", "1"])
    assert traits.find_threshold(flag) == 0.5 and not traits.is_class(flag)
    assert (
        suggest_label.suggest_label({"flag": flag, "n": survey_values([1.5, 2.5, 7.5])}, 3)[0]
        == "flag"
    )
    assert traits.find_threshold(survey_values([-1.0, 1.0])) == 0
    grouped = profile.ColumnProfile(csv=config.Csv(thousands=","))
    grouped.see(pa.array([b"1,000.5", b"0.5", b"1000.5"]))
    assert traits.find_threshold(grouped) == 500.5
    for values in ([0, 1], [0.5, 1.5, 2.5], [0.5], ["inf", "1.5"], ["a", "1.5"]):
        assert traits.find_threshold(survey_values(values)) is None
