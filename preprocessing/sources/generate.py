"""Writes a raw table that a function makes, of any number of rows."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from pipeline import config, errors, packages, storage
from pipeline.console.progress import Progress

_AT_A_TIME = 20_000  # rows, so that memory does not grow with the table
_MADE_BY = b"made_by"


def write(wanted: config.Generate) -> None:
    """Writes the table, whole or not at all; does nothing if it is there already.

    Raises `UsageError` for a function that does not exist or returns something else, and for a
    place that is not on a disk or cannot be written to.
    """
    if storage.is_remote(wanted.to) or not wanted.to.endswith(".parquet"):
        raise errors.UsageError(
            f"data.generate.to: {wanted.to!r}: must be a .parquet file on a local path; copy it "
            "from there to where data.inputs looks for it"
        )
    made_by = json.dumps([wanted.function, wanted.rows, wanted.arguments]).encode()
    if _is_there(wanted.to, made_by):
        print(f"{wanted.to}: is already there; nothing to do")
        return
    function = _load(wanted.function)
    temporary = f"{wanted.to}.{secrets.token_hex(4)}.tmp"
    try:
        storage.makedirs(storage.parent(wanted.to))
        _write(temporary, wanted, function, made_by=made_by)
        os.replace(temporary, wanted.to)
    except OSError as error:
        raise errors.translate_os_error(error, f"cannot write {wanted.to!r}") from None
    finally:
        pathlib.Path(temporary).unlink(missing_ok=True)
    print(f"{wanted.to}: {wanted.rows:,} rows, {storage.size(wanted.to):,} bytes")


def _is_there(path: str, made_by: bytes) -> bool:
    """Tells if the table is there, made the same way."""
    with contextlib.suppress(FileNotFoundError, pa.ArrowInvalid):
        found = pyarrow.parquet.read_schema(path).metadata or {}
        return bool(found.get(_MADE_BY) == made_by)
    return False


def _load(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    try:
        found: Callable[..., Any] = getattr(
            packages.import_module(module_name, attribute), attribute
        )
    except (ImportError, AttributeError, ValueError) as error:
        raise errors.UsageError(f"data.generate.function: cannot load {name!r}: {error}") from None
    return found


def _write(
    path: str, wanted: config.Generate, function: Callable[..., Any], *, made_by: bytes
) -> None:
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress("making rows", wanted.rows, unit="rows"))
        writer: pyarrow.parquet.ParquetWriter | None = None
        for first in range(0, wanted.rows, _AT_A_TIME):
            rows = min(_AT_A_TIME, wanted.rows - first)
            table = _make_rows(wanted, function, first, rows=rows)
            if writer is None:
                metadata = {**(table.schema.metadata or {}), _MADE_BY: made_by}
                schema = table.schema.with_metadata(metadata)
                writer = stack.enter_context(pyarrow.parquet.ParquetWriter(path, schema))
            writer.write_table(table.cast(writer.schema))
            progress.advance(rows)


def _make_rows(
    wanted: config.Generate, function: Callable[..., Any], first: int, *, rows: int
) -> pa.Table:
    where = f"data.generate.function: {wanted.function!r}"
    try:
        table = function(first, rows, **wanted.arguments)
    except TypeError as error:
        raise errors.UsageError(f"{where}: {error}; see data.generate.arguments") from error
    if not isinstance(table, pa.Table) or table.num_rows != rows:
        given = f"{table.num_rows} rows" if isinstance(table, pa.Table) else repr(type(table))
        raise errors.UsageError(f"{where}: must return a pyarrow.Table of {rows} rows, got {given}")
    return table
