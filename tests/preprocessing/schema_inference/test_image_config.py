"""Configs for folders of images and for IDX files, which preprocess takes as they are."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from PIL import Image

from pipeline import config, errors
from pipeline.config import config_file
from preprocessing.build import job
from preprocessing.schema_inference import write_config
from tests.preprocessing import idx_files, pictures


def _proposed(data: pathlib.Path, out: pathlib.Path, **chosen: str) -> config.Config:
    found = write_config.propose(str(data), str(out), **chosen)
    write_config.write(str(out), found.text)
    return config_file.load(str(out))


def _records(made: config.Config, root: pathlib.Path) -> dict[str, int]:
    splits = job.run(made, str(root)).splits
    return {name: split.records for name, split in splits.items()}


def test_a_folder_of_classes(tmp_path):
    pictures.write(tmp_path / "raw, all", {"cat": 30, "dog: big": 20})
    made = _proposed(tmp_path / "raw, all", tmp_path / "made.yaml")
    assert (made.data.source, made.model.params["classes"]) == ("image_folder", 2)
    assert sum(_records(made, tmp_path).values()) == 50
    assert made.data.columns["label"].allowed == ("cat", "dog: big"), "train may lack one"
    text = (tmp_path / "made.yaml").read_text()
    assert "# 2 different: 'cat' 30, 'dog: big' 20" in text and "50 images of 2 classes" in text


def test_files_that_are_not_images_are_reported_and_not_allowed(tmp_path):
    """As file managers leave them; hidden ones are not read."""
    pictures.write(tmp_path / "raw", {"a\nb": 30, "c": 20})
    (tmp_path / "raw" / "c" / "Thumbs.db").write_text("x")
    (tmp_path / "raw" / "c" / ".hidden").write_text("x")
    made = _proposed(tmp_path / "raw", tmp_path / "made.yaml")
    assert made.data.error_budget == 0
    found = write_config.propose(str(tmp_path / "raw"), str(tmp_path / "again.yaml"))
    assert found.damage == "1 of 51 files are not images"
    assert "  # error_budget: 1  # 1 of 51 files are not images" in found.text
    (tmp_path / "raw" / "c" / "Thumbs.db").unlink()
    assert made.data.columns["label"].allowed == ("a\nb", "c")
    assert sum(_records(made, tmp_path).values()) == 50


@pytest.mark.parametrize("whole_folder", [True, False])
@pytest.mark.parametrize(("shape", "model"), [((28, 28), "mnist_cnn"), ((8, 9), "keras")])
def test_idx_files(tmp_path, shape, model, whole_folder):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "README.md").write_text("what it is")
    for split, rows in (("train", 60), ("t10k", 20)):
        images = idx_files.images(rows, shape=shape)
        (raw / f"{split}-images-idx3").write_bytes(idx_files.idx_bytes(images))
        labels = idx_files.pack(idx_files.idx_bytes(np.arange(rows) % 4))
        (raw / f"{split}-labels-idx1.gz").write_bytes(labels)
    data = raw if whole_folder else raw / "train-images-idx3"
    made = _proposed(data, tmp_path / "made.yaml")
    assert made.model.name == model and made.model.params["classes"] == 4
    assert made.data.columns["label"].max == 3
    counts = _records(made, tmp_path)
    assert counts["test"] == 20 and counts["train"] + counts["eval"] == 60 and counts["eval"]


def test_what_cannot_be_used(tmp_path):
    pictures.write(tmp_path / "one", {"cat": 3})
    with pytest.raises(errors.DataError, match="one class, 'cat'; two are needed"):
        _proposed(tmp_path / "one", tmp_path / "x.yaml")
    (tmp_path / "images-idx3").write_bytes(idx_files.idx_bytes(idx_files.images(3)))
    with pytest.raises(errors.DataError, match="no pair of IDX files, images and labels"):
        _proposed(tmp_path / "images-idx3", tmp_path / "x.yaml")
    (tmp_path / "labels-idx1").write_bytes(idx_files.idx_bytes(np.arange(2)))
    unlike = r"images-idx3': has 3 images, but '.*labels-idx1' has 2 labels; there must be one for"
    with pytest.raises(errors.DataError, match=unlike):
        _proposed(tmp_path / "images-idx3", tmp_path / "x.yaml")
    pictures.write(tmp_path / "two", {"cat": 3, "dog": 3})
    with pytest.raises(errors.UsageError, match="LABEL=kind: images have one label, 'label'"):
        _proposed(tmp_path / "two", tmp_path / "x.yaml", label="kind")


def test_a_network_sees_what_the_config_says(tmp_path):
    """Pictures of any size are brought to the one that the network takes."""
    for name, size in (("a", (20, 30)), ("b", (9, 9))):
        (tmp_path / "raw" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", size).save(tmp_path / "raw" / name / f"{number}.png")
    made = _proposed(tmp_path / "raw", tmp_path / "made.yaml")
    decode = made.features["image"].steps[0]
    height, width, _ = made.model.params["arguments"]["input_shape"]
    assert (decode.height, decode.width) == (height, width)
