"""Folders of images: classes, order, dead letters, and records the trainer decodes."""

from __future__ import annotations

import pathlib
import shutil

import pytest
import tensorflow as tf

from pipeline import errors
from preprocessing.sources import base, image_folder
from tests.preprocessing import pictures, table_runs


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    pictures.write(tmp_path / "raw", {"cat": 30, "dog": 20})
    return tmp_path / "raw"


def test_every_image_is_a_record_with_its_class_and_bytes(folder, tmp_path):
    (folder / "cat" / ".hidden").write_text("no image")
    job_config = pictures.make_config(folder)
    made, records, said = table_runs.run(job_config, tmp_path)
    rows = [
        r for split in made.splits for r in table_runs.records(job_config, made, records, split)
    ]
    assert "reading 50 records of train" in said and len(rows) == 50
    for row in rows:
        path = folder / row["path"].decode()
        assert row["image"] == path.read_bytes()
        assert row["label"].decode() == path.parent.name
        assert tf.io.decode_image(row["image"]).shape == (6, 5, 3)
    found = made.statistics["train"].columns
    assert [value for value, _ in found["label"].vocabulary] == ["cat", "dog"]
    assert found["image"].count == made.splits["train"].records


def test_an_unreadable_image_becomes_a_dead_letter_with_its_file(folder, tmp_path):
    (folder / "cat" / "001.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    (folder / "dog" / "note.txt").write_text("two words")
    job_config = pictures.make_config(folder, error_budget=2)
    made, records, said = table_runs.run(job_config, tmp_path)
    assert "2 x image image" in said
    assert sum(split.records for split in made.splits.values()) == 49
    first, second = table_runs.letters(records)
    assert (first["column"], first["reason"]) == ("image", "image")
    assert first["file"].endswith("cat/001.png") and second["file"].endswith("dog/note.txt")
    assert first["value"].startswith("10 bytes (")


def test_without_an_error_budget_the_error_names_the_file(folder, tmp_path):
    (folder / "dog" / "000.jpg").write_bytes(b"x")
    with pytest.raises(
        errors.DataError,
        match=r"dog/000.jpg': row 1: column 'image' is 1 bytes \(cannot identify image file\), no ",
    ):
        table_runs.run(pictures.make_config(folder), tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_records_do_not_depend_on_chunks_and_workers(folder, tmp_path, monkeypatch, workers):
    job_config = pictures.make_config(folder)
    _, records, _ = table_runs.run(job_config, tmp_path / "whole")
    whole = table_runs.files(records)
    monkeypatch.setattr(image_folder, "CHUNK_FILES", 7)
    shutil.copytree(folder, tmp_path / "elsewhere")
    moved = pictures.make_config(tmp_path / "elsewhere")
    _, records, _ = table_runs.run(
        moved, tmp_path / "cut", num_workers=workers, sizes=base.Sizes(read=300)
    )
    assert table_runs.files(records) == whole


def test_stray_images_and_missing_folders_are_refused(folder, tmp_path):
    shutil.copy(folder / "cat" / "001.png", folder / "stray.png")
    with pytest.raises(errors.DataError, match=r"stray.png': is in no class; images lie in "):
        table_runs.run(pictures.make_config(folder), tmp_path)
    with pytest.raises(errors.DataError, match=r"absent': no images; they are looked for in <c"):
        table_runs.run(pictures.make_config(folder / "absent"), tmp_path)


@pytest.mark.parametrize(
    "columns",
    [
        {"label": {"type": "string"}},
        {"image": {"type": "image"}, "label": {"type": "int64"}},
        {"image": {"type": "image"}, "more": {"type": "image"}, "label": {"type": "string"}},
        {**pictures.COLUMNS, "width": {"type": "int64"}},
    ],
)
def test_columns_other_than_image_and_class_are_refused(tmp_path, columns):
    job_config = pictures.make_config(tmp_path, columns=columns)
    with pytest.raises(errors.UsageError, match="image_folder gives one column of type image"):
        image_folder.ImageFolderSource(job_config.data)
