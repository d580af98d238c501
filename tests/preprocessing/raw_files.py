"""Writes rows as files of the sources that read tables."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


def content(kind: str, rows: Rows) -> bytes:
    """Returns what a file of a kind holds: `rows` of equal columns, all with values."""
    return WRITERS[kind](rows)


def _csv(rows: Rows) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def _jsonl(rows: Rows) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def _parquet(rows: Rows) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def _orc(rows: Rows) -> bytes:
    file = io.BytesIO()
    pyarrow.orc.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def _avro(rows: Rows) -> bytes:
    file, kinds = io.BytesIO(), {int: "long", float: "double", str: "string"}
    values = {name: v for row in rows for name, v in row.items() if v is not None}
    fields = [{"name": name, "type": ["null", kinds[type(v)]]} for name, v in values.items()]
    fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)
    return file.getvalue()


WRITERS = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "orc": _orc, "avro": _avro}
