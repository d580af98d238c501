"""IDX files, plain and gz, whole and broken in every way."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pyarrow as pa
import pytest

from pipeline import errors
from preprocessing import sources
from preprocessing.sources import base
from tests.preprocessing import idx_files

ROWS = 40


@pytest.fixture(params=[False, True], ids=["plain", "gz"])
def packed(request) -> bool:
    return request.param


@pytest.fixture
def inputs(tmp_path, packed):
    return {"train": idx_files.write_pair(tmp_path, "train", ROWS, packed=packed)}


def _read(inputs, sizes=base.SIZES, **data) -> list[base.Rows]:
    """Plans and reads the whole train split."""
    source = sources.choose(idx_files.make_config(inputs, **data).data, sizes)
    return [rows for chunk in source.plan("train") for rows in source.read(chunk)]


def _replace(path: str, change) -> None:
    """Changes the IDX content of a file that may be gz."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:2] == b"\x1f\x8b":
        content = idx_files.pack(change(gzip.decompress(content)))
    else:
        content = change(content)
    with open(path, "wb") as file:
        file.write(content)


def test_rows_are_those_of_the_files(inputs):
    (rows,) = _read(inputs)
    pixels = np.frombuffer(b"".join(rows.batch["image"].to_pylist()), np.uint8)
    np.testing.assert_array_equal(pixels.reshape(ROWS, 28, 28), idx_files.images(ROWS))
    assert rows.batch["label"].to_pylist() == idx_files.labels(ROWS).tolist()


def test_chunks_change_nothing(inputs):
    (whole,) = _read(inputs)
    parts = _read(inputs, base.Sizes(7 * 784, 14 * 784))
    assert [rows.batch.num_rows for rows in parts] == [7, 7, 7, 7, 7, 5]
    assert [rows.first_row for rows in parts] == [0, 7, 14, 21, 28, 35]
    assert pa.Table.from_batches([r.batch for r in parts]).equals(
        pa.Table.from_batches([whole.batch])
    )


def test_a_gz_file_is_one_chunk_and_a_plain_one_several(inputs, packed):
    sizes = base.Sizes(chunk=7 * 784)
    chunks = sources.choose(idx_files.make_config(inputs).data, sizes).plan("train")
    assert [chunk.rows for chunk in chunks] == ([ROWS] if packed else [7, 7, 7, 7, 7, 5])
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))


def test_plain_images_may_have_gz_labels(tmp_path):
    plain = idx_files.write_pair(tmp_path / "a", "train", ROWS)
    packed = idx_files.write_pair(tmp_path / "b", "train", ROWS, packed=True)
    (rows,) = _read({"train": {"images": plain["images"], "labels": packed["labels"]}})
    assert rows.batch["label"].to_pylist() == idx_files.labels(ROWS).tolist()


def test_several_gz_members_in_a_row_are_one_file(tmp_path):
    inputs = idx_files.write_pair(tmp_path, "train", ROWS)
    content = idx_files.idx_bytes(idx_files.images(ROWS))
    with open(inputs["images"], "wb") as file:
        file.write(idx_files.pack(content[:100]) + idx_files.pack(content[100:]))
    assert sum(rows.batch.num_rows for rows in _read({"train": inputs})) == ROWS


def test_columns_may_have_other_names_and_places(inputs):
    columns = {"digit": {"type": "int64"}, "pixels": {"type": "uint8", "shape": [28, 28]}}
    (rows,) = _read(inputs, columns=columns, label="digit")
    assert rows.batch.schema.names == ["digit", "pixels"]
    assert (rows.file("digit"), rows.find_number(3)) == (inputs["train"]["labels"], 3)


def test_files_are_named_without_folders(inputs):
    found = sources.choose(idx_files.make_config(inputs).data).files()
    assert [f.name for f in found] == ["train/images/train-images", "train/labels/train-labels"]
    assert [f.path for f in found] == list(inputs["train"].values())


@pytest.mark.parametrize("role", ["images", "labels"])
def test_truncated(inputs, role):
    path = inputs["train"][role]
    _replace(path, lambda content: content[:-5])
    with pytest.raises(errors.DataError, match=f"{path}': truncated: .*its header says"):
        _read(inputs)


@pytest.mark.parametrize("role", ["images", "labels"])
def test_bytes_too_many(inputs, role):
    path = inputs["train"][role]
    _replace(path, lambda content: content + b"xy")
    with pytest.raises(errors.DataError, match=rf"{path}': (2 )?bytes too many"):
        _read(inputs)


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\x89PNG", "89504e47"),
        (struct.pack(">HBB", 0, 0x0D, 3), "00000d03"),
        (struct.pack(">HBB", 0, 8, 1), "00000801"),
    ],
    ids=["png", "float32", "labels"],
)
def test_wrong_magic(inputs, head, found):
    _replace(inputs["train"]["images"], lambda content: head + content[4:])
    with pytest.raises(
        errors.DataError,
        match=rf"train-images': begins with {found}, must be 00000803 \(IDX of unsigned bytes "
        r"with 3 dimensions\)",
    ):
        _read(inputs)


def test_images_and_labels_swapped(inputs):
    files = inputs["train"]
    swapped = {"train": {"images": files["labels"], "labels": files["images"]}}
    with pytest.raises(errors.DataError, match="begins with 00000801, must be 00000803"):
        _read(swapped)


def test_counts_that_differ(inputs, packed):
    content = idx_files.idx_bytes(idx_files.labels(ROWS - 1))
    with open(inputs["train"]["labels"], "wb") as file:
        file.write(idx_files.pack(content) if packed else content)
    with pytest.raises(
        errors.DataError,
        match=r"train-images' has 40 images, '.*train-labels' has 39 labels; the counts must be",
    ):
        _read(inputs)


@pytest.mark.parametrize("role", ["images", "labels"])
def test_empty_file(inputs, role):
    open(inputs["train"][role], "wb").close()
    with pytest.raises(errors.DataError, match=f"train-{role}': no bytes; an IDX file has a head"):
        _read(inputs)


def test_header_alone(inputs):
    _replace(inputs["train"]["images"], lambda content: content[:9])
    with pytest.raises(errors.DataError, match="truncated in its header after 9 bytes"):
        _read(inputs)
    _replace(inputs["train"]["images"], lambda _: struct.pack(">HBBIII", 0, 8, 3, 0, 28, 28))
    with pytest.raises(errors.DataError, match="train-images': its header says 0 rows"):
        _read(inputs)


def test_missing_file(inputs):
    inputs["train"]["labels"] += "-absent"
    with pytest.raises(errors.DataError, match="train-labels-absent': no such file"):
        _read(inputs)


def test_a_folder_instead_of_a_file(inputs, tmp_path):
    inputs["train"]["labels"] = str(tmp_path)
    with pytest.raises(errors.DataError, match="cannot be read: Is a directory"):
        _read(inputs)


def test_images_of_another_size(inputs):
    columns = {"image": {"type": "uint8", "shape": [32, 32, 1]}, "label": {"type": "int64"}}
    with pytest.raises(
        errors.DataError, match="images of 28x28, column 'image' of the config has 32x32"
    ):
        _read(inputs, columns=columns)


def test_gz_cut_short(tmp_path):
    inputs = {"train": idx_files.write_pair(tmp_path, "train", ROWS, packed=True)}
    path = inputs["train"]["images"]
    with open(path, "r+b") as file:
        file.truncate(ROWS * 784 // 2)
    with pytest.raises(errors.DataError, match="truncated: the gz stream ends early"):
        _read(inputs)


@pytest.mark.parametrize("place", [1000, -6], ids=["data", "checksum"])
def test_gz_altered(tmp_path, place):
    inputs = {"train": idx_files.write_pair(tmp_path, "train", ROWS, packed=True)}
    path = inputs["train"]["images"]
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[place] ^= 0xFF
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(errors.DataError, match="train-images': corrupt gz: "):
        _read(inputs)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"columns": {"label": {"type": "int64"}}},
            "source idx gives one uint8 column of images and the label, the config has none",
        ),
        (
            {"columns": {"image": {"type": "float32"}, "label": {"type": "int64"}}},
            "gives one uint8 column",
        ),
        (
            {"columns": {"image": {"type": "uint8"}, "label": {"type": "float32"}}},
            r"data.columns.label: source idx gives one int64 a row",
        ),
    ],
)
def test_columns_it_cannot_give(inputs, data, message):
    with pytest.raises(errors.UsageError, match=message):
        _read(inputs, **data)


def test_roles_it_does_not_have():
    with pytest.raises(
        errors.UsageError,
        match=r"data\.inputs\.train: source idx takes images and labels, got images, lables",
    ):
        _read({"train": {"images": "x", "lables": "y"}})


def test_images_alone_where_the_label_is_no_column(inputs):
    (wanted,) = _read(inputs)
    data = idx_files.make_config(inputs).data
    images = {name: column for name, column in data.columns.items() if name != data.label}
    alone = {"train": {"images": inputs["train"]["images"]}}
    source = sources.choose(data.model_copy(update={"columns": images, "inputs": alone}))
    (found,) = (rows for chunk in source.plan("train") for rows in source.read(chunk))
    assert found.batch.schema.names == list(images)
    assert found.batch.column(0).equals(wanted.batch.column(0))
    assert [file.name for file in source.files()] == ["train/images/" + _base(alone)]
    with pytest.raises(errors.UsageError, match=r"inputs\.train: source idx takes images, got"):
        sources.choose(data.model_copy(update={"columns": images}))


def _base(inputs) -> str:
    return inputs["train"]["images"].rpartition("/")[2]
