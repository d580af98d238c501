"""All steps of a feature one after the other, labels and weights, in eager mode and in a graph."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config, errors
from pipeline.steps.base import Step
from tests.pipeline.feature_tables import DELAY, TIME, contents, make
from trainer.features.transforms import WEIGHT, Transforms

ROWS = {
    "delay": np.array([np.nan, 3.0, 25.0], np.float32),
    "time": np.array([517, 0, 2359], np.int64),
    "carrier": np.array(["UA", "DL", "??"]),
    "origin": np.array(["EWR", "JFK", "LGA"]),
    "weight": np.array([1.0, 2.0, 0.5], np.float32),
    "late": np.array([15, 16, -3], np.int64),
    "seats": np.array([1, 2, 3], np.int64),
    "tail": np.array(["", "N1", "N2"]),
    "day": np.array(["", "", "2013-01-01"]),
    "picture": np.zeros((3, 4, 6, 3), np.uint8) + 100,
}


def _made(features=None, label=None, *, training=False):
    job = make(features, label)
    transforms = Transforms(job, contents(job))
    rows = {name: tf.constant(values) for name, values in ROWS.items()}
    return transforms.examples(
        {n: rows[n] for n in rows if n in transforms.columns}, training=training
    )


def test_a_chain_of_steps():
    steps = [{"missing": {"fill": "mean", "indicator": True}}, {"clip": {"max": 20}}, "z_score"]
    found, _ = _made({"delay": {"steps": steps}})
    clipped = DELAY.clip(max=20)
    x = np.array([DELAY.mean(), 3, 20])
    wanted = (x - clipped.mean()) / clipped.std()
    np.testing.assert_allclose(found["delay"], wanted, atol=0.01)
    assert found["delay_missing"].numpy().tolist() == [1.0, 0.0, 0.0]
    assert set(found) == {"delay", "delay_missing"}


def test_a_cross_of_a_feature_and_a_column():
    features = {
        "part": {"of": "time", "steps": ["clock", {"buckets": {"count": 4}}]},
        "x": {"of": ["part", "origin"], "steps": [{"cross": {"buckets": 1000}}]},
    }
    found, _ = _made(features)
    minutes = TIME // 100 * 60 + TIME % 100
    cuts = np.percentile(minutes, [25, 50, 75])
    np.testing.assert_array_equal(found["part"], np.digitize([317, 0, 1439], cuts))
    texts = [f"{p}\x1f{o}" for p, o in zip(found["part"].numpy(), ROWS["origin"], strict=True)]
    np.testing.assert_array_equal(
        found["x"], tf.strings.to_hash_bucket_fast(tf.constant(texts), 1000)
    )


def test_numbers_are_float32_and_ids_int64():
    found, _ = _made({"time": {}, "carrier": {"steps": ["vocabulary"]}})
    assert (found["time"].dtype, found["carrier"].dtype) == (tf.float32, tf.int64)


@pytest.mark.parametrize("training", [True, False])
def test_augmentation_is_for_training_only(training):
    steps = [{"augment": {"brightness": 0.3}}, "scale"]
    found, _ = _made({"picture": {"steps": steps}}, training=training)
    plain = np.full((3, 4, 6, 3), 100 / 255, np.float32)
    assert np.allclose(found["picture"], plain, atol=1e-6) is not training


@pytest.mark.parametrize(
    ("label", "wanted", "weights"),
    [
        ({}, [15, 16, -3], None),
        ({"threshold": 15}, [0, 1, 0], None),
        ({"weight": "weight"}, [15, 16, -3], [1.0, 2.0, 0.5]),
        ({"threshold": 15, "balanced": True}, [0, 1, 0], [0.9, 1.125, 0.9]),
    ],
)
def test_labels_and_weights(label, wanted, weights):
    features, found = _made({"time": {}}, label)
    assert found.numpy().tolist() == wanted
    if weights is None:
        assert WEIGHT not in features
    else:
        np.testing.assert_allclose(features[WEIGHT], weights, rtol=1e-6)


@pytest.mark.parametrize(
    ("threshold", "wanted"),
    [
        (20190115, [0, 0, 0, 1, 1]),
        (20190113.5, [0, 1, 1, 1, 1]),
        (-0.5, [0, 1, 1, 1, 1]),
        (1e30, [0] * 5),
        (-1e30, [1] * 5),
    ],
)
def test_a_threshold_of_whole_numbers_is_exact(threshold, wanted):
    job = make({"time": {}}, {"threshold": threshold})
    transforms = Transforms(job, contents(job))
    late = tf.constant([-1, 20190114, 20190115, 20190116, 2**62 + 1], tf.int64)
    rows = {"time": tf.zeros(5, tf.int64), "late": late}
    assert transforms.examples(rows, training=False)[1].numpy().tolist() == wanted


def test_a_threshold_of_floats_is_a_float32():
    job = make({"time": {}}, {"threshold": 0.1}, {"late": {"type": "float32"}})
    transforms = Transforms(job, contents(job))
    rows = {"time": tf.zeros(3, tf.int64), "late": tf.constant([0.1, 0.10000001, 0.0])}
    assert transforms.examples(rows, training=False)[1].numpy().tolist() == [0, 1, 0]


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_in_a_column_of_floats(classes):
    model = {"name": "linear", "params": {"classes": classes}}
    column = {"late": {"type": "float32"}}
    job = make({"time": {}}, columns=column, model=model)
    rows = {"time": tf.zeros(4, tf.int64), "late": tf.constant([1.0, 0.0, 0.5, -0.5])}
    _, found = Transforms(job, contents(job)).examples(rows, training=True)
    assert found.dtype == tf.int64
    assert found.numpy().tolist() == [1, 0, -1, -1]


def test_numbers_to_learn_stay_floats():
    model = {"name": "linear", "params": {"task": "regression"}}
    job = make({"time": {}}, columns={"late": {"type": "float32"}}, model=model)
    rows = {"time": tf.zeros(2, tf.int64), "late": tf.constant([1.0, 0.5])}
    _, found = Transforms(job, contents(job)).examples(rows, training=True)
    assert found.dtype == tf.float32
    assert found.numpy().tolist() == [1.0, 0.5]


def test_classes_of_one_of_several_labels_in_a_column_of_floats():
    late = {"type": "float32", "missing": "allow"}
    labels = {"late": {"classes": 3}, "seats": {"task": "regression"}}
    job = make(
        {"time": {}},
        columns={"late": late},
        labels=labels,
        model={"name": "linear"},
        eval={"metric": "loss"},
    )
    rows = {
        "time": tf.zeros(3, tf.int64),
        "late": tf.constant([2.0, np.nan, 1.0]),
        "seats": tf.constant([1, 0, 1], tf.int64),
    }
    features, found = Transforms(job, contents(job)).examples(rows, training=True)
    assert found["late"].dtype == tf.int64
    assert found["late"].numpy().tolist() == [2, 0, 1]
    assert features["input/weight/0"].numpy().tolist() == [1.0, 0.0, 1.0]


def test_a_label_that_is_in_no_vocabulary_is_minus_one():
    job = make({"time": {}}, {"vocabulary": True}, {"late": {"type": "int64", "allowed": [16, 15]}})
    transforms = Transforms(job, contents(job))
    rows = {"time": tf.constant(ROWS["time"]), "late": tf.constant(ROWS["late"])}
    assert transforms.examples(rows, training=False)[1].numpy().tolist() == [1, 0, -1]


def test_without_features_the_columns_are_fed_as_they_are():
    features, _ = _made()
    assert "late" not in features
    np.testing.assert_array_equal(features["picture"], ROWS["picture"])


def test_marks_of_the_ledger_pass_through():
    job = make({"time": {}})
    transforms = Transforms(job, contents(job))
    rows = {n: tf.constant(ROWS[n]) for n in ("time", "late")} | {"input/block": tf.constant([1])}
    assert transforms.examples(rows, training=True)[0]["input/block"].numpy() == [1]


def test_what_is_served_is_what_features_need():
    job = make(
        {"x": {"of": ["origin", "carrier"], "steps": [{"cross": {"buckets": 9}}]}},
        {"weight": "weight"},
    )
    transforms = Transforms(job, contents(job))
    assert set(transforms.serving_columns) == {"origin", "carrier"}
    assert transforms.feature_names == ("x",)


def _weighted(seconds):
    """Returns the ids and weights of a row of two items, and of one without any."""
    columns = {
        "seen": {"type": "string", "list": True, "max_items": 3},
        "seconds": {
            **{"type": "int64", "list": True, "max_items": 3, "min": 0},
            "same_length_as": "seen",
        },
    }
    steps = [{"hash": {"buckets": 9, "functions": 2}}]
    feature = {"steps": steps, "embedding": {"weights": "seconds"}}
    job = make({"seen": feature}, columns=columns)
    transforms = Transforms(job, contents(job))
    assert transforms.feature_names == ("seen", "seen_item_weights")
    rows = {"seen": [["a", "b", ""], ["", "", ""]], "seconds": seconds}
    return transforms.features({name: tf.constant(values) for name, values in rows.items()})


def test_items_and_their_weights():
    found = _weighted([[0, 3, -1], [-1, -1, -1]])
    assert found["seen"].shape == (2, 4) and found["seen"][1].numpy().tolist() == [-1] * 4
    assert found["seen_item_weights"].numpy().tolist() == [[0, 0, 3, 3], [0] * 4]
    assert found["seen_item_weights"].dtype == tf.float32


@pytest.mark.parametrize(
    "seconds", [[[1, -1, -1], [-1] * 3], [[1, 2, 3], [-1] * 3], [[1, 2, -1], [4, -1, -1]]]
)
def test_items_without_a_weight_are_refused(seconds):
    message = r"features\.seen: seconds needs one weight for each item"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _weighted(seconds)


@pytest.mark.parametrize(
    ("column", "value", "label", "wanted"),
    [
        ("late", 15, {}, [10.0, 1.0, 1.0]),
        ("late", 15, {"weight": "weight"}, [10.0, 2.0, 0.5]),
        ("carrier", "DL", {}, [1.0, 10.0, 1.0]),
    ],
)
def test_rows_of_a_sample_stand_for_those_left_out_in_training_alone(column, value, label, wanted):
    sample = config.Sample(column=column, value=value, keep=0.1)
    job = make({"time": {}}, label)
    job = job.model_copy(update={"data": job.data.model_copy(update={"sample": sample})})
    transforms = Transforms(job, contents(job))
    rows = {name: tf.constant(ROWS[name]) for name in transforms.columns}
    features, _ = transforms.examples(rows, training=True)
    np.testing.assert_allclose(features[WEIGHT], wanted, rtol=1e-6)
    weighted, _ = transforms.examples(rows, training=False)
    assert (WEIGHT in weighted) is ("weight" in label), "those left out are there to be judged by"
    replayed, _ = transforms.examples(rows, training=False, sampled=True)
    np.testing.assert_allclose(replayed[WEIGHT], wanted, rtol=1e-6)
    assert set(transforms.serving_columns) == {"time"}


class Remainder(Step):
    """Your own step, which returns NaN for infinity."""

    takes = ("number",)
    gives = "number"

    def apply(self, x):
        return tf.math.floormod(x, 7.0)


class Bounded(Remainder):
    """One that makes 1 of it."""

    def apply(self, x):
        return tf.tanh(x)


def _of_infinite(step):
    columns = {"delay": {"type": "float32", "max": float("inf")}}
    job = make({"delay": {"steps": [f"{__name__}:{step}"]}}, columns=columns)
    made = contents(job)
    train = made.statistics["train"]
    delay = train.columns["delay"].model_copy(update={"not_finite": 3})
    train = train.model_copy(update={"columns": {**train.columns, "delay": delay}})
    return Transforms(job, made.model_copy(update={"statistics": {"train": train}}))


def test_steps_of_ones_own_must_make_numbers_of_infinite_values():
    line = (
        r"^features\.delay: its steps make nan of inf, which its column 'delay' has; give it a "
        r"clip step, or remove \.inf from the limits of the column$"
    )
    with pytest.raises(errors.UsageError, match=line):
        _of_infinite("Remainder")
    assert _of_infinite("Bounded").feature_names == ("delay",)
