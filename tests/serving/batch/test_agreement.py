"""Labels as models learn them, and how predictions agree with them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from pipeline.config.feature_config import Label
from serving.batch import agreement
from serving.batch.agreement import CLASS, NUMBER, Agreement


def test_a_vocabulary_gives_places_and_what_it_lacks_is_unknown():
    labels = pa.array(["cat", None, "dog", "cow"])
    values, known = agreement.find_truth(
        labels, Label(vocabulary=True), ("dog", "cat"), answered=CLASS
    )
    assert known.tolist() == [True, False, True, False]
    assert values[known].tolist() == [1, 0]


def test_a_threshold_is_compared_as_float32():
    labels = pa.array([0.1, 0.2, None, 0.30000001], pa.float32())
    values, known = agreement.find_truth(labels, Label(threshold=0.1), None, answered=CLASS)
    assert known.tolist() == [True, True, False, True]
    assert values[known].tolist() == [0, 1, 1]


def test_a_threshold_of_whole_numbers_is_exact():
    labels = pa.array([999_999_999, 1_000_000_000, None, 1_000_000_001, -1], pa.int64())
    for threshold, wanted in ((1e9, [0, 0, 1, 0]), (999_999_999.5, [0, 1, 1, 0])):
        values, known = agreement.find_truth(
            labels, Label(threshold=threshold), None, answered=CLASS
        )
        assert values[known].tolist() == wanted


def test_numbers_are_what_they_are_and_nan_is_unknown():
    labels = pa.array([1.5, float("nan"), None], pa.float32())
    values, known = agreement.find_truth(labels, Label(), None, answered=NUMBER)
    assert known.tolist() == [True, False, False]
    assert values[0] == 1.5
    classes, _ = agreement.find_truth(pa.array([3, 4]), Label(), None, answered=CLASS)
    assert classes.dtype == np.int64


@pytest.mark.parametrize("labels", [pa.array(["a"]), pa.array([[1.0, 2.0]])])
def test_labels_that_are_no_numbers_are_unknown(labels):
    _, known = agreement.find_truth(labels, Label(), None, answered=CLASS)
    assert not known.any()


def test_classes_next_to_the_most_frequent_label():
    labels = np.array([0, 0, 0, 1, 1])
    found = agreement.measure(CLASS, np.array([0, 0, 1, 1, 0]), labels)
    assert found.format_line(("no", "yes")) == (
        "accuracy 0.6000 on 5 rows with a label; always 'no', the most frequent, has 0.6000"
    )
    assert "always '0', the most" in found.format_line(None)


def test_numbers_next_to_their_mean():
    labels = np.array([1.0, 2.0, 6.0])
    found = agreement.measure(NUMBER, np.array([1.0, 3.0, 4.0], np.float32), labels)
    assert found.format_line(None) == (
        "mean squared error 1.667 (RMSE 1.291) on 3 rows with a label; always their mean, 3, has "
        "4.667"
    )


@pytest.mark.parametrize("kind", [CLASS, NUMBER])
def test_parts_add_up_to_the_whole_also_as_json(kind):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 90) + (1e6 if kind == NUMBER else 0)
    said = labels + rng.integers(0, 2, 90)
    total = Agreement()
    for part in np.array_split(np.arange(90), [0, 10, 11, 60]):
        one = agreement.measure(kind, said[part], labels[part])
        total.add(Agreement.load(json.loads(json.dumps(one.dump()))))
    whole = agreement.measure(kind, said, labels)
    assert total.format_line(None) == whole.format_line(None)
    assert total.spread == pytest.approx(whole.spread, rel=1e-9)


def test_without_labels_there_is_nothing_to_say():
    assert agreement.measure(CLASS, np.zeros(0, int), np.zeros(0, int)).format_line(None) is None


def test_rows_without_a_finite_number_are_counted_by_output_and_the_first_named():
    assert Agreement().format_warnings() == []
    total = Agreement()
    total.add(Agreement(known=2, undefined={"score": (1, "row 5 of 'a.csv'")}))
    for rows, first in ((2, "row 7 of 'a.csv'"), (1, "row 9 of 'a.csv'")):
        total.add(Agreement(known=1, undefined={"prediction": (rows, first)}))
    read = Agreement.load(json.loads(json.dumps(total.dump())))
    assert read == total
    assert read.known == 4
    assert [line.partition(". ")[0] for line in read.format_warnings()] == [
        "the model gives no finite number for 1 row, the first is row 5 of 'a.csv': no 'score'",
        "the model gives no finite number for 3 rows, the first is row 7 of 'a.csv': no prediction",
    ]
