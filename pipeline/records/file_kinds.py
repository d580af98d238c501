"""Which kind of file begins with which bytes.

The marks of files that a source reads are in `pipeline.source_table`, all others here. Names
of files do not count. TFRecord has no such bytes, but a checksum of its first length, which says
more than two or three bytes do: it is looked at first, as a length may look like the mark of
another kind.
"""

from __future__ import annotations

import codecs
import dataclasses
import re
from typing import Literal

from pipeline.records import tfrecord
from pipeline.source_table import SOURCES

# Bytes of a file that say its kind.
HEAD_BYTES = 4096
PNG_MARK = b"\x89PNG\r\n\x1a\n"

# `rows` are kinds that a source of the same name reads, `picture` those that it decodes.
Family = Literal["rows", "picture", "packed", "other"]


@dataclasses.dataclass(frozen=True)
class FileKind:
    """A kind of file. `what` completes "is …"; `todo` says how to get at its rows, and is empty if
    a source reads it as it is."""

    name: str
    family: Family
    what: str
    todo: str = ""


_FOLDER = "source image_folder reads <folder>/<class>/<name>.png: name the folder"
_PICTURES = "source image_folder reads PNG and JPEG"
_SAVE = "save it as CSV or Parquet first"
_AS_PARQUET = "save it as Parquet first"
_NO_TABLE = "it holds no table that can be read"
_PAGE = "save the table itself as CSV: a link may lead to a page about the file, or to a login"
_PLAIN = "unpack it first; of packed files gz and zip are read"

# Those that a source reads, by its name.
ROWS = {name: FileKind(name, "rows", kind.called) for name, kind in SOURCES.items() if kind.binary}
TFRECORD = ROWS["tfrecord"]
GZIP = FileKind("gzip", "packed", "packed by gzip")
ZIP = FileKind("zip", "packed", "a zip archive")
_ZLIB = FileKind("zlib", "packed", "packed by zlib", _PLAIN)

# Behind a mark that is a word, which may begin a table of text, too: other bytes than text follow.
_NO_TEXT = rb"(?=.*[\0-\x08\x0e-\x1a\x1c-\x1f])"
# Patterns of first bytes and what they are the mark of.
KINDS = tuple(
    (re.compile(mark + (_NO_TEXT if mark.isalnum() else b""), re.DOTALL), kind)
    for mark, kind in (
        *((SOURCES[name].mark, kind) for name, kind in ROWS.items() if SOURCES[name].mark),
        (re.escape(PNG_MARK), FileKind("png", "picture", "a PNG image", _FOLDER)),
        (rb"\xff\xd8\xff", FileKind("jpeg", "picture", "a JPEG image", _FOLDER)),
        (rb"GIF8[79]a", FileKind("gif", "other", "a GIF image", _PICTURES)),
        (rb"RIFF....WEBP", FileKind("webp", "other", "a WebP image", _PICTURES)),
        (rb"II\*\0|MM\0\*", FileKind("tiff", "other", "a TIFF image", _PICTURES)),
        (rb"\x1f\x8b", GZIP),
        (rb"PK\x03\x04", ZIP),
        (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", FileKind("bzip2", "packed", "packed by bzip2", _PLAIN)),
        (rb"\xfd7zXZ\0", FileKind("xz", "packed", "packed by xz", _PLAIN)),
        (rb"\x28\xb5\x2f\xfd", FileKind("zstd", "packed", "packed by zstd", _PLAIN)),
        (rb"7z\xbc\xaf", FileKind("7-Zip", "packed", "packed by 7-Zip", _PLAIN)),
        (rb"Rar!\x1a\x07", FileKind("RAR", "packed", "packed by RAR", _PLAIN)),
        (rb"\x04\x22\x4d\x18", FileKind("LZ4", "packed", "packed by LZ4", _PLAIN)),
        (rb".{257}ustar", FileKind("tar", "packed", "a tar archive", _PLAIN)),
        (rb"ARROW1\0\0", FileKind("arrow", "other", "an Arrow (Feather) file", _AS_PARQUET)),
        (rb"FEA1", FileKind("feather", "other", "a Feather file of version 1", _AS_PARQUET)),
        (rb"\x89HDF", FileKind("hdf5", "other", "an HDF5 file", _SAVE)),
        (rb"\x93NUMPY", FileKind("numpy", "other", "a NumPy array", _SAVE)),
        (rb"\x80[\x02-\x05]", FileKind("pickle", "other", "a Python pickle", _SAVE)),
        (rb"\xd0\xcf\x11\xe0", FileKind("ole", "other", "an old Excel or Word document", _SAVE)),
        (
            rb"SQLite format 3\0",
            FileKind("sqlite", "other", "an SQLite database", "export the table as CSV first"),
        ),
        (
            rb"%PDF-",
            FileKind("pdf", "other", "a PDF document", _NO_TABLE),
        ),
        (
            rb"(?i:(\xef\xbb\xbf)?\s*(<!--.*?-->\s*)?<(!doctype\s+html\b|(html|head|body)[\s>]))",
            FileKind("html", "other", "an HTML page", _PAGE),
        ),
        (rb"(\xef\xbb\xbf)?\s*<\?xml\b", FileKind("xml", "other", "an XML document", _SAVE)),
        (rb"\x7fELF", FileKind("program", "other", "a program", "it holds no rows")),
    )
)

# A mark of UTF-16 may begin one of UTF-32, and is looked for behind it.
_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)


def detect_encoding(head: bytes) -> str | None:
    """Returns the encoding of text that begins with a byte order mark, by Python's name."""
    return next((name for mark, name in _ENCODINGS if head.startswith(mark)), None)


def detect(head: bytes) -> FileKind | None:
    """Returns the kind of a file that begins with `head`, of which `HEAD_BYTES` are enough; `None`
    for text and for what is not known."""
    if _begins_a_record(head):
        return TFRECORD
    return next((kind for mark, kind in KINDS if mark.match(head)), None)


def is_picture(content: bytes) -> bool:
    """Tells if bytes are those of a picture that the trainer decodes, as far as their first say."""
    kind = detect(content[:HEAD_BYTES])
    return kind is not None and kind.family == "picture"


def compression(head: bytes) -> str | None:
    """Returns what a file of records is compressed with, if it begins with `head`."""
    kind = detect(head)
    # Its first byte is "x", the second any of four: of a file of text this would say nothing.
    if kind is None and re.match(rb"x[\x01\x5e\x9c\xda]", head):
        kind = _ZLIB
    return kind.name if kind is not None and kind.family == "packed" else None


def _begins_a_record(head: bytes) -> bool:
    try:
        tfrecord.length_in(head[: tfrecord.HEADER_BYTES])
    except tfrecord.CorruptRecord:
        return False
    return True
