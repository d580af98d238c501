"""Every transform in a Keras model that was saved and loaded, against that of Estimators."""

from __future__ import annotations

import io
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from pipeline import errors
from pipeline.steps import STEPS
from pipeline.steps.base import NUMBERS, Step
from tests.pipeline.feature_tables import contents, make
from trainer.features.transforms import Transforms
from trainer.networks import keras_columns
from trainer.networks.keras_columns import KerasColumns, Spec


def _png(height, width):
    file = io.BytesIO()
    pixels = np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


COLUMNS = {
    "when": {"type": "string"},
    "us": {"type": "string"},
    "mail": {"type": "string"},
    "since": {"type": "int64"},
    "compact": {"type": "int64", "missing": "allow"},
    "photo": {"type": "image"},
    "tags": {"type": "string", "list": True, "max_items": 4},
    "prices": {"type": "float32", "list": True, "max_items": 3},
    "counts": {"type": "int64", "list": True, "max_items": 4, "min": 0, "same_length_as": "tags"},
}
ROWS = {
    "delay": np.array([np.nan, 3.0, 25.0], np.float32),
    "seats": np.array([0, 2, 300], np.int64),
    "time": np.array([517, 0, 2359], np.int64),
    "carrier": np.array(["UA", "DL", "??"]),
    "tail": np.array(["", "N1", "é"]),
    "day": np.array(["Some words", "", "a"]),
    "when": np.array(["2012-12-31", "2013-03-01T10:20:00Z", "soon"]),
    "us": np.array(["9/30/1990 0:00:00", "12/1/2020 12:05:01 PM", "30.9.1990"]),
    "mail": np.array(["Tue, 14 Jan 2020 10:00:00 +0000", "1 May 99", "May"]),
    "since": np.array([1717243199, 1717243201, -(2**40)], np.int64),
    "compact": np.array([20190131, -1, 20191301], np.int64),
    "origin": np.array(["EWR", "JFK", "XXX"]),
    "picture": np.arange(3 * 4 * 6 * 3).astype(np.uint8).reshape(3, 4, 6, 3),
    "tags": np.array([["a", "b", "", ""], [""] * 4, ["c", "", "", ""]]),
    "counts": np.array([[2, 0, -1, -1], [-1] * 4, [5, -1, -1, -1]]),
    "prices": np.array([[0.5, 7, np.nan], [np.nan] * 3, [3, np.nan, np.nan]], np.float32),
    "photo": np.array([_png(4, 6), _png(10, 3), _png(1, 1)]),
}
FILL = {"missing": {"fill": 1, "indicator": True}}
FEATURES = {
    "missing": {"of": "delay", "steps": [FILL]},
    "missing_text": {
        "of": "tail",
        "steps": [{"missing": {"fill": "N1"}}, {"hash": {"buckets": 9}}],
    },
    "missing_mean": {"of": "seats", "steps": ["missing"]},
    "z_score": {"of": "time", "steps": ["z_score"]},
    "min_max": {"of": "time", "steps": ["min_max"]},
    "log1p": {"of": "time", "steps": ["log1p"]},
    "clip": {"of": "time", "steps": [{"clip": {"min": 3, "max": 1000}}]},
    "buckets": {"of": "time", "steps": [{"buckets": {"boundaries": [1.5, 517]}}]},
    "piecewise": {"of": "delay", "steps": [FILL, {"piecewise": {"edges": [0, 4, 20]}}]},
    "quantiles": {"of": "time", "steps": [{"piecewise": {"count": 3}}]},
    "cycle": {"of": "time", "steps": [{"cycle": {"period": 2400}}]},
    "vocabulary": {"of": "carrier", "steps": [{"vocabulary": {"oov": 4}}]},
    "numbers": {"of": "time", "steps": [{"vocabulary": {"values": [-1, 0], "oov": 7}}]},
    "hash": {"of": "time", "steps": [{"hash": {"buckets": 50}}]},
    "identity": {"of": "seats", "steps": [{"identity": {"ids": 5}}]},
    "cross": {"of": ["origin", "buckets", "time"], "steps": [{"cross": {"buckets": 99}}]},
    "clock": {"of": "time", "steps": ["clock"]},
    "minute": {"of": "time", "steps": [{"clock": {"part": "minute"}}, {"identity": {"ids": 61}}]},
    "ngrams": {"of": "day", "steps": [{"ngrams": {"n": 2, "unit": "character", "buckets": 8}}]},
    "decode": {"of": "photo", "steps": [{"decode": {"height": 4, "width": 5}}, "scale"]},
    "pool": {"of": "prices", "steps": ["log1p", {"pool": {"by": "max"}}]},
    **{
        f"pool_{by}": {"of": "prices", "steps": [{"pool": {"by": by}}, "log1p"]}
        for by in ("mean", "sum", "min", "count")
    },
    "pool_texts": {"of": "tags", "steps": [{"pool": {"by": "count"}}]},
    "pool_ids": {
        "of": "tags",
        "steps": [{"hash": {"buckets": 9, "functions": 2}}, {"pool": {"by": "count"}}],
    },
    # The text itself, its absence, and what is between steps, are all wanted inside.
    "tail": {
        "of": "tail",
        "steps": [{"missing": {"fill": "-", "indicator": True}}, {"ngrams": {"buckets": 7}}],
    },
    "tail_hash": {"of": "tail", "steps": [{"hash": {"buckets": 9}}]},
    "photo": {
        "steps": [{"decode": {"height": 4, "width": 5}}, {"resize": {"height": 2, "width": 3}}]
    },
    "thumb": {"of": "pixels", "steps": [{"resize": {"height": 1, "width": 1}}]},
    "pixels": {"of": "photo", "steps": [{"decode": {"height": 6, "width": 5}}, "scale"]},
    "resize": {"of": "picture", "steps": [{"resize": {"height": 2, "width": 2}}]},
    "scale": {"of": "picture", "steps": [{"augment": {"flip": True}}, {"scale": {"min": -1}}]},
    # Of these float32 has every 128th only.
    "since_z_score": {"of": "since", "steps": [{"z_score": {"mean": 1717243200, "deviation": 1}}]},
    "since_min_max": {
        "of": "since",
        "steps": [{"min_max": {"min": 1717243199, "max": 1717243203}}],
    },
    "since_buckets": {"of": "since", "steps": [{"buckets": {"boundaries": [1.5, 1717243200]}}]},
    "since_piecewise": {
        "of": "since",
        "steps": [{"piecewise": {"edges": [1717243198, 1717243200, 1717243202]}}],
    },
    "since_cycle": {"of": "since", "steps": [{"cycle": {"period": 60}}]},
    "since_part": {"of": "since", "steps": [{"cycle": {"period": 0.7}}]},
    **{
        f"date_{part}": {"of": "when", "steps": [{"date": {"part": part}}, {"clip": {"min": -1}}]}
        for part in ("year", "month", "day", "hour", "minute", "weekday", "calendar_day")
    },
    **{
        f"{column}_{part}": {"of": column, "steps": [{"date": {"part": part, "form": form}}]}
        for column, form in (
            ("us", "m/d/y"),
            ("time", "seconds"),
            ("mail", "d month y"),
            ("compact", "ymd"),
        )
        for part in (
            "year",
            "month",
            "day",
            "hour",
            "weekday",
            "day_of_year",
            "calendar_day",
            "days",
        )
    },
}
# Ids behind the last of a list are -1; the Estimator has as many places as the longest list.
LISTS = {
    "tags": {"steps": [{"hash": {"buckets": 9}}]},
    "tag": {"of": "tags", "steps": [{"vocabulary": {"values": ["c", "a"], "oov": 2}}]},
    "prices": {"steps": ["log1p", {"buckets": {"boundaries": [1, 2]}}]},
}
# Two ids of each value, of a list with weights and of single values.
SEVERAL = {
    "twice": {
        "of": "tags",
        "steps": [{"hash": {"buckets": 9, "functions": 2}}],
        "embedding": {"weights": "counts"},
    },
    "twice_single": {"of": "carrier", "steps": [{"hash": {"buckets": 9, "functions": 2}}]},
}


@pytest.fixture(scope="module")
def both():
    job = make({**FEATURES, **LISTS, **SEVERAL}, columns=COLUMNS)
    transforms = Transforms(job, contents(job))
    return transforms, KerasColumns(transforms)


@pytest.fixture(scope="module")
def made(both, tmp_path_factory):
    """Features of the rows, by a model that was saved and loaded."""
    _, columns = both
    inputs = keras_columns.build_inputs(columns.inputs)
    path = str(tmp_path_factory.mktemp("keras") / "features.keras")
    tf.keras.Model(inputs, columns.build(inputs)).save(path)
    rows = {name: tf.constant(values) for name, values in ROWS.items()}
    return tf.keras.models.load_model(path)(columns.prepare_inputs(rows))


def test_no_step_is_left_out():
    used = {
        step if isinstance(step, str) else next(iter(step))
        for feature in FEATURES.values()
        for step in feature["steps"]
    }
    missing = set(STEPS) - used
    assert not missing, f"add a feature with {missing} to FEATURES above"


@pytest.mark.parametrize(
    "name", [*FEATURES, "missing_missing", "tail_missing", "piecewise_missing"]
)
def test_values_are_those_of_the_transforms(both, made, name):
    rows = {column: tf.constant(values) for column, values in ROWS.items()}
    wanted = both[0].features(rows)[name]
    assert made[name].dtype == wanted.dtype
    np.testing.assert_array_equal(made[name], wanted)


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_those_of_the_transforms(both, made, name):
    rows = {column: tf.constant(values) for column, values in ROWS.items()}
    wanted = both[0].features(rows)[name].numpy()
    found = made[name].numpy()
    assert wanted.shape[1] == 2 and found.dtype == wanted.dtype
    np.testing.assert_array_equal(found[:, :2], wanted)
    assert (found[:, 2:] == -1).all() and (wanted[1] == -1).all()


@pytest.mark.parametrize("name", [*SEVERAL, "twice_item_weights"])
def test_several_ids_of_each_value_are_those_of_the_transforms(both, made, name):
    wanted = both[0].features({c: tf.constant(values) for c, values in ROWS.items()})[name]
    width = wanted.shape[1]
    assert width == (2 if name == "twice_single" else 4)
    np.testing.assert_array_equal(made[name][:, :width], wanted)
    padding = 0 if name == "twice_item_weights" else -1
    assert (made[name][:, width:].numpy() == padding).all()
    if name == "twice_item_weights":
        assert wanted.numpy().tolist() == [[2, 2, 0, 0], [0] * 4, [5, 5, 0, 0]]


def test_what_no_layer_can_do_is_fed(both):
    inputs = both[1].inputs
    assert inputs["decode"] == Spec((4, 5, 3), "float32")
    assert inputs["ngrams"] == Spec((None,), "int64")
    assert inputs["photo"] == Spec((4, 5, 3), "float32")
    assert not {"day", "late", "weight"} & set(inputs)
    assert not [name for name in inputs if name.startswith("pool")]
    assert inputs["tail"] == Spec((), "string")


def test_what_is_fed_does_not_take_the_name_of_what_others_are_made_of(both):
    inputs = both[1].inputs
    assert inputs["tail_ngrams"] == Spec((None,), "int64")
    assert inputs["tail_ngrams_missing"] == Spec((), "float32")
    assert inputs["pixels_decode"] == Spec((6, 5, 3), "float32")


def test_without_features_columns_are_fed_as_they_are():
    job = make()
    columns = KerasColumns(Transforms(job, contents(job)))
    assert columns.inputs == columns.features
    assert columns.inputs["picture"] == Spec((4, 6, 3), "uint8")
    rows = {name: tf.zeros([2]) for name in columns.inputs}
    assert columns.prepare_inputs(rows) == columns.build(rows) == rows


class Trimmed(Step):
    """A step of text that Keras is not to save."""

    takes = ("text",)
    gives = "text"
    outside_keras = True

    def apply(self, x):
        return tf.strings.strip(x)


class Length(Trimmed):
    """One that gives whole numbers."""

    gives = "integer"

    def apply(self, x):
        return tf.cast(tf.strings.length(x), tf.int64)


class Pair(Step):
    """A step that changes the shape."""

    takes = NUMBERS
    gives = "number"

    def out_shape(self, shape):
        return (*shape, 2)

    def apply(self, x):
        x = tf.cast(x, tf.float32)
        return tf.stack([x, -x], axis=-1)


class Double(Pair):
    """One that does not give what it says."""

    def apply(self, x):
        return tf.cast(x, tf.float64)


@pytest.fixture
def own(monkeypatch):
    module = types.ModuleType("own_steps")
    for step in (Trimmed, Length, Pair, Double):
        setattr(module, step.__name__, step)
    monkeypatch.setitem(sys.modules, "own_steps", module)


def test_steps_of_ones_own_inside_and_outside(own, tmp_path):
    features = {
        "day": {"steps": ["own_steps:Trimmed", {"vocabulary": {"values": ["a", "b"]}}]},
        "length": {"of": "day", "steps": ["own_steps:Length", {"hash": {"buckets": 1000}}]},
        "day_hash": {"of": "day", "steps": [{"hash": {"buckets": 9}}]},
        "delay": {"steps": [FILL, "own_steps:Pair"]},
    }
    job = make(features)
    transforms = Transforms(job, contents(job))
    columns = KerasColumns(transforms)
    assert columns.inputs["length"] == Spec((), "int64")
    assert columns.inputs["day_own_steps_Trimmed"] == Spec((), "string")
    assert columns.features["delay"] == Spec((2,), "float32")
    assert columns.features["delay_missing"] == Spec((), "float32")
    inputs = keras_columns.build_inputs(columns.inputs)
    path = str(tmp_path / "own.keras")
    tf.keras.Model(inputs, columns.build(inputs)).save(path)
    rows = {"day": tf.constant(["a ", "b", "xyz"]), "delay": tf.constant([1.0, np.nan, -2.0])}
    wanted = transforms.features(rows)
    found = tf.keras.models.load_model(path)(columns.prepare_inputs(rows))
    assert wanted["day"].numpy().tolist() == [0, 1, 2]
    assert wanted["delay_missing"].numpy().tolist() == [0, 1, 0]
    assert set(found) == set(wanted)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name])


def test_a_step_that_does_not_give_what_it_says_is_refused(own):
    job = make({"time": {"steps": ["own_steps:Double"]}})
    transforms = Transforms(job, contents(job))
    with pytest.raises(
        errors.UsageError,
        match=r"features\.time: own_steps:Double: returned float64; values of kind number are floa",
    ):
        transforms.features({"time": tf.constant([1, 2], tf.int64)})
