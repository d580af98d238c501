"""Whole IDX files in memory. Headers and partial reads: tests/preprocessing/sources/test_idx.py."""

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


def _parse(content: bytes, packed: bool) -> np.ndarray:
    return idx.parse_images(idx_files.pack(content) if packed else content, "some/file")


def test_images_are_those_of_the_file(packed):
    found = _parse(idx_files.idx_bytes(IMAGES), packed)
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
def test_what_is_wrong_is_said(change, message, packed):
    with pytest.raises(errors.DataError, match=f"'some/file': {message}"):
        _parse(change(idx_files.idx_bytes(IMAGES)), packed)


def test_gz_cut_short():
    content = idx_files.pack(idx_files.idx_bytes(IMAGES))
    with pytest.raises(errors.DataError, match="'some/file': truncated: the gz stream ends early"):
        idx.parse_images(content[:-12], "some/file")


def test_gz_altered():
    content = bytearray(idx_files.pack(idx_files.idx_bytes(IMAGES)))
    content[-6] ^= 0xFF
    with pytest.raises(errors.DataError, match="'some/file': corrupt gz: "):
        idx.parse_images(bytes(content), "some/file")


def test_file_and_content_are_read_alike(tmp_path, packed):
    content = idx_files.idx_bytes(IMAGES)
    path = tmp_path / "images"
    path.write_bytes(idx_files.pack(content) if packed else content)
    header = idx.read_header(str(path), dimensions=3)
    assert (header.rows, header.row_bytes, header.compressed) == (7, 20, packed)
    with idx.opened(header, first=3) as file:
        values = idx.take(file, header, 4)
        idx.check_end(file, header)
    np.testing.assert_array_equal(
        np.frombuffer(values, np.uint8).reshape(4, 5, 4), _parse(content, packed)[3:]
    )
