"""Tells what a file is by its first bytes, and of what no source reads what to do with it."""

from __future__ import annotations

import zipfile
from typing import Literal

from pipeline import errors, storage
from pipeline.records import tfrecord
from preprocessing.sources import files
from preprocessing.sources.image_folder import ENDINGS

Kind = Literal["parquet", "orc", "avro", "tfrecord", "idx", "text"]

_FOLDER = "source image_folder reads <folder>/<class>/<name>.png: name the folder"
_SAVE = "save it as CSV or Parquet first"
_PLAIN = "unpack it first; of packed files gz and zip are read"
# What files begin with -> what they are, and what to do.
_OTHERS = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image", _FOLDER),
    (b"\xff\xd8\xff", "a JPEG image", _FOLDER),
    (b"GIF8", "a GIF image", "source image_folder reads PNG and JPEG"),
    (b"ARROW1", "an Arrow (Feather) file", "save it as Parquet first"),
    (b"FEA1", "a Feather file of version 1", "save it as Parquet first"),
    (b"\x89HDF", "an HDF5 file", _SAVE),
    (b"\x93NUMPY", "a NumPy array", _SAVE),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV first"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word document", _SAVE),
    (b"%PDF", "a PDF document", "it holds no table that can be read"),
    (b"BZh", "packed by bzip2", _PLAIN),
    (b"\xfd7zXZ", "packed by xz", _PLAIN),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", _PLAIN),
    (b"7z\xbc\xaf", "packed by 7-Zip", _PLAIN),
    (b"Rar!", "packed by RAR", _PLAIN),
    (b"\x04\x22\x4d\x18", "packed by LZ4", _PLAIN),
    (b"\x7fELF", "a program", "it holds no rows"),
    (b"\x80\x02", "a Python pickle", _SAVE),
    (b"\x80\x03", "a Python pickle", _SAVE),
    (b"\x80\x04", "a Python pickle", _SAVE),
    (b"\x80\x05", "a Python pickle", _SAVE),
)
_TABLES: tuple[tuple[bytes, Kind], ...] = (
    (b"PAR1", "parquet"),
    (b"ORC", "orc"),
    (b"Obj\x01", "avro"),
)
_OFFICE = "[Content_Types].xml"
_TAR, _TAR_AT = b"ustar", 257
_HEAD = 4096
# Bytes of text have this share of control characters at most, those that are white aside.
_CONTROL_SHARE = 0.05
_WHITE = b"\t\n\v\f\r\x1b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def kind_of(path: str) -> Kind:
    """Returns what a file is. Raises `DataError` saying what it is and what to do, if it is known
    and no source reads it, or if it is neither known nor text."""
    with files.translated(path), storage.open_file(path) as raw:
        head = raw.read(_HEAD)
    for magic, table in _TABLES:
        if head.startswith(magic):
            return table
    if _is_records(head):
        return "tfrecord"
    if _is_idx(head):
        return "idx"
    if head.startswith(b"PK\x03\x04"):
        _refuse_documents(path)
    _refuse_known(head, path)
    with files.opened(path) as stream:
        inside = stream.read(_HEAD)
    if inside != head:
        if _is_records(inside):
            return "tfrecord"
        if _is_idx(inside):
            return "idx"
        if inside.startswith((b"\x1f\x8b", b"PK\x03\x04")):
            raise errors.DataError(f"{path!r}: is packed twice; unpack it once first")
        _refuse_known(inside, path)
    if _is_binary(inside):
        raise errors.DataError(
            f"{path!r}: is neither text nor a known kind of file (it begins with "
            f"{inside[:8]!r}). Sources read CSV, JSON lines, Parquet, ORC, Avro, TFRecord, IDX "
            "and folders of images; other data by data.source: package.module:Class, see "
            "docs/sources.md"
        )
    return "text"


def is_image_folder(path: str) -> bool:
    """Tells if `path` is a folder that has folders of images."""
    return any(name.lower().endswith(ENDINGS) for name in storage.glob(f"{path.rstrip('/')}/*/*"))


def is_idx(path: str) -> bool:
    """Tells if `path` is an IDX file, or a folder in which there are some."""
    names = [name for name in storage.listdir(path) if "idx" in name]
    if names:
        return any(kind_of(storage.join(path, name)) == "idx" for name in names)
    return storage.exists(path) and not storage.listdir(path) and kind_of(path) == "idx"


def _is_records(head: bytes) -> bool:
    try:
        return bool(head) and tfrecord.length_in(head[: tfrecord.HEADER_BYTES]) >= 0
    except tfrecord.Broken:
        return False


def _is_idx(head: bytes) -> bool:
    return head[:3] == b"\0\0\x08" and head[3:4] in (b"\1", b"\2", b"\3", b"\4")


def _is_binary(head: bytes) -> bool:
    if head.startswith(_UTF_16):
        return False
    control = sum(byte < 32 and byte not in _WHITE for byte in head)
    return control > _CONTROL_SHARE * len(head)


def _refuse_known(head: bytes, path: str) -> None:
    found = next(((what, todo) for magic, what, todo in _OTHERS if head.startswith(magic)), None)
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        found = "a tar archive", _PLAIN
    if found:
        raise errors.DataError(f"{path!r}: is {found[0]}; {found[1]}")


def _refuse_documents(path: str) -> None:
    """Refuses those zips that are an Excel workbook, or NumPy's."""
    with files.translated(path), storage.open_file(path) as raw:
        names = zipfile.ZipFile(raw).namelist()
    if _OFFICE in names:
        excel = any(name.startswith("xl/") for name in names)
        what = "an Excel workbook" if excel else "an Office document"
        raise errors.DataError(f"{path!r}: is {what}; save it as CSV first")
    if names and all(name.endswith(".npy") for name in names):
        raise errors.DataError(f"{path!r}: is an archive of NumPy arrays; {_SAVE}")
