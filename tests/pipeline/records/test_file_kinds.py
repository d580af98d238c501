"""Files are told apart by their first bytes, in one place."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.records import file_kinds, tfrecord
from tests.preprocessing import raw_files

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE = pa.table({"a": [1]})


def _saved(save) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def _picture(kind: str) -> bytes:
    return _saved(lambda file: Image.new("RGB", (4, 4)).save(file, kind))


def _zip(file) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "x")


def _tar(file) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"))


def _lz4() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(b"a")
    return sink.getvalue().to_pybytes()


WRITTEN = {
    "tfrecord": lambda: tfrecord.frame(b"x"),
    "idx": lambda: struct.pack(">HBBI", 0, 8, 1, 3) + bytes(3),
    "png": lambda: _picture("PNG"),
    "jpeg": lambda: _picture("JPEG"),
    "gif": lambda: _picture("GIF"),
    "webp": lambda: _picture("WEBP"),
    "tiff": lambda: _picture("TIFF"),
    "arrow": lambda: _saved(lambda file: feather.write_feather(TABLE, file)),
    "feather": lambda: _saved(lambda file: feather.write_feather(TABLE, file, version=1)),
    "numpy": lambda: _saved(lambda file: np.save(file, np.zeros(3))),
    "gzip": lambda: gzip.compress(b"a"),
    "zip": lambda: _saved(_zip),
    "bzip2": lambda: bz2.compress(b"a"),
    "xz": lambda: lzma.compress(b"a"),
    "zstd": lambda: pa.compress(b"a", "zstd", asbytes=True),
    "LZ4": _lz4,
    "tar": lambda: _saved(_tar),
    "html": lambda: b"\n<!DOCTYPE html>\n<html>\n",
    "xml": lambda: b'<?xml version="1.0"?>\n<rows/>\n',
}


@pytest.mark.parametrize("name", {**file_kinds.ROWS, **WRITTEN})
def test_what_libraries_write_is_recognised(name):
    content = WRITTEN[name]() if name in WRITTEN else raw_files.content(name, [{"a": 1}])
    kind = file_kinds.detect(content[: file_kinds.HEAD_BYTES])
    assert kind is not None and kind.name == name
    assert bool(kind.todo) == (kind.family != "rows" and name not in ("gzip", "zip"))


def test_each_kind_is_listed_once():
    """A row for what a source reads by now would never be reached."""
    names = [kind.name for _, kind in file_kinds.KINDS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        b"ORCID,name\n0000-0001,Smith\n",
        "ORCID,Städte\n1,Köln\n".encode("cp1252"),
        b"PAR1,PAR2\n3,4\n",
        b"FEA1,FEA2\n3,4\n",
        b"ARROW1,ARROW2\n3,4\n",
        b"BZh,b\n1,2\n",
        b"Rar!,b\n1,2\n",
        b"<html,<head\n1,2\n",
        b"a,<html>\n1,2\n",
        "xÚ,b\n1,2\n".encode("latin-1"),
        "a,ä\n".encode("utf-16"),
        bytes(range(256)),
    ],
)
def test_words_that_begin_a_table_are_text(content):
    assert file_kinds.detect(content) is None


@pytest.mark.parametrize(
    "content",
    [
        b"<!doctype HTML>",
        b'\xef\xbb\xbf \r\n<html lang="en">',
        b"<!-- saved from elsewhere -->\n<HTML>",
        b"<head><title>404</title></head>",
    ],
)
def test_web_pages_are_known_by_their_first_tag(content):
    kind = file_kinds.detect(content)
    assert kind is not None and kind.name == "html"


def test_a_record_whose_length_looks_like_another_kind_is_a_record():
    (length,) = struct.unpack("<Q", b"\x1f\x8b" + bytes(6))
    assert file_kinds.detect(tfrecord.header(length)) is file_kinds.TFRECORD
    assert file_kinds.compression(tfrecord.header(length)) is None


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (gzip.compress(b"a"), "gzip"),
        (zlib.compress(b"a"), "zlib"),
        (zlib.compress(b"a", 9), "zlib"),
        (zlib.compress(b"a", 1), "zlib"),
        (bz2.compress(b"a"), "bzip2"),
        (b"xa", None),
        (_picture("PNG"), None),
        (b"", None),
    ],
)
def test_compression(head, name):
    assert file_kinds.compression(head[: tfrecord.HEADER_BYTES]) == name


@pytest.mark.parametrize(("kind", "found"), [("PNG", True), ("JPEG", True), ("GIF", False)])
def test_pictures_are_what_the_trainer_decodes(kind, found):
    assert file_kinds.is_picture(_picture(kind)) is found


@given(st.binary(max_size=600))
def test_any_bytes_have_a_kind_or_none(head):
    kind = file_kinds.detect(head)
    assert kind is None or kind.what


def test_no_other_module_knows_first_bytes():
    """A mark that is written down twice is changed once."""
    marks = (r"PAR1", r"Obj\\[x01]", r"x1f\\x8b", r"PK\\", r"BZh", r"7zXZ", r"x89PNG", r"xff\\xd8")
    pattern = re.compile(rf"""b["'].*({"|".join(marks)})""")
    knowing = [
        str(path.relative_to(ROOT))
        for package in ("pipeline", "preprocessing", "serving", "trainer")
        for path in sorted((ROOT / package).rglob("*.py"))
        if pattern.search(path.read_text())
    ]
    assert knowing == ["pipeline/records/file_kinds.py", "pipeline/source_table.py"]


def test_nothing_heavy_is_imported():
    heavy = "{'numpy', 'pyarrow', 'PIL', 'tensorflow', 'apache_beam'}"
    code = f"import sys, pipeline.records.file_kinds; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
