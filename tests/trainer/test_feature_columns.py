"""Which part of a model a feature goes to, and how wide its vectors are."""

from __future__ import annotations

import pytest

from pipeline import errors, feature_plan
from tests.pipeline.feature_tables import contents, make
from trainer import feature_columns


def _planned(**features):
    job = make(features)
    return feature_plan.plan(job, contents(job)).features


def _ids(count, **others):
    [planned] = _planned(time={"steps": [{"hash": {"buckets": count}}], **others})
    return planned


@pytest.mark.parametrize(
    ("count", "embedding", "width"),
    [(8, "auto", 0), (9, "auto", 4), (16, "auto", 4), (10_000, "auto", 20), (3, 5, 5)],
)
def test_width_by_rule_or_by_config(count, embedding, width):
    assert feature_columns.embedding_width(_ids(count, embedding=embedding)) == width


def test_one_hot_on_request():
    assert feature_columns.embedding_width(_ids(500, embedding="one_hot")) == 0


def test_parts():
    planned = _planned(
        time={"steps": ["z_score"]},
        carrier={"steps": ["vocabulary"]},
        route={"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 9}}]},
        seats={"steps": ["z_score"], "part": "both"},
        origin={"steps": ["vocabulary"], "part": "deep"},
    )
    names = {
        part: [f.name for f in feature_columns.of_part(planned, part)] for part in ("wide", "deep")
    }
    assert names == {
        "wide": ["carrier", "route", "seats"],
        "deep": ["time", "carrier", "seats", "origin"],
    }


def test_a_part_without_features_is_refused():
    with pytest.raises(errors.UsageError, match="none is for the wide part of dnn_linear_combined"):
        feature_columns.of_part(_planned(time={"steps": ["z_score"]}), "wide")


def test_an_indicator_is_a_column_too():
    planned = _planned(delay={"steps": [{"missing": {"fill": 0, "indicator": True}}]})
    assert [column.name for column in feature_columns.wide(planned)] == ["delay_missing", "delay"]
