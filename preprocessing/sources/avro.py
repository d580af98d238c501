"""Avro files: each file is a chunk. Columns are found by name and may have other types."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import fastavro.schema
import pyarrow as pa

from pipeline import errors, storage
from pipeline.config.splits import SplitName
from preprocessing.arrow import plain_types
from preprocessing.sources import base, files

# Rows that are read at a time, at most: values that repeat take almost no room in a file.
_ROWS = 1 << 14
# In Python a row takes about so many times the bytes that it has in a file.
_LARGER = 8
_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
# What the library raises for bytes that are not what the schema says.
_BROKEN = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
    ArithmeticError,
    struct.error,
    zlib.error,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
)


@dataclasses.dataclass(frozen=True)
class Whole:
    """All rows of a file."""

    file: base.RawFile


class AvroSource(base.Source):
    """Rows of Avro files, counted from 1."""

    def files(self) -> list[base.RawFile]:
        """Returns the files of each split, by the order of their names."""
        return [file for split in sorted(self.data.inputs) for file in files.find(self.data, split)]

    def read_names(self, file: base.RawFile) -> tuple[str, ...]:
        """Returns the columns of the file's schema."""
        return tuple(read_schema(file.path).names)

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Reads the schema of each file; one that lacks a column is a `DataError`."""
        found = files.find(self.data, split)
        for file in found:
            known = read_schema(file.path)
            base.check_names(known.names, list(self.data.columns), file.path, holder="it")
            for name in self.data.columns:
                _check_field(known.field(name), file.path)
        return [
            base.Chunk(split, index, None, Whole(file), storage.size(file.path))
            for index, file in enumerate(found)
        ]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the rows of a file as the Parquet source does those of a row group."""
        file, wanted = chunk.details.file, self.data.columns
        known, first = read_schema(file.path), 0
        for rows in self._read_rows(file.path):
            with _name_file(file.path):
                arrays = [
                    plain_types.to_readable(_build_array(rows, known.field(name)), column.type)
                    for name, column in wanted.items()
                ]
            yield base.Rows(
                pa.record_batch(arrays, list(wanted)),
                first + 1,
                dict.fromkeys(wanted, file.path),
                name=file.name,
            )
            first += len(rows)

    def _read_rows(self, path: str) -> Iterator[list[dict[str, Any]]]:
        """Yields some rows at a time; a file is read block by block."""
        rows: list[dict[str, Any]] = []
        size = 0
        with _open_file(path) as blocks, _name_file(path):
            for block in blocks:
                each = max(
                    1, min(_ROWS, self.read_bytes * block.num_records // _estimate_bytes(block))
                )
                size += _estimate_bytes(block)
                for row in block:
                    rows.append(row)
                    if len(rows) >= each:
                        yield rows
                        rows, size = [], 0
                if size >= self.read_bytes:
                    yield rows
                    rows, size = [], 0
        if rows:
            yield rows


def read_schema(path: str) -> pa.Schema:
    """Returns the columns of a file; those that are neither values nor lists are structs. Raises
    `DataError` if it is not readable as Avro, or holds no records."""
    with _open_file(path) as blocks:
        of_file = blocks.writer_schema
    if not isinstance(of_file, dict) or of_file.get("type") != "record":
        raise errors.DataError(f"{path!r}: holds values that are not records and have no columns")
    known: dict[str, pa.DataType] = {}
    with _name_file(path):
        return pa.schema(
            [(one["name"], _convert_type(one["type"], known)) for one in of_file["fields"]]
        )


def _convert_type(of: Any, known: dict[str, pa.DataType]) -> pa.DataType:
    """Returns the type of Arrow for one of a schema. `known` are the types that have names."""
    if isinstance(of, str):
        return _PRIMITIVES.get(of) or known.get(of, pa.struct([]))
    if isinstance(of, list):
        # A type defined within a union has its name from there on.
        types = [_convert_type(one, known) for one in of if one != "null"]
        return types[0] if len(types) == 1 else pa.struct([]) if types else pa.null()
    kind, logical = of["type"], of.get("logicalType")
    if isinstance(kind, dict | list):
        return _convert_type(kind, known)
    if kind == "array":
        return pa.list_(_convert_type(of["items"], known))
    found = _LOGICAL.get((kind, logical)) or _PRIMITIVES.get(kind) or pa.struct([])
    if logical == "decimal" and kind in ("bytes", "fixed"):
        exact = pa.decimal128 if of["precision"] <= 38 else pa.decimal256
        found = exact(of["precision"], of.get("scale", 0))
    if "name" in of:
        known[of["name"]] = found
    return found


def _check_field(field: pa.Field, path: str) -> None:
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    if pa.types.is_nested(kind):
        raise errors.DataError(
            f"{path!r}: column {field.name!r} is a record, a map, a union of several types, or a "
            "list of such; allowed are values and lists of values"
        )


def _build_array(rows: Sequence[dict[str, Any]], field: pa.Field) -> pa.Array:
    values = [row[field.name] for row in rows]
    listed = pa.types.is_list(field.type)
    if (field.type.value_type if listed else field.type) != pa.string():
        return pa.array(values, field.type)
    # What the library makes of bytes that are no UTF-8 becomes these again, to refuse single rows.
    if listed:
        lists = [
            None if items is None else [_encode_bytes(item) for item in items] for items in values
        ]
        return pa.array(lists, pa.list_(pa.binary()))
    return pa.array([_encode_bytes(value) for value in values], pa.binary())


def _encode_bytes(value: Any) -> bytes | None:
    return None if value is None else str(value).encode("utf-8", "surrogateescape")


def _estimate_bytes(block: Any) -> int:
    """Returns about how many bytes the rows of a block take."""
    return max(1, block.size) * _LARGER


@contextlib.contextmanager
def _open_file(path: str) -> Iterator[Any]:
    with files.translate_errors(path), storage.open_file(path) as raw:
        with _name_file(path):
            blocks = fastavro.block_reader(raw, handle_unicode_errors="surrogateescape")
        yield blocks


@contextlib.contextmanager
def _name_file(path: str) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        line = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise errors.DataError(f"{path!r}: not readable as Avro: {line}") from None
