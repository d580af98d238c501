"""Numbers that float32 would make equal are told from those that it keeps apart."""

from __future__ import annotations

import numpy as np
import pytest

from preprocessing.schema_inference import precision, traits
from tests.preprocessing.schema_inference.surveyed import surveyed

_IDS = [str(2**63 + n % 40) for n in range(400)]


@pytest.mark.parametrize("odd", ["9.3e18", "1.5"])
def test_a_few_floats_make_no_float_of_large_identifiers(odd):
    values = [odd if n % 100 == 0 else text for n, text in enumerate(_IDS)]
    assert surveyed(values).kind == "string"
    assert surveyed(list(reversed(values))).kind == "string"


def test_large_amounts_stay_floats():
    amounts = np.random.default_rng(1).lognormal(44, 2, 400)
    assert surveyed([f"{amount:.0f}" for amount in amounts] + ["0.5"]).kind == "float32"


def test_different_numbers_are_counted_to_the_last_digit():
    found = surveyed([*(str(2**60 + n) for n in range(40)), "1.5"])
    assert found.kind == "float32" and traits.merged(found) == (41, 2)
    assert precision.count_exactly(["1", "1.0", "inf", "nan", f"{2**60}", f"{2**60}.0"]) == 2


@pytest.mark.parametrize("text", [str, "{}.5".format])
def test_of_very_many_numbers_all_are_looked_at(text):
    rng = np.random.default_rng(2)
    far = [text(n) for n in rng.integers(1_700_000_000_000, 1_700_086_400_000, 5000)]
    different, apart = traits.merged(surveyed(far, most=1000))
    assert different == pytest.approx(len(set(far)), rel=0.1) and apart < 1000
    near = [text(n) for n in range(5000)]
    assert traits.merged(surveyed([*near, *(f"{n}0" for n in near)], most=1000)) is None
