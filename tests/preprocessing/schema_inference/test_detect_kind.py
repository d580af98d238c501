"""Files are told apart by their bytes, and what no source reads is named."""

from __future__ import annotations

import gzip
import io
import pickle
import sqlite3
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from pipeline import errors
from pipeline.records import tfrecord
from pipeline.source_table import SOURCES
from preprocessing.schema_inference import detect_kind
from tests.preprocessing import idx_files, pictures, raw_files

PARQUET = raw_files.content("parquet", [{"a": 1}])


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (tfrecord.frame(b"x"), "tfrecord"),
        (idx_files.idx_bytes(idx_files.labels(3)), "idx"),
        (b"a,b\n1,2\n", "text"),
        (b"a,b\n" + b"1,\0\n" * 2 + b"1,2\n" * 99, "text"),
        (b"", "text"),
        ("a,b\nä,1\n".encode("utf-16"), "text"),
    ],
)
def test_what_a_source_reads(tmp_path, content, kind, pack):
    (tmp_path / "x").write_bytes(pack(content))
    assert detect_kind.detect_kind(str(tmp_path / "x")) == kind


@pytest.mark.parametrize("kind", raw_files.WRITERS)
def test_tables(tmp_path, kind):
    (tmp_path / "x").write_bytes(raw_files.content(kind, [{"a": 1, "b": 2}]))
    found = detect_kind.detect_kind(str(tmp_path / "x"))
    assert found == ("text" if SOURCES[kind].text else kind)


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


def _saved(save) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pictures.encode_picture(0), "is a PNG image; source image_folder reads <folder>/<class>/"),
        (pictures.encode_picture(0, "JPEG"), "is a JPEG image; "),
        (_saved(lambda f: np.save(f, np.zeros(3))), "is a NumPy array; save it as CSV or Parquet"),
        (_saved(lambda f: np.savez(f, a=np.zeros(3))), "is an archive of NumPy arrays; "),
        (_saved(lambda f: feather.write_feather(pa.table({"a": [1]}), f)), "is an Arrow "),
        (_zip("[Content_Types].xml", "xl/a.xml"), "is an Excel workbook; save it as CSV first"),
        (_zip("[Content_Types].xml", "word/a"), "is an Office document; save it as CSV first"),
        (_tar(), "is a tar archive; unpack it first"),
        (gzip.compress(_tar()), "is a tar archive; unpack it first"),
        (pickle.dumps([1]), "is a Python pickle; "),
        (
            gzip.compress(PARQUET),
            "is Parquet, packed; unpack it first",
        ),
        (gzip.compress(gzip.compress(b"a\n")), "is packed twice; unpack it once first"),
        (
            b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n",
            "is an HTML page; save the table itself as CSV: a link may lead to a page about the "
            "file, or to a login",
        ),
        (b"<?xml version='1.0'?>\n<rows/>\n", "is an XML document; save it as CSV or Parquet"),
        (bytes(range(256)), "is neither text nor a known kind of file"),
    ],
)
def test_what_no_source_reads(tmp_path, content, message):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(errors.DataError, match=message):
        detect_kind.detect_kind(str(tmp_path / "x"))


def test_a_database(tmp_path):
    with sqlite3.connect(tmp_path / "x") as database:
        database.execute("create table t (a)")
    with pytest.raises(errors.DataError, match="is an SQLite database; export the table as CSV"):
        detect_kind.detect_kind(str(tmp_path / "x"))


def test_folders(tmp_path):
    pictures.write(tmp_path / "pictures", {"a": 1})
    idx_files.write_pair(tmp_path / "idx", "train-idx", 3)
    assert detect_kind.is_image_folder(str(tmp_path / "pictures"))
    assert not detect_kind.is_image_folder(str(tmp_path / "idx"))
    assert detect_kind.is_idx(str(tmp_path / "idx"))
    assert detect_kind.is_idx(str(tmp_path / "idx" / "train-idx-images"))
    assert not detect_kind.is_idx(str(tmp_path / "pictures"))
    assert not detect_kind.is_idx(str(tmp_path / "absent"))
