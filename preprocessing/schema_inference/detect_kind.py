"""Tells what a file is by its content, and of what no source reads what to do with it."""

from __future__ import annotations

import os
import zipfile

from pipeline import errors, storage
from pipeline.records import file_kinds
from pipeline.source_table import SOURCES
from preprocessing.schema_inference import detect_encoding
from preprocessing.sources import files
from preprocessing.sources.image_folder import ENDINGS

_UNPACKED = (file_kinds.GZIP, file_kinds.ZIP)
_OFFICE = "[Content_Types].xml"
# Bytes of text have this share of control characters at most, those that are white aside.
_CONTROL_SHARE = 0.05
_WHITE = b"\t\n\v\f\r\x1b"


def detect_kind(path: str) -> str:
    """Returns the source that reads a file, or `text`. Raises `DataError` saying what it is and
    what to do, if it is known and no source reads it, or if it is neither known nor text."""
    with files.translate_errors(path), storage.open_file(path) as raw:
        head = raw.read(file_kinds.HEAD_BYTES)
    kind = file_kinds.detect(head)
    if kind is not None and kind.family == "rows":
        return kind.name
    if kind is file_kinds.ZIP:
        _refuse_documents(path)
    if kind not in _UNPACKED:
        _refuse(kind, path)
    with files.open_unpacked(path) as stream:
        inside = stream.read(file_kinds.HEAD_BYTES)
    if kind in _UNPACKED:
        within = file_kinds.detect(inside)
        if within in _UNPACKED:
            raise errors.DataError(f"{path!r}: is packed twice; unpack it once first")
        if within is not None and within.family == "rows":
            if SOURCES[within.name].packed:
                return within.name
            raise errors.DataError(f"{path!r}: is {within.what}, packed; unpack it first")
        _refuse(within, path)
    if _is_binary(inside):
        called = (kind.called for kind in SOURCES.values())
        raise errors.DataError(
            f"{path!r}: is neither text nor a known kind of file (it begins with "
            f"{inside[:8]!r}). Sources read {', '.join(filter(None, called))} and folders of "
            "images; other data by data.source: package.module:Class, see docs/sources.md"
        )
    return "text"


def is_image_folder(path: str) -> bool:
    """Tells if `path` is a folder that has folders of images."""
    return any(name.lower().endswith(ENDINGS) for name in storage.glob(f"{path.rstrip('/')}/*/*"))


def is_idx(path: str) -> bool:
    """Tells if `path` is an IDX file, or a folder in which there are some."""
    names = [name for name in storage.listdir(path) if "idx" in name]
    if names:
        return any(detect_kind(storage.join(path, name)) == "idx" for name in names)
    if storage.listdir(path) or (not storage.is_remote(path) and os.path.isdir(path)):
        return False
    return storage.exists(path) and detect_kind(path) == "idx"


def _is_binary(head: bytes) -> bool:
    if file_kinds.detect_encoding(head):
        return False
    control = sum(byte < 32 and byte not in _WHITE for byte in head)
    return control > _CONTROL_SHARE * len(head) and not detect_encoding.detect_without_mark(head)


def _refuse(kind: file_kinds.FileKind | None, path: str) -> None:
    if kind is not None:
        raise errors.DataError(f"{path!r}: is {kind.what}; {kind.todo}")


def _refuse_documents(path: str) -> None:
    """Refuses those zips that are an Excel workbook, or NumPy's."""
    with files.translate_errors(path), storage.open_file(path) as raw:
        names = zipfile.ZipFile(raw).namelist()
    if _OFFICE in names:
        excel = any(name.startswith("xl/") for name in names)
        what = "an Excel workbook" if excel else "an Office document"
        raise errors.DataError(f"{path!r}: is {what}; save it as CSV first")
    if names and all(name.endswith(".npy") for name in names):
        raise errors.DataError(
            f"{path!r}: is an archive of NumPy arrays; save it as CSV or Parquet first"
        )
