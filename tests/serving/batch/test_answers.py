"""Predictions as tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline.config.feature_config import Label
from preprocessing.sources.base import RawFile, Rows
from serving.batch import answers

CLASSES = ("dog", "cat")
FOUND = {
    "probabilities": np.array([[0.25, 0.75], [0.9, 0.1]], np.float32),
    "class": np.array([1, 0]),
}


def _rows(**more) -> Rows:
    batch = pa.record_batch({"x": [1, 2, 3]})
    return Rows(batch, files={"x": "raw/a.csv"}, **more)


def test_rows_are_named_by_file_and_number():
    found = answers.place(_rows(), np.array([0, 2]), np.array([2, 4]), column="x")
    assert pa.table(found).to_pylist() == [
        {"file": "raw/a.csv", "row": 2},
        {"file": "raw/a.csv", "row": 4},
    ]


def test_rows_that_are_files_have_names_of_their_own():
    each = tuple(RawFile(name, f"raw/{name}") for name in "abc")
    found = answers.place(_rows(each=each), np.array([0, 2]), np.array([1, 1]), column="x")
    assert found["file"].to_pylist() == ["raw/a", "raw/c"]


def test_stored_records_are_not_called_rows():
    numbers = np.array([2, 4])
    found = answers.place(_rows(), np.array([0, 2]), numbers, column="x", names=answers.STORED)
    assert pa.table(found).to_pylist() == [
        {"shard": "raw/a.csv", "record": 2},
        {"shard": "raw/a.csv", "record": 4},
    ]
    shown = answers.render(pa.table({**found, "prediction": [1, 2]}), 5).splitlines()
    assert shown[:2] == [" record  prediction", "a.csv:2           1"]


def test_keys_keep_their_names_unless_these_are_taken():
    batch = pa.record_batch({"id": [1], "row": [2], "class": [3], "score": [4]})
    found = answers.build_keys(batch, ["id", "row", "score"], {"score": 0})
    assert {name: value[0].as_py() for name, value in found.items()} == {
        "id": 1,
        "key_row": 2,
        "key_score": 4,
    }


def test_a_class_comes_first_with_a_probability_of_each_by_name():
    found = pa.table(answers.build_columns(FOUND, CLASSES))
    assert found.column_names == ["prediction", "probability_dog", "probability_cat"]
    assert found["prediction"].to_pylist() == ["cat", "dog"]
    assert found["probability_cat"].to_pylist() == pytest.approx([0.75, 0.1])


def test_classes_without_names_are_numbers():
    found = pa.table(answers.build_columns(FOUND, None))
    assert found.column_names == ["prediction", "probability_0", "probability_1"]
    assert found["prediction"].to_pylist() == [1, 0]


def test_a_class_that_has_no_name_has_its_number():
    assert answers.name_classes(np.array([0, 2, -1]), CLASSES).to_pylist() == ["dog", "2", "-1"]


def test_other_outputs_go_by_their_names():
    found = pa.table(
        answers.build_columns(
            {
                "prediction": np.array([1.5, 2.5], np.float32),
                "embedding": np.arange(8, dtype=np.float32).reshape(2, 2, 2),
                "text": np.array([b"a", b"\xff"], object),
                "words": np.array([[b"a", b"b"], [b"c", b"d"]], object),
            },
            None,
        )
    )
    assert found.column_names[0] == "prediction"
    assert found["embedding"].to_pylist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert found["text"].to_pylist() == ["a", "\\xff"]
    assert found["words"].to_pylist() == [["a", "b"], ["c", "d"]]


def test_outputs_do_not_take_the_places_of_others():
    one = np.array([1.0, 2.0], np.float32)
    names = ("row", "prediction", "label", "class", "score")
    found = answers.build_columns({**dict.fromkeys(names, one), "class": np.array([1, 0])}, CLASSES)
    assert list(found) == ["prediction", "output_prediction", "output_row", "output_label", "score"]
    assert found["prediction"].to_pylist() == ["cat", "dog"]


def test_labels_are_shown_as_the_model_knows_them():
    labels = pa.array(["cat", None])
    shown, found = answers.compare_labels(labels, Label(vocabulary=True), FOUND, classes=CLASSES)
    assert shown.to_pylist() == ["cat", None]
    assert (found.rows, found.hits) == (1, 1)
    minutes = pa.array([20, 3])
    shown, found = answers.compare_labels(minutes, Label(threshold=15), FOUND, classes=None)
    assert shown.to_pylist() == [1, 0]
    assert found.hits == 2


@pytest.mark.parametrize("labels", [[2.903, None], [None, None]])
def test_labels_that_are_numbers_keep_their_type(labels):
    """Also where a part of the rows has none, as all parts go to one table."""
    found = {"prediction": np.array([2.5, 3.0], np.float32)}
    labels = pa.array(labels, pa.float32())
    shown, _ = answers.compare_labels(labels, Label(), found, classes=None)
    assert shown.equals(labels)


@pytest.mark.parametrize(
    "found", [{"embedding": np.zeros((2, 4))}, {"prediction": np.zeros((2, 3))}]
)
def test_what_has_no_label_agrees_with_none(found):
    shown, agreement = answers.compare_labels(pa.array([1, 2]), Label(), found, classes=None)
    assert shown.null_count == 2
    assert agreement.rows == 0


def test_the_table_of_a_classifier_marks_what_is_wrong():
    found = pa.table(
        {
            "file": ["a/b.csv", "a/b.csv", "a/b.csv"],
            "row": [2, 3, 4],
            "label": ["cat", "dog", None],
            "prediction": ["cat", "cat", "cat"],
            "probability_cat": [0.75, 0.5, 0.625],
            "probability_dog": [0.25, 0.5, 0.375],
        }
    )
    assert answers.render(found, 5).splitlines() == [
        "    row  label  prediction  probability",
        "b.csv:2    cat         cat       0.7500",
        "b.csv:3    dog         cat       0.5000  wrong",
        "b.csv:4                cat       0.6250",
    ]
    assert len(answers.render(found, 1).splitlines()) == 2


NAN = float("nan")


def test_a_class_of_nan_probabilities_is_no_prediction():
    chances = np.array([[0.25, 0.75], [NAN, NAN]], np.float32)
    outputs = {"probabilities": chances, "class": np.array([1, 0])}
    table = pa.table(answers.build_columns(outputs, CLASSES)).to_pylist()
    assert table[0]["prediction"] == "cat"
    assert table[1] == {"prediction": None, "probability_dog": None, "probability_cat": None}
    labels = pa.array(["cat", "dog"])
    shown, agreement = answers.compare_labels(
        labels, Label(vocabulary=True), outputs, classes=CLASSES
    )
    assert shown.to_pylist() == ["cat", "dog"]
    assert (agreement.rows, agreement.hits) == (1, 1)
    places = {"file": ["a.csv"] * 2, "row": [2, 3], "label": ["cat", "dog"]}
    shown = pa.table({**places, **{name: [row[name] for row in table] for name in table[0]}})
    assert answers.render(shown, 5).splitlines()[2] == "a.csv:3    dog                         "


@pytest.mark.parametrize("number", [NAN, float("inf")])
def test_a_number_that_is_not_finite_is_no_prediction(number):
    outputs = {"prediction": np.array([1.5, number], np.float32)}
    assert answers.build_columns(outputs, None)["prediction"].to_pylist() == [1.5, None]
    _, agreement = answers.compare_labels(pa.array([1.0, 2.0]), Label(), outputs, classes=None)
    assert (agreement.rows, agreement.squares) == (1, 0.25)


def test_other_numbers_that_are_not_finite_are_null():
    """As `score` of two towers; also where the row has a prediction, which stays."""
    scores = np.array([NAN, 1, float("inf")], np.float32)
    for outputs in ({"score": scores}, {"score": scores, "class": np.array([1, 0, 1])}):
        columns = answers.build_columns(outputs, CLASSES)
        assert columns["score"].to_pylist() == [None, 1.0, None]
        undefined = answers.find_undefined(outputs)
        assert list(undefined) == ["score"]
        assert undefined["score"].tolist() == [True, False, True]
    assert columns["prediction"].to_pylist() == ["cat", "dog", "cat"]


def test_rows_without_a_prediction_are_told_from_those_without_another_number():
    chances = np.array([[0.25, 0.75], [0.5, 0.5], [NAN, NAN]], np.float32)
    spread = np.array([NAN, 1, NAN], np.float32)
    outputs = {"probabilities": chances, "class": np.array([1, 0, 0]), "spread": spread}
    undefined = answers.find_undefined(outputs)
    assert {name: rows.tolist() for name, rows in undefined.items()} == {
        "prediction": [False, False, True],
        "spread": [True, False, True],
    }


@pytest.mark.parametrize("number", [NAN, float("inf")])
def test_a_vector_that_is_not_finite_is_undefined_and_keeps_its_items(number):
    outputs = {
        "item": np.array([[1, 2], [number, 3], [4, 5]], np.float32),
        "text": np.array([b"a"] * 3, object),
    }
    undefined = answers.find_undefined(outputs)
    assert list(undefined) == ["item"]
    assert undefined["item"].tolist() == [False, True, False]
    items = answers.build_columns(outputs, None)["item"].to_pylist()
    assert (items[1][1], items[2]) == (3, [4, 5])


def test_labels_of_rows_without_a_prediction_are_known():
    outputs = {"prediction": np.array([NAN, NAN, NAN], np.float32)}
    labels = pa.array([1.0, None, 2.0])
    shown, agreement = answers.compare_labels(labels, Label(), outputs, classes=None)
    assert shown.to_pylist() == [1.0, None, 2.0]
    assert (agreement.known, agreement.rows) == (2, 0)
