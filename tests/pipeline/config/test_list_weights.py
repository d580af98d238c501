"""Weights of the items of lists: what they must be, and what reads them."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.records import feature_plan
from tests.pipeline.feature_tables import contents, make

FLOWN = {"type": "string", "list": True, "max_items": 3}
MILES = {"type": "float32", "list": True, "max_items": 3, "min": 0, "same_length_as": "flown"}
STEPS = [{"hash": {"buckets": 9}}]


def _job(miles=None, feature=None, others=None, **embedding):
    columns = {"flown": FLOWN, "miles": {**MILES, **(miles or {})}}
    made = {"steps": STEPS, "embedding": {"weights": "miles", **embedding}, **(feature or {})}
    return make({"flown": made, **(others or {})}, columns=columns)


def test_the_column_is_read_and_served():
    job = _job()
    assert set(feature_plan.select_serving_columns(job)) == {"flown", "miles"}
    [planned] = feature_plan.plan(job, contents(job)).features
    found = planned.weights
    assert (found.column, found.name) == ("miles", "flown_item_weights")
    assert found.stand_in != found.stand_in


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"weights": "mile"},
            r"features\.flown\.embedding\.weights: 'mile' is not a column \(did",
        ),
        ({"weights": "delay"}, "'delay' is one float32, must be a list of float32 or int64"),
        ({"weights": "flown"}, "'flown' is a list of string, must be"),
        ({"combiner": "max"}, "weights are for the combiners mean, sum and sqrtn, got max"),
        (
            {"miles": {"min": None}},
            r"'miles' may be negative; write min: 0 in data\.columns\.miles",
        ),
        ({"miles": {"min": -0.5}}, "'miles' may be negative"),
        (
            {"miles": {"same_length_as": None}},
            "'miles' may have more or fewer items than 'flown'; write same_length_as: flown in "
            r"data\.columns\.miles",
        ),
        (
            {"feature": {"of": "carrier"}},
            "weights are for the items of one column with list: true",
        ),
        (
            {"others": {"flown_item_weights": {"of": "time", "steps": ["z_score"]}}},
            r"features\.flown_item_weights: this name is taken by weights; use another",
        ),
    ],
)
def test_what_are_no_weights(given, message):
    with pytest.raises(errors.UsageError, match=message):
        _job(**given)
