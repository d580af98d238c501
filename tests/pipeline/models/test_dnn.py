"""Each part of `dnn_linear_combined` needs a feature."""

from __future__ import annotations

import pytest

from pipeline import errors
from tests.pipeline.feature_tables import make

NUMBER = {"steps": ["z_score"]}
IDS = {"steps": ["vocabulary"]}
CROSS = {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 9}}]}


def _job(name, **features):
    return make(features, model={"name": name})


@pytest.mark.parametrize(
    ("features", "part", "instead"),
    [
        ({"time": NUMBER}, "wide", "dnn"),
        ({"carrier": {**IDS, "part": "deep"}, "time": NUMBER}, "wide", "dnn"),
        ({"carrier": {**IDS, "part": "wide"}}, "deep", "linear"),
        ({"route": CROSS}, "deep", "linear"),
    ],
)
def test_a_part_without_features_is_refused(features, part, instead):
    text = (
        f"^config 'test': features: none is for the {part} part of dnn_linear_combined; write "
        f"part: {part} in one, or use model.name: {instead}$"
    )
    with pytest.raises(errors.UsageError, match=text):
        _job("dnn_linear_combined", **features)
    _job("dnn", **features)
    _job("linear", **features)


@pytest.mark.parametrize(
    "features",
    [
        {"carrier": IDS},
        {"time": {**NUMBER, "part": "both"}},
        {"route": CROSS, "time": NUMBER},
        {"carrier": {**IDS, "part": "deep"}, "again": {"of": "carrier", **IDS, "part": "wide"}},
        {"carrier": {**IDS, "part": "deep"}, "route": CROSS, "of_route": {"of": "route"}},
    ],
)
def test_a_feature_for_each_part_is_enough(features):
    assert _job("dnn_linear_combined", **features).features
