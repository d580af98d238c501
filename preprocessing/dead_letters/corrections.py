"""Corrected dead letters: what people changed in rows, laid over these as they are read.

The ledger `corrections.jsonl` in the records folder is one of the files that records are made
from: with the raw data it decides them, in every later run too. A corrected row keeps its place, so
the records are those that repaired raw files would give. A correction holds only as long as the row
is what it was when it was rejected.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pydantic

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from pipeline.storage import strict_json
from preprocessing.rows import validate
from preprocessing.sources import base

FILE_NAME = "corrections.jsonl"


class Correction(pydantic.BaseModel):
    """New values for columns of one row; others, and those still redacted, stay as they are.

    `file` is the raw file as the manifest calls it; `column` and `reason` are those of the dead
    letter, `of` the hash of what the row was.
    """

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)

    file: str
    row: int
    column: str | None = None
    reason: str
    of: str | None = None
    raw: dict[str, Any]


def path_in(records: str) -> str:
    """Returns where the ledger of a records folder lies."""
    return storage.join(records, FILE_NAME)


def read(records: str) -> list[Correction]:
    """Returns all corrections. Raises `DataError` for a ledger that cannot be read."""
    path = path_in(records)
    if not storage.exists(path):
        return []
    found = []
    for number, line in enumerate(storage.read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(Correction.model_validate_json(line))
        except pydantic.ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise errors.DataError(f"{path!r} line {number}: no correction: {problem}") from None
    return found


def write(records: str, found: list[Correction]) -> None:
    """Writes the ledger, by file and row."""
    ordered = sorted(found, key=lambda one: (one.file, one.row))
    lines = [strict_json.dumps(one.model_dump(), sort_keys=True) for one in ordered]
    storage.write_text(path_in(records), "".join(f"{line}\n" for line in lines))


def wrap(source: base.Source, records: str) -> base.Source:
    """Returns `source` with the corrections of a records folder, if there are any."""
    found = read(records)
    # Rows of a transform have no numbers by which a correction would find them.
    return Corrected(source, path_in(records), found) if found and source.numbered else source


class Corrected(base.Source):
    """A source whose rows are corrected as they are read."""

    def __init__(self, source: base.Source, ledger: str, found: list[Correction]) -> None:
        super().__init__(source.data)
        self.sizes = source.sizes
        self._source, self._ledger = source, ledger
        self._names = {file.path: file.name for file in source.files()}
        self._changes = config.digest({"corrections": [one.model_dump() for one in found]})
        self._found: dict[str, dict[int, Correction]] = {}
        for one in found:
            self._found.setdefault(one.file, {})[one.row] = one

    def files(self) -> list[base.RawFile]:
        """Returns the raw files and the ledger."""
        return [*self._source.files(), base.RawFile(FILE_NAME, self._ledger)]

    def changes(self) -> str:
        """Returns a hash of the corrections as they were read from the ledger."""
        return self._changes

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Cuts as the source does."""
        return self._source.plan(split)

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields rows as the source does, and behind them those that were corrected."""
        for rows in self._source.read(chunk):
            if rows.each:  # images, which are not edited
                yield rows
                continue
            paths = {*rows.files.values(), *(letter.file for letter in rows.letters)}
            wanted: dict[int, Correction] = {}
            for path in sorted(paths):
                wanted |= self._found.get(self._names.get(path, path), {})
            yield from self._corrected(rows, wanted) if wanted else [rows]

    def _corrected(self, rows: base.Rows, wanted: Mapping[int, Correction]) -> Iterator[base.Rows]:
        count = rows.batch.num_rows
        numbers = rows.all_numbers()
        places = np.flatnonzero(np.isin(numbers, list(wanted)))
        shown = validate.raw_rows(rows.batch.take(pa.array(places)), self.data.columns)
        changes: dict[int, dict[str, Any]] = {}
        for place, raw in zip(places.tolist(), shown, strict=True):
            one = wanted[int(numbers[place])]
            if one.of in (None, validate.digest(raw)):
                changes[place] = self._changed(one, raw)
        mended = [
            letter
            for letter in rows.letters
            if letter.row in wanted
            and wanted[letter.row].of in (None, validate.digest(letter.value or ""))
        ]
        if not changes and not mended:
            yield rows
            return
        kept = np.ones(count, bool)
        kept[list(changes)] = False
        mask = pa.array(kept)
        yield dataclasses.replace(
            rows,
            batch=rows.batch.filter(mask),
            numbers=numbers[kept],
            letters=tuple(letter for letter in rows.letters if letter not in mended),
        )
        if changes:
            taken = pa.array(list(changes), pa.int64())
            yield dataclasses.replace(
                rows,
                batch=_patched(rows.batch.take(taken), list(changes.values())),
                numbers=numbers[list(changes)],
                letters=(),
            )
        if mended:
            yield self._new_rows(rows, [wanted[letter.row] for letter in mended])

    def _new_rows(self, rows: base.Rows, found: list[Correction]) -> base.Rows:
        """Makes rows of those that could not even be cut into columns."""
        empty = pa.nulls(len(found))
        batch = pa.record_batch([empty] * len(self.data.columns), list(self.data.columns))
        numbers = np.array([one.row for one in found])
        return dataclasses.replace(
            rows,
            batch=_patched(batch, [self._changed(one, {}) for one in found]),
            numbers=numbers,
            letters=(),
        )

    def _changed(self, one: Correction, shown: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values that are new, and `None` for text that stands for no value."""
        new = {n: v for n, v in one.raw.items() if v != validate.REDACTED and v != shown.get(n)}
        absent = self.data.csv.missing if self.data.source == "csv" else ()
        known = {n: v for n, v in new.items() if n in self.data.columns}
        return {n: None if v in absent else v for n, v in known.items()}


def _patched(batch: pa.RecordBatch, changes: list[dict[str, Any]]) -> pa.RecordBatch:
    """Lays new values over a batch: with its types, or as text where a value has another."""
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if any(name in change for change in changes):
            array = _overlaid(array, [change.get(name, ...) for change in changes])
        arrays.append(array)
    return pa.record_batch(arrays, batch.schema.names)


def _overlaid(array: pa.Array, new: list[Any]) -> pa.Array:
    """Puts values of JSON over those of a column, where they are not `...`."""
    text = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
    if not text and not pa.types.is_null(array.type):
        mixed = [o if n is ... else n for o, n in zip(array.to_pylist(), new, strict=True)]
        try:
            return pa.array(mixed, array.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError):
            array = _as_text(array)
    elif any(isinstance(value, list) for value in new):
        return pa.array([None if n is ... else n for n in new])
    mixed = [o if n is ... else _text(n) for o, n in zip(array.to_pylist(), new, strict=True)]
    return pa.array(mixed, pa.binary())


def _as_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string()).cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_text(value) for value in array.to_pylist()], pa.binary())


def _text(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="surrogatepass")


def known_columns(raw: Mapping[str, Any], columns: Mapping[str, config.Column], where: str) -> None:
    """Raises `DataError` for a column that the config does not have."""
    for name in raw:
        if name not in columns:
            raise errors.DataError(
                f"{where}: raw has {name!r}, which is not a column of the config"
                f"{errors.nearest(name, columns)}"
            )
