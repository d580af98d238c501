"""Numbers that stand for no value are named, and those that only look like it are not."""

from __future__ import annotations

import pytest

from preprocessing.schema_inference import sentinels
from tests.preprocessing.schema_inference.surveyed import survey_values


def _said(values, csv=True, **limits):
    return sentinels.write_remark("x", survey_values(values, **limits), csv=csv)


@pytest.mark.parametrize(
    ("odd", "others"),
    [
        ("-999", [str(n) for n in range(40)]),
        ("-999.0", [f"{n / 3:.2f}" for n in range(-200, 200)]),
        ("999", [str(n) for n in range(28)]),
        ("9999.9", [f"{n / 10}" for n in range(300)]),
        ("-9", [str(n) for n in range(1, 7)]),
        ("-99", [str(n) for n in range(0, 5000, 7)]),
        ("-2147483648", [str(n) for n in range(-500, 500)]),
    ],
)
def test_a_number_apart_from_all_others_is_named(odd, others):
    values = [odd] * 37 + others * 2
    (said,) = _said(values)
    low, high = min(map(float, others)), max(map(float, others))
    assert said == (
        f"'x' has 37 of {len(values):,} values {odd}, apart from all others, which are from "
        f"{low:g} to {high:g}. If that stands for no value, leave it empty in the raw data, or add "
        f"{odd!r} to data.csv.missing"
    )


@pytest.mark.parametrize(
    "values",
    [
        [str(n) for n in range(100)],  # ages up to 99
        ["0", "99"] * 50,
        [str(n) for n in range(-999, 999)],
        [f"{n}" for n in (-99, -50, 0, 50)] * 9,
        ["-1", "0", "1", "2"] * 9,
        ["999", "100000", "2", "50000"] * 9,
        ["a", "-999"] * 9,
    ],
)
def test_what_may_be_a_value_is_not(values):
    assert _said(values) == []


def test_of_very_many_different_numbers_it_is_found_too():
    values = ["-9999", *(f"{n / 1000:.3f}" for n in range(3000))]
    (said,) = _said(values, csv=False, most=500)
    assert said.startswith("'x' has values -9999, apart from all others")
    assert said.endswith("leave it empty in the raw data")
