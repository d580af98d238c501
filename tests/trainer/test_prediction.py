"""Predictions of an exported model on the test split and on files of people's own."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from PIL import Image

from pipeline import errors
from tests.preprocessing import idx_files
from trainer import prediction


@pytest.fixture
def digits(small_records):
    return small_records.images["test"]


def _png(path, pixels, mode="L"):
    Image.fromarray(pixels).convert(mode).save(path)
    return str(path)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
def test_a_png_is_the_image_it_shows(small_records, digits, tmp_path, mode):
    path = _png(tmp_path / "digit.png", digits[3], mode)
    examples = prediction.from_file(path, small_records.job)
    assert len(examples) == 1
    assert examples.labels is None
    assert examples.features["image"][0] == digits[3].tobytes()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_an_idx_file_is_all_its_images(small_records, digits, tmp_path, packed):
    content = idx_files.idx_bytes(digits[:7])
    (tmp_path / "images").write_bytes(gzip.compress(content) if packed else content)
    examples = prediction.from_file(str(tmp_path / "images"), small_records.job)
    assert examples.features["image"].tolist() == [digit.tobytes() for digit in digits[:7]]


@pytest.mark.parametrize("shape", [(28, 29), (14, 56), (56, 14), (1, 784)])
def test_an_image_of_another_size_is_refused(small_records, tmp_path, shape):
    """Of as many pixels too: it is another image."""
    path = _png(tmp_path / "digit.png", np.zeros(shape, np.uint8))
    with pytest.raises(
        errors.DataError,
        match=rf"digit.png': images of {shape[0]}x{shape[1]}, the model takes 28x28$",
    ):
        prediction.from_file(path, small_records.job)
    (tmp_path / "idx").write_bytes(idx_files.idx_bytes(np.zeros((2, *shape), np.uint8)))
    with pytest.raises(errors.DataError, match=rf"idx': images of {shape[0]}x{shape[1]}, the"):
        prediction.from_file(str(tmp_path / "idx"), small_records.job)


def test_a_flat_row_of_pixels_takes_images_of_as_many(small_records, digits, tmp_path):
    job = small_records.config("data.columns.image.shape=[784]")
    path = _png(tmp_path / "digit.png", digits[3])
    assert prediction.from_file(path, job).features["image"][0] == digits[3].tobytes()


def test_what_is_neither_is_refused(small_records, tmp_path):
    (tmp_path / "digit.jpg").write_bytes(b"\xff\xd8\xff\xe0 and so on")
    with pytest.raises(errors.DataError, match=r"digit\.jpg': begins with ffd8ffe0, must be 00"):
        prediction.from_file(str(tmp_path / "digit.jpg"), small_records.job)


def test_a_png_cut_short_is_refused(small_records, digits, tmp_path):
    path = _png(tmp_path / "digit.png", digits[0])
    content = (tmp_path / "digit.png").read_bytes()
    for size in (12, len(content) // 2):
        (tmp_path / "digit.png").write_bytes(content[:size])
        with pytest.raises(errors.DataError, match=r"digit\.png': not a PNG that can be read"):
            prediction.from_file(path, small_records.job)


def test_a_job_without_a_single_image_takes_no_file(small_records, tmp_path):
    job = small_records.config("data.columns.size={type: float32}")
    path = _png(tmp_path / "digit.png", np.zeros((28, 28), np.uint8))
    with pytest.raises(errors.UsageError, match="--input: 'small' does not take a single image"):
        prediction.from_file(path, job)


def test_the_split_is_read_as_it_is_stored(small_records):
    examples = prediction.from_split("test", small_records.job, small_records.folder)
    assert len(examples) == 500
    raw = {
        image.tobytes(): label
        for image, label in zip(
            small_records.images["test"], small_records.labels["test"], strict=True
        )
    }
    assert [raw[image] for image in examples.features["image"]] == examples.labels.tolist()


def test_batches_change_nothing(finished, small_records, monkeypatch):
    examples = prediction.from_split("test", small_records.job, small_records.folder)
    export = finished.result["exports"]["final"]
    whole = prediction.predict(export, examples)
    assert whole.classes.shape == (500,)
    np.testing.assert_allclose(whole.probabilities.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(whole.classes, whole.probabilities.argmax(axis=1))
    accuracy = finished.result["metrics"]["test"]["accuracy"]
    assert np.mean(whole.classes == examples.labels) == pytest.approx(accuracy)
    monkeypatch.setattr(prediction, "_BATCH", 64)
    parts = prediction.predict(export, examples)
    np.testing.assert_array_equal(parts.classes, whole.classes)
    np.testing.assert_allclose(parts.probabilities, whole.probabilities, atol=1e-6)


PREDICTIONS = prediction.Predictions(np.array([1, 0]), np.array([[0.25, 0.75], [0.5, 0.5]]))


def test_the_table_marks_what_is_wrong():
    examples = prediction.Examples({"x": np.zeros(2)}, np.array([1, 1]))
    assert prediction.table(PREDICTIONS, examples, 5).splitlines() == [
        "accuracy 0.5000 on 2 examples",
        " example  class  probability label",
        "       0      1       0.7500     1",
        "       1      0       0.5000     1  wrong",
    ]


def test_without_labels_there_is_no_accuracy():
    examples = prediction.Examples({"x": np.zeros(2)}, None)
    assert prediction.table(PREDICTIONS, examples, 1).splitlines() == [
        " example  class  probability",
        "       0      1       0.7500",
    ]
