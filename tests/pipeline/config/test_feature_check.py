"""What cannot be made of columns, or must not be, is refused with the config."""

from __future__ import annotations

import functools

import pytest

from pipeline import config, errors
from pipeline.config import feature_check, feature_config
from tests.pipeline.feature_tables import make


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"late": {}}, r"features\.late: made of 'late', the label: a model would learn to read"),
        ({"x": {"of": "late", "steps": ["z_score"]}}, r"features\.x: made of 'late', the label"),
        (
            {"x": {"of": ["late", "time"], "steps": [{"cross": {"buckets": 9}}]}},
            r"features\.x: made of 'late', the label",
        ),
        (
            {"x": {"of": "tim", "steps": ["z_score"]}},
            r"features\.x: 'tim' is neither a column nor another feature \(did you mean 'time'",
        ),
        ({"x": {}}, r"features\.x: 'x' is neither a column nor another feature"),
        (
            {"carrier": {"steps": ["z_score"]}},
            r"features\.carrier: z_score takes number or integer, and gets text; what takes text: "
            "cross, date, hash, missing, ngrams, pool, vocabulary",
        ),
        ({"weight": {"steps": ["vocabulary"]}}, "takes integer or text, and gets number"),
        ({"time": {"steps": [{"hash": {"buckets": 4}}, "log1p"]}}, "log1p takes .* and gets ids"),
        ({"carrier": {}}, r"features\.carrier: is text, which no model takes; what takes text"),
        (
            {"x": {"of": ["origin", "carrier"], "steps": ["vocabulary"]}},
            "several inputs are for cross; got 2 and vocabulary",
        ),
        ({"origin": {"steps": [{"cross": {"buckets": 3}}]}}, "cross takes several inputs, got one"),
        (
            {"delay": {"steps": ["z_score"]}},
            r"features\.delay: values of its column may be missing, and it has no default; begin",
        ),
        (
            {
                "a": {"of": ["b", "time"], "steps": [{"cross": {"buckets": 3}}]},
                "b": {"of": ["a", "time"], "steps": [{"cross": {"buckets": 3}}]},
            },
            "made of itself, through a <- b",
        ),
        (
            {
                "delay": {"steps": [{"missing": {"indicator": True}}]},
                "delay_missing": {"of": "time", "steps": ["z_score"]},
            },
            "this name is taken by an indicator; use another",
        ),
    ],
)
def test_what_cannot_be_made(features, message):
    with pytest.raises(errors.UsageError, match=message):
        make(features)


@pytest.mark.parametrize(
    ("column", "step", "message"),
    [
        ("day", {"vocabulary": {"values": ["a", 7]}}, "vocabulary: 7 is not a valid text, and th"),
        ("time", {"vocabulary": {"values": ["7"]}}, "vocabulary: '7' is not a valid integer"),
        ("day", {"vocabulary": {"values": ["a", "b", "a"]}}, "vocabulary: 'a' is there twice"),
        ("delay", {"missing": {"fill": "none"}}, "missing: 'none' is not a valid number"),
        ("delay", {"missing": {"fill": float("nan")}}, "missing: nan is not a valid number"),
        ("seats", {"missing": {"fill": float("inf")}}, "missing: inf is not a valid integer"),
        ("seats", {"missing": {"fill": 0.5}}, r"missing: 0\.5 is not a valid integer, and that"),
        ("tail", {"missing": {"fill": 3}}, "missing: 3 is not a valid text, and that is"),
        ("tail", "missing", "missing: texts have no mean; write fill: <text>"),
    ],
)
def test_settings_that_are_not_like_the_values(column, step, message):
    with pytest.raises(errors.UsageError, match=rf"features\.x: {message}"):
        make({"x": {"of": column, "steps": [step, {"hash": {"buckets": 3}}]}})


def test_whole_numbers_may_be_written_with_a_point():
    make({"seats": {"steps": [{"missing": {"fill": 1.0}}]}})


@pytest.mark.parametrize(
    ("of", "step", "message"),
    [
        (["pair", "time"], {"cross": {"buckets": 3}}, r"these have: 'pair' \[2\], 'time' \[\]"),
        (
            "words",
            {"ngrams": {"buckets": 3}},
            r"ngrams: takes one text per row, got values of shape \[2\]",
        ),
    ],
)
def test_shapes_that_do_not_fit(of, step, message):
    columns = {"pair": {"type": "int64", "shape": [2]}, "words": {"type": "string", "shape": [2]}}
    with pytest.raises(errors.UsageError, match=message):
        make({"x": {"of": of, "steps": [step]}}, columns=columns)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"weight": "weigth"}, r"'weigth' is not a column \(did you mean 'weight'\?\)"),
        ({"weight": "delay"}, "'delay' must be one number that is never missing"),
        ({"weight": "carrier"}, "'carrier' must be one number"),
        ({"weight": "late"}, "'late' is the label itself"),
    ],
)
def test_weights_that_are_none(label, message):
    with pytest.raises(errors.UsageError, match=message):
        make(label=label)


def test_labels_that_cannot_be_learnt():
    text = {"late": {"type": "string", "vocabulary": {}}}
    with pytest.raises(errors.UsageError, match=r"'late' is text, .* label: \{vocabulary: true\}"):
        make(columns=text)
    make(columns=text, label={"vocabulary": True})
    make(columns=text, model={"name": "my_model:model_fn"})
    absent = {"late": {"type": "int64", "missing": "allow"}}
    with pytest.raises(errors.UsageError, match=r"'late' may be missing, .* missing: drop in data"):
        make(columns=absent)
    make(columns={"late": {**absent["late"], "default": 0}})


def test_columns_that_are_one_to_tensorflow():
    columns = {
        name: config.Column(type="float32") for name in ("price ($)", "price (€)", "preis", "价格")
    }
    both = {name: feature_config.Feature() for name in columns}
    check = functools.partial(feature_check.check_served, columns=columns)
    for features in (both, {}):
        with pytest.raises(
            ValueError,
            match=r"'price \(\$\)' and 'price \(€\)' are the same argument of .*, 'price____'",
        ):
            check(features, label=feature_config.Label(), data_label="preis")
        check(features, label=feature_config.Label(), data_label="price (€)")
    weighted = feature_config.Label(weight="price ($)")
    check({"preis": both["preis"]}, label=weighted, data_label="preis")
    assert feature_check.make_argument_name("1st") == "arg_1st"


_IDS = {"steps": ["vocabulary"]}


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({"a b": {"of": "time"}, "a_b": {"of": "weight"}}, "a_b"),
        (
            {
                "a b": {"of": "delay", "steps": [{"missing": {"fill": 0, "indicator": True}}]},
                "a_b_missing": {"of": "weight"},
            },
            "a_b_missing",
        ),
        ({"a/b": {"of": "time"}, "a_b": {"of": "weight"}}, "a_b"),
        ({"carrier": _IDS, "carrier_embedding": {"of": "time"}}, "carrier_embedding"),
        ({"a/b": {"of": "carrier", **_IDS}, "a b_indicator": {"of": "time"}}, "a_b_indicator"),
        (
            {"a": {"of": "carrier", **_IDS}, "b": {"of": "a"}, "b_embedding": {"of": "time"}},
            "b_embedding",
        ),
    ],
)
def test_features_whose_variables_would_have_one_name(features, name):
    text = rf"variables of it and of '.*' would both be called '{name}'; name one of them different"
    with pytest.raises(errors.UsageError, match=text):
        make(features, model={"name": "dnn"})
    make(features, model={"name": "my_model:model_fn"})


def test_names_that_only_ids_take():
    make({"time": {}, "time_embedding": {"of": "weight"}}, model={"name": "dnn"})


@pytest.mark.parametrize("name", ["input/weight", "input/slice/late"])
def test_features_are_not_called_as_our_own_inputs(name):
    with pytest.raises(
        errors.UsageError, match=rf"features\.{name}: names that begin with 'input/"
    ):
        make({name: {"of": "time"}}, model={"name": "linear"})
    make({"input": {"of": "time"}}, model={"name": "linear"})


def test_an_embedding_is_for_ids():
    for feature in ({"steps": ["z_score"], "embedding": 4}, {"embedding": "one_hot"}):
        text = r"features\.time\.embedding: is for ids, and the feature is (number|integer); leave"
        with pytest.raises(errors.UsageError, match=text):
            make({"time": feature})
    ids = {"of": "time", "steps": [{"buckets": {"count": 3}}], "embedding": 4}
    make({"time": {"steps": ["z_score"], "embedding": "auto"}, "ids": ids})


def test_missing_values_with_a_policy_a_default_or_a_category():
    make(
        {
            "delay": {"steps": [{"missing": {"fill": "mean"}}, "z_score"]},
            "seats": {"steps": ["z_score"]},
            "tail": {"steps": [{"hash": {"buckets": 10}}]},
        }
    )


def test_features_come_after_what_they_are_made_of():
    features = {
        "c": {"of": ["b", "carrier"], "steps": [{"cross": {"buckets": 3}}]},
        "b": {"of": "time", "steps": [{"buckets": {"count": 3}}]},
        "time": {"steps": ["z_score"]},
    }
    job = make(features)
    assert feature_check.order_features(job.features, job.data.columns) == ["b", "c", "time"]


def test_a_name_that_is_a_column_is_the_column():
    """So that `carrier` crossed is the carrier, whatever the feature of that name is."""
    features = {
        "time": {"steps": [{"buckets": {"count": 3}}]},
        "x": {"of": ["time", "carrier"], "steps": [{"cross": {"buckets": 3}}]},
    }
    job = make(features)
    assert feature_check.order_features(job.features, job.data.columns) == ["time", "x"]
