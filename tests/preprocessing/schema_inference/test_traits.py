"""What the values of a column are, by what was surveyed."""

from __future__ import annotations

from preprocessing.schema_inference import traits
from tests.preprocessing.schema_inference.surveyed import surveyed


def test_a_label_far_from_zero_has_its_offset_and_scale():
    found = surveyed([1e9 + n % 3 for n in range(300)])
    assert traits.scaling(found) == {"offset": 1000000001.0, "scale": 0.82}
    assert traits.scaling(surveyed([7.5] * 9)) == {"offset": 7.5}
    assert traits.scaling(surveyed([0.0] * 9)) == {}


def test_labels_are_brought_to_about_one():
    assert traits.scaling(surveyed([250_100, 349_000, 251_000])) == {
        "offset": 2.8e5,
        "scale": 4.6e4,
    }
    assert traits.scaling(surveyed([2001, 2002.5])) == {"offset": 2001.8, "scale": 0.75}
    assert traits.scaling(surveyed(["nan"])) == {}


def test_classes_that_are_numbered_from_zero():
    assert traits.is_numbered(surveyed([0, 1, 2, 0]))
    assert not traits.is_numbered(surveyed([1, 2])) and not traits.is_numbered(surveyed(["a"]))
