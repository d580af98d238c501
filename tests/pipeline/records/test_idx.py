"""Whole IDX files. Headers and partial reads: tests/preprocessing/sources/test_idx.py."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from pipeline import errors
from pipeline.records import idx
from tests.preprocessing import idx_files

IMAGES = idx_files.images(7, shape=(5, 4))


@pytest.fixture(params=[False, True], ids=["plain", "gz"])
def packed(request):
    return request.param


@pytest.fixture
def read(tmp_path):
    """Returns the images of a file with some content, read whole."""

    def read(content: bytes) -> np.ndarray:
        path = tmp_path / "file"
        path.write_bytes(content)
        header = idx.read_header(str(path), dimensions=3)
        with idx.open_rows(header) as file:
            values = idx.take(file, header, header.rows)
            idx.check_end(file, header)
        return np.frombuffer(values, np.uint8).reshape(header.shape)

    return read


def _written(content: bytes, packed: bool) -> bytes:
    return idx_files.pack(content) if packed else content


def test_images_are_those_of_the_file(read, packed):
    found = read(_written(idx_files.idx_bytes(IMAGES), packed))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, IMAGES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: b"", "no bytes; an IDX file has a header"),
        (lambda c: c[:3], "3 bytes; an IDX file has a header"),
        (lambda c: c[:9], "truncated in its header after 9 bytes"),
        (lambda c: c[:-1], "truncated: .*its header says"),
        (lambda c: c + b"x", r"(1 )?bytes too many"),
        (lambda c: b"GIF8" + c[4:], r"begins with 47494638, must be 00000803 \(IDX of unsigned"),
        (lambda c: struct.pack(">HBBIII", 0, 8, 3, 0, 5, 4), "its header says 0 rows"),
        (lambda c: idx_files.idx_bytes(idx_files.labels(9)), "begins with 00000801, must be"),
    ],
    ids=["empty", "stub", "header", "short", "long", "gif", "no-rows", "labels"],
)
def test_what_is_wrong_is_reported(read, change, message, packed):
    with pytest.raises(errors.DataError, match=f"/file': {message}"):
        read(_written(change(idx_files.idx_bytes(IMAGES)), packed))


def test_gz_cut_short(read):
    content = idx_files.pack(idx_files.idx_bytes(IMAGES))
    with pytest.raises(errors.DataError, match="/file': truncated: the gz stream ends early"):
        read(content[:-12])


def test_gz_altered(read):
    content = bytearray(idx_files.pack(idx_files.idx_bytes(IMAGES)))
    content[-6] ^= 0xFF
    with pytest.raises(errors.DataError, match="/file': corrupt gz: "):
        read(bytes(content))


def test_a_part_of_the_images_is_read_from_any_row(tmp_path, packed):
    path = tmp_path / "images"
    path.write_bytes(_written(idx_files.idx_bytes(IMAGES), packed))
    header = idx.read_header(str(path), dimensions=3)
    assert (header.rows, header.row_bytes, header.compressed) == (7, 20, packed)
    with idx.open_rows(header, first=3) as file:
        values = idx.take(file, header, 4)
        idx.check_end(file, header)
    np.testing.assert_array_equal(np.frombuffer(values, np.uint8).reshape(4, 5, 4), IMAGES[3:])
