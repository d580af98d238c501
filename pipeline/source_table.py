"""The kinds of raw data, by the names that `data.source` has: one row has all that tells one from
the others, but for how it is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceKind:
    """What is known of a kind of raw data without reading it.

    `reader` is its `module:Class`, imported only when chosen. The other fields are for files whose
    kind `make schema` and `make predict` find out; without `called` they do not look for it.
    """

    reader: str
    # What messages call a file of it.
    called: str = ""
    # A pattern of its first bytes. Text has none, and TFRecord has a checksum. Behind a word, with
    # which a table may begin, too, other bytes than text must follow.
    mark: bytes = b""
    # How names of its files end, but for gz and zip.
    endings: tuple[str, ...] = ()
    # True if all values are text.
    text: bool = False
    # True if its files are read when they are packed, by gzip or alone in a zip.
    packed: bool = False
    # True if it has images and their labels, and no columns with names.
    pixels: bool = False
    # `module:function` that returns the pyarrow schema of the file at a path, if files have one.
    schema: str = ""
    # True if it reads a column as the type of its values alone; others read any as text, and a text
    # may be a list.
    typed: bool = False
    # True if folders such as `day=2024-06-01` may name columns of the files in them. The details of
    # its chunks must have a `file`.
    in_folders: bool = False

    @property
    def binary(self) -> bool:
        """True if its files are known by their first bytes."""
        return bool(self.called) and not self.text

    @property
    def suffixes(self) -> tuple[str, ...]:
        """How paths of its files end: `.csv`, `.csv.gz`."""
        return tuple(f".{name}{packed}" for name in self.endings for packed in ("", ".gz", ".zip"))


# Messages list them in this order.
SOURCES: Mapping[str, SourceKind] = {
    "csv": SourceKind(
        reader="preprocessing.sources.csv:CsvSource",
        called="CSV",
        endings=("csv", "tsv"),
        text=True,
        packed=True,
        in_folders=True,
    ),
    "jsonl": SourceKind(
        reader="preprocessing.sources.jsonl:JsonlSource",
        called="JSON lines",
        endings=("jsonl", "ndjson", "json"),
        text=True,
        packed=True,
        typed=True,
        in_folders=True,
    ),
    "parquet": SourceKind(
        reader="preprocessing.sources.parquet:ParquetSource",
        called="Parquet",
        mark=rb"PAR1",
        endings=("parquet", "pq"),
        schema="preprocessing.sources.parquet:read_schema",
        in_folders=True,
    ),
    "orc": SourceKind(
        reader="preprocessing.sources.orc:OrcSource",
        called="ORC",
        mark=rb"ORC",
        endings=("orc",),
        schema="preprocessing.sources.orc:read_schema",
        in_folders=True,
    ),
    "avro": SourceKind(
        reader="preprocessing.sources.avro:AvroSource",
        called="Avro",
        mark=rb"Obj\x01",
        endings=("avro",),
        schema="preprocessing.sources.avro:read_schema",
        in_folders=True,
    ),
    "tfrecord": SourceKind(
        reader="preprocessing.sources.tfrecord:TfrecordSource",
        called="TFRecord",
        endings=("tfrecord", "tfrecords"),
        packed=True,
        typed=True,
    ),
    "tfds": SourceKind(reader="preprocessing.sources.tfds:TfdsSource"),
    "idx": SourceKind(
        reader="preprocessing.sources.idx:IdxSource",
        called="IDX",
        mark=rb"\0\0\x08[\x01-\x04]",
        packed=True,
        pixels=True,
    ),
    "image_folder": SourceKind(
        reader="preprocessing.sources.image_folder:ImageFolderSource", pixels=True
    ),
}
