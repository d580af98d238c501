"""Which part of a model a feature goes to, and how wide its vectors are."""

from __future__ import annotations

import pytest
import tensorflow as tf
from keras.src.engine import base_layer_utils

from pipeline.records import feature_plan
from tests.pipeline.feature_tables import contents, make
from trainer.features import feature_columns


def _planned(*, columns=None, **features):
    job = make(features, columns=columns)
    return feature_plan.plan(job, contents(job)).features


def _ids(count, **others):
    [planned] = _planned(time={"steps": [{"hash": {"buckets": count}}], **others})
    return planned


@pytest.mark.parametrize(
    ("count", "embedding", "width"),
    [(8, "auto", 0), (9, "auto", 4), (16, "auto", 4), (10_000, "auto", 20), (3, 5, 5)],
)
def test_width_by_rule_or_by_config(count, embedding, width):
    assert feature_columns.choose_embedding_width(_ids(count, embedding=embedding)) == width


def test_one_hot_on_request():
    assert feature_columns.choose_embedding_width(_ids(500, embedding="one_hot")) == 0


def test_parts():
    planned = _planned(
        time={"steps": ["z_score"]},
        carrier={"steps": ["vocabulary"]},
        route={"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 9}}]},
        seats={"steps": ["z_score"], "part": "both"},
        origin={"steps": ["vocabulary"], "part": "deep"},
    )
    names = {
        part: [f.name for f in feature_columns.select_part(planned, part)]
        for part in ("wide", "deep")
    }
    assert names == {
        "wide": ["carrier", "route", "seats"],
        "deep": ["time", "carrier", "seats", "origin"],
    }


def test_an_indicator_is_a_column_too():
    planned = _planned(delay={"steps": [{"missing": {"fill": 0, "indicator": True}}]})
    assert [column.name for column in feature_columns.build_deep_columns(planned)] == [
        "delay_missing",
        "delay",
    ]


def _number(**more):
    return {"of": ["time"], "steps": ["z_score"], **more}


def _category(count, **more):
    return {"of": ["time"], "steps": [{"hash": {"buckets": count}}], **more}


def _inputs(planned, given, *, packed):
    """Returns what a network gets of features, and how many ops that takes."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        features = {
            f.name: tf.compat.v1.placeholder(tf.int64 if f.kind == "ids" else tf.float32, [None])
            for f in planned
        }
        columns, made = feature_columns.build_deep_columns(planned), {}
        if packed:
            columns, made = feature_columns.pack_columns(planned)
        layer = tf.compat.v1.feature_column.input_layer(
            feature_columns.pack(features, made), columns
        )
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        feeds = {features[name]: values for name, values in given.items()}
        return session.run(layer, feeds).tolist(), len(graph.get_operations())


def test_what_is_single_goes_into_a_network_as_one_column_in_the_order_it_had():
    planned = _planned(
        **{name: _number() for name in ("c2", "c10", "b", "c1y")},
        c1=_category(3),
        c1x=_category(30),
        delay={"steps": [{"missing": {"fill": 0, "indicator": True}}]},
        z=_category(2),
    )
    chosen, made = feature_columns.pack_columns(planned)
    assert [c.name for c in chosen] == ["c1_indicator-", "c1x_embedding", "z_indicator-"]
    assert made == {
        "c1_indicator-": (("b", None), ("c10", None), ("c1", 3)),
        "z_indicator-": (
            ("c1y", None),
            ("c2", None),
            ("delay", None),
            ("delay_missing", None),
            ("z", 2),
        ),
    }


def test_several_categories_of_a_row_are_not_packed():
    planned = _planned(
        columns={"tags": {"type": "string", "list": True, "max_items": 3, "allowed": ["a", "b"]}},
        tags={"steps": ["vocabulary"]},
    )
    chosen, made = feature_columns.pack_columns(planned)
    assert ([c.name for c in chosen], made) == (["tags_indicator"], {})


def test_the_input_of_a_wide_network_is_the_same_and_has_few_ops_a_feature():
    features = {f"c{n}": _number() if n % 3 else _category(2 + n % 4) for n in range(300)}
    planned = _planned(**features)
    # -1 (unknown) and an id beyond the last category select no category.
    given = {
        name: [float(n), -float(n)] if n % 3 else [n % 5 - 1, 1 - n % 3]
        for n, name in enumerate(features)
    }
    values, ops = _inputs(planned, given, packed=True)
    assert values == _inputs(planned, given, packed=False)[0]
    assert ops < 2 * len(features)


def test_keras_does_not_look_at_what_features_are_made_of(monkeypatch):
    columns, _ = feature_columns.pack_columns(_planned(time={"steps": ["z_score"]}))
    asked = []
    with tf.Graph().as_default():
        time = tf.compat.v1.placeholder(tf.float32, [None]) + 1.0
        kind, plain = type(time), type(time).op
        known = feature_columns.select_needed({"time": time, "other": time - 1.0}, columns)
        monkeypatch.setattr(kind, "op", property(lambda x: asked.append(x) or plain.fget(x)))
        uses = base_layer_utils.needs_keras_history(known)
    assert list(known) == ["time"] and not uses and not asked
