"""Writes rows with lists as files of every source that takes these."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import tensorflow as tf

from pipeline.records import tfrecord

Rows = list[dict[str, Any]]

# The columns that are lists, and what is between their items where these are one text.
SEPARATORS = {"tags": "|", "seen": " ", "prices": ";"}
# Bytes that are no UTF-8, in a text of Python.
NO_TEXT = b"\xff".decode(errors="surrogateescape")
_TYPES = {"id": int, "label": int, "seen": int, "prices": float}
_AVRO = {"int64": "long", "double": "double", "string": "string", "binary": "bytes"}


@dataclasses.dataclass(frozen=True)
class ListFormat:
    """One way to write rows: `data.source`, what `write` makes of a file, and keys of `data` that
    say how. `texts` tells if lists are texts, `json` if these are JSON; `header` is how many rows
    are above the first."""

    source: str
    write: Callable[[Rows], bytes]
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    texts: bool = False
    json: bool = False
    header: int = 0


def encode(text: str) -> bytes:
    """Returns the bytes of a text, also of `NO_TEXT`."""
    return text.encode(errors="surrogateescape")


def _join(name: str, items: list) -> str:
    return SEPARATORS[name].join(map(str, items))


def _write_json(name: str, items: list) -> str:
    return json.dumps(items, ensure_ascii=False)


def _csv(
    rows: Rows, *, write: Callable[[str, list], str] = _join, quote: str = '"', always: bool = False
) -> bytes:
    """Writes quotes where a cell needs them, or `always`; a list that is missing is an empty cell,
    an empty one has quotes."""
    lines = [",".join(rows[0])]
    for row in rows:
        cells = []
        for name, value in row.items():
            text = write(name, value) if isinstance(value, list) else str(value)
            if quote and (always or not text or set(text) & {",", quote}):
                text = quote + text.replace(quote, quote * 2) + quote
            cells.append("" if value is None else text)
        lines.append(",".join(cells))
    return encode("\n".join([*lines, ""]))


def _jsonl(rows: Rows) -> bytes:
    """Of lists that are missing, `seen` is absent and others are null."""
    kept = [{n: v for n, v in row.items() if v is not None or n != "seen"} for row in rows]
    return encode("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in kept))


def _unify(rows: Rows) -> Rows:
    """Returns rows whose columns have one type, as files with a schema need: where an item is not
    of the type that is declared, one that holds it."""
    if not any(isinstance(item, str) for row in rows for item in row["prices"] or ()):
        return rows
    wide: dict[str, Callable[[Any], Any]] = {"tags": encode, "seen": float, "prices": str}
    return [
        {n: [*map(wide[n], v)] if isinstance(v, list) else v for n, v in row.items()}
        for row in rows
    ]


def _join_all(rows: Rows) -> Rows:
    return [
        {n: encode(_join(n, v)) if isinstance(v, list) else v for n, v in row.items()}
        for row in rows
    ]


def _parquet(rows: Rows, *, change: Callable[[Rows], Rows] = _unify) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(change(rows)), file)
    return file.getvalue()


def _orc(rows: Rows) -> bytes:
    file = io.BytesIO()
    pyarrow.orc.write_table(pa.Table.from_pylist(_unify(rows)), file)
    return file.getvalue()


def _avro(rows: Rows) -> bytes:
    file, plain = io.BytesIO(), _unify(rows)
    fields = [
        {"name": field.name, "type": ["null", _find_avro_type(field.type)]}
        for field in pa.Table.from_pylist(plain).schema
    ]
    fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, plain)
    return file.getvalue()


def _find_avro_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return {"type": "array", "items": _find_avro_type(kind.value_type)}
    return _AVRO[str(kind)]


def _tfrecord(rows: Rows) -> bytes:
    return b"".join(tfrecord.frame(_build_example(row)) for row in rows)


def _build_example(row: Mapping[str, Any]) -> bytes:
    """Returns a row whose lists are features with as many values as items; none is no feature."""
    feature = {n: _build_feature(n, v) for n, v in row.items() if v is not None}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _build_feature(name: str, value: Any) -> tf.train.Feature:
    items = value if isinstance(value, list) else [value]
    kinds = {_TYPES.get(name, str), *map(type, items)}
    if str in kinds:
        texts = [encode(str(item)) for item in items]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    if float in kinds:
        return tf.train.Feature(float_list=tf.train.FloatList(value=items))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=items))


def _zip(rows: Rows) -> bytes:
    return gzip.compress(_tfrecord(rows))


_write_csv = functools.partial(ListFormat, "csv", texts=True, header=1)
FORMATS = {
    "csv": _write_csv(_csv),
    "csv_in_quotes": _write_csv(functools.partial(_csv, always=True)),
    "csv_without_quotes": _write_csv(functools.partial(_csv, quote=""), {"csv": {"quote": ""}}),
    "csv_of_json": _write_csv(functools.partial(_csv, write=_write_json), json=True),
    "jsonl": ListFormat("jsonl", _jsonl),
    "parquet": ListFormat("parquet", _parquet),
    "parquet_of_texts": ListFormat(
        "parquet", functools.partial(_parquet, change=_join_all), texts=True
    ),
    "orc": ListFormat("orc", _orc),
    "avro": ListFormat("avro", _avro),
    "tfrecord": ListFormat("tfrecord", _tfrecord),
    "tfrecord_gz": ListFormat("tfrecord", _zip),
}
