"""What the values of a column are, by what was surveyed."""

from __future__ import annotations

import math

import pytest

from preprocessing.schema_inference import traits
from tests.preprocessing.schema_inference.surveyed import survey_values


def test_a_label_far_from_zero_has_its_offset_and_scale():
    found = survey_values([1e9 + n % 3 for n in range(300)])
    assert traits.compute_scaling(found) == {"offset": 1000000001.0, "scale": 0.82}
    assert traits.compute_scaling(survey_values([7.5] * 9)) == {"offset": 7.5}
    assert traits.compute_scaling(survey_values([0.0] * 9)) == {}


def test_labels_are_brought_to_about_one():
    assert traits.compute_scaling(survey_values([250_100, 349_000, 251_000])) == {
        "offset": 2.8e5,
        "scale": 4.6e4,
    }
    assert traits.compute_scaling(survey_values([2001, 2002.5])) == {
        "offset": 2001.8,
        "scale": 0.75,
    }
    assert traits.compute_scaling(survey_values(["nan"])) == {}
    offset = traits.compute_scaling(survey_values([-0.5, 0.4] * 9))["offset"]
    assert (offset, math.copysign(1, offset)) == (0, 1)


@pytest.mark.parametrize(
    "values", [[0.0, -0.0], ["0.0", "-0.0", "0"], ["1.50", "1.5"], ["7", "+7"], ["a", "a"]]
)
def test_one_number_in_several_ways_is_always_the_same(values):
    assert traits.is_constant(survey_values(values * 9))


@pytest.mark.parametrize("values", [[0.0, -0.1], ["1e40", "2e40"], ["a", "A"], [1.0, math.nan]])
def test_values_that_differ_are_not_constant(values):
    assert not traits.is_constant(survey_values(values * 9))


def test_classes_that_are_numbered_from_zero():
    assert traits.is_numbered(survey_values([0, 1, 2, 0]))
    assert not traits.is_numbered(survey_values([1, 2])) and not traits.is_numbered(
        survey_values(["a"])
    )
