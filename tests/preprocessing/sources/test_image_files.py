"""Image files as rows, for models of image bytes and of pixels."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from pipeline import errors
from preprocessing.sources import image_files
from tests.preprocessing.tables import make_config

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)


def _source(folder, names, **columns):
    data = make_config("unused", columns={**columns, "label": {"type": "string"}}).data
    kept = {n: c for n, c in data.columns.items() if n != "label" or "label" in columns}
    inputs = {"test": {f"{n:06d}": f"{folder}/{name}" for n, name in enumerate(names)}}
    return image_files.PicturesSource(data.model_copy(update={"columns": kept, "inputs": inputs}))


def _rows(source):
    return [rows for chunk in source.plan("test") for rows in source.read(chunk)]


def _save(path, pixels=PIXELS, mode="RGB"):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).convert(mode).save(path)


def test_bytes_as_they_are_each_under_its_own_name(tmp_path):
    _save(tmp_path / "a.png")
    (tmp_path / "b.jpg").write_bytes(b"no image")
    [rows] = _rows(_source(tmp_path, ["a.png", "b.jpg"], image={"type": "image"}))
    # Whether they can be decoded is a rule of the column.
    assert rows.batch.column("image").to_pylist() == [
        (tmp_path / "a.png").read_bytes(),
        b"no image",
    ]
    assert [rows.file("image", n) for n in (0, 1)] == [f"{tmp_path}/a.png", f"{tmp_path}/b.jpg"]
    assert rows.find_number(1) == 1
    assert not rows.letters


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_pixels_in_the_channels_of_the_column(tmp_path, mode):
    _save(tmp_path / "a.png", mode=mode)
    image = {"type": "uint8", "shape": [4, 6, 3]}
    [rows] = _rows(_source(tmp_path, ["a.png"], image=image))
    wanted = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert rows.batch.column("image").to_pylist() == [wanted.tobytes()]
    grey = {"type": "uint8", "shape": [4, 6]}
    [rows] = _rows(_source(tmp_path, ["a.png"], image=grey))
    assert len(rows.batch.column("image")[0].as_py()) == 24


def test_other_sizes_and_damaged_files_are_letters(tmp_path):
    _save(tmp_path / "a.png")
    _save(tmp_path / "b.png", PIXELS[:, :3])
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "c.png").write_bytes(content[: len(content) // 2])
    image = {"type": "uint8", "shape": [4, 6, 3]}
    [rows] = _rows(_source(tmp_path, ["a.png", "b.png", "c.png"], image=image))
    assert len(rows.batch) == 1
    assert [(letter.file, letter.problem) for letter in rows.letters] == [
        (f"{tmp_path}/b.png", "is an image of 4x3, the model takes 4x6"),
        (f"{tmp_path}/c.png", "is not an image: image file is truncated"),
    ]


def test_a_folder_is_the_label_where_that_is_wanted(tmp_path):
    _save(tmp_path / "cat" / "a.png")
    source = _source(tmp_path, ["cat/a.png"], image={"type": "image"}, label={"type": "string"})
    [rows] = _rows(source)
    assert rows.batch.column("label").to_pylist() == ["cat"]


def test_many_files_are_several_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "CHUNK_FILES", 2)
    for name in "abc":
        _save(tmp_path / f"{name}.png")
    source = _source(tmp_path, ["a.png", "b.png", "c.png"], image={"type": "image"})
    assert [chunk.rows for chunk in source.plan("test")] == [2, 1]
    assert [len(rows.batch) for rows in _rows(source)] == [2, 1]


def test_a_file_that_has_gone_is_a_line(tmp_path):
    source = _source(tmp_path, ["gone.png"], image={"type": "image"})
    with pytest.raises(errors.DataError, match=r"gone\.png': no such file"):
        _rows(source)


@pytest.mark.parametrize(
    "columns", [{"x": {"type": "int64"}}, {"a": {"type": "image"}, "b": {"type": "image"}}]
)
def test_a_model_of_anything_else_is_refused(tmp_path, columns):
    with pytest.raises(errors.UsageError, match="takes one column of type image or uint8; this"):
        _source(tmp_path, [], **columns)
