"""Features are the same whether they are made of batches or before these are cut."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.steps.base import Step
from tests.pipeline.feature_tables import contents, make
from trainer.features.transforms import WEIGHT, Transforms
from trainer.input import parsing, preparation

COLUMNS = {
    "tags": {"type": "string", "list": True, "max_items": 5, "missing": "allow"},
    "dwell": {
        "type": "float32",
        "list": True,
        "max_items": 5,
        "missing": "allow",
        "same_length_as": "tags",
        "min": 0,
    },
}
SEEN = {"steps": [{"hash": {"buckets": 50, "functions": 2}}]}
FEATURES = {
    "delay": {"steps": [{"missing": {"fill": 0, "indicator": True}}, "z_score"]},
    "seats": {"steps": [{"missing": {"fill": "mean"}}]},
    "carrier": {"steps": ["vocabulary"], "embedding": 2},
    "tail": {"steps": [{"hash": {"buckets": 9, "functions": 2}}], "embedding": 2},
    "tags": {**SEEN, "embedding": {"size": 2, "weights": "dwell"}},
    "origin": {"steps": ["vocabulary"], "embedding": 2},
}
LABEL = {"weight": "weight"}
ROWS = 40


class OfTheBatch(Step):
    """A step of one's own, which depends on all rows of a batch."""

    takes = ("number",)
    gives = "number"

    def apply(self, x):
        return x - tf.reduce_mean(x)


def _list_lengths():
    return np.arange(ROWS) % 4  # the longest has three, of five


def _serialize():
    """Returns a record a row, of which some lack what may be missing."""
    rows = []
    for row, items in enumerate(_list_lengths()):
        feature = tf.train.Example().features.feature
        if row % 3:
            feature["delay"].float_list.value.append(row / 7)
            feature["seats"].int64_list.value.append(row)
            feature["tail"].bytes_list.value.append(b"N%d" % row)
        feature["carrier"].bytes_list.value.append([b"UA", b"DL", b"??"][row % 3])
        feature["origin"].bytes_list.value.append([b"EWR", b"LGA"][row % 2])
        feature["tags"].bytes_list.value.extend(b"t%d" % n for n in range(row, row + items))
        feature["dwell"].float_list.value.extend(np.arange(items) / 4)
        feature["weight"].float_list.value.append(row)
        feature["late"].int64_list.value.append(row % 2)
        rows.append(tf.train.Example(features=tf.train.Features(feature=feature)))
    return [row.SerializeToString() for row in rows]


def _build(features):
    job = make(features, LABEL, COLUMNS, model={"name": "linear"})
    return Transforms(job, contents(job))


def _check_equal(found, wanted):
    tf.nest.assert_same_structure(found, wanted)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("chosen", [range(ROWS), [3, 2, 39], [0, 4, 8], [1]])
def test_features_made_before_are_those_made_after(chosen):
    transforms = _build(FEATURES)
    prepared = preparation.build(transforms)
    assert prepared.columns is None  # what is kept are features
    serialized = tf.constant(_serialize())
    marks = {"input/block": tf.constant(list(chosen))}
    before = tf.nest.map_structure(
        lambda values: tf.gather(values, list(chosen)), prepared.before(serialized)
    )
    found = prepared.after(before, marks)
    read = parsing.parse(tf.gather(serialized, list(chosen)), transforms.columns)
    wanted = transforms.pack({**read, **marks}, training=True)
    assert WEIGHT in wanted[0]
    _check_equal(found, wanted)
    assert found[0]["tags"].shape[1] == 2 * max(_list_lengths()[list(chosen)])


def test_what_is_kept_of_a_record_is_no_larger_than_stated():
    prepared = preparation.build(_build(FEATURES))
    kept = tf.nest.flatten(prepared.before(tf.constant(_serialize())))
    assert sum(values.dtype.size * np.prod(values.shape[1:]) for values in kept) <= prepared.size


@pytest.mark.parametrize(
    "features",
    [
        {"weight": {"steps": [{"piecewise": {"edges": [0, 1, 2, 3]}}]}},  # larger
        {"day": {"steps": [{"ngrams": {"buckets": 9}}], "embedding": 2}},  # of any number
        {"picture": {"steps": [{"augment": {"flip": True}}, "scale"]}},  # at random
        {"weight": {"steps": [f"{__name__}:OfTheBatch"]}},  # may depend on other rows
    ],
)
def test_others_are_made_of_batches(features):
    assert preparation.build(_build(features)).columns is not None
