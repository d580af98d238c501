"""Which part of a model a feature goes to, and how wide its vectors are."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.records import feature_plan
from tests.pipeline.feature_tables import contents, make
from trainer.models import feature_columns


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


def _inputs(columns, given):
    """Returns what a network gets of columns, and how many ops that takes."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        features = {name: tf.compat.v1.placeholder(tf.float32, [None]) for name in given}
        chosen, made = feature_columns.packed(columns)
        layer = tf.compat.v1.feature_column.input_layer(
            feature_columns.pack(features, made), chosen
        )
        session.run([tf.compat.v1.global_variables_initializer()])
        feeds = {features[name]: values for name, values in given.items()}
        return session.run(layer, feeds).tolist(), len(graph.get_operations())


def test_numbers_go_into_a_network_as_one_column_in_the_order_they_had():
    number = tf.feature_column.numeric_column
    ids = tf.feature_column.categorical_column_with_identity("c1x", 3)
    columns = [number(name) for name in ("c2", "c10", "b", "c1", "c1y")]
    columns += [tf.feature_column.indicator_column(ids), number("wide", (2,))]
    chosen, made = feature_columns.packed(columns)
    assert made == {"c10-": ("b", "c1", "c10"), "c2-": ("c1y", "c2")}
    every = sorted([c.name for c in columns])
    assert [n for c in chosen for n in made.get(c.name, [c.name])] == every
    assert [c.name for c in chosen] == sorted(c.name for c in chosen)


def test_the_graph_of_a_wide_table_has_few_ops_a_column():
    names = [f"c{n}" for n in range(200)]
    values, ops = _inputs(
        [tf.feature_column.numeric_column(name) for name in names],
        {name: [float(n), -float(n)] for n, name in enumerate(names)},
    )
    ordered = [float(name[1:]) for name in sorted(names)]
    assert values == [ordered, [-x for x in ordered]]
    assert ops < 1.5 * len(names)
