"""Corrected dead letters: changes that people made to rows, applied as the rows are read.

The file `corrections.jsonl` in the records folder is an input of every later preprocessing run,
like the raw files. A corrected row keeps its place, so the records equal those that repaired raw
files would give. A correction is ignored once its raw row changes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
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

    `file` is the raw file by its name in the manifest, `column` and `reason` come from the dead
    letter, and `of` is the hash of the row as it is in that file, without which nothing would tell
    it from the row that stands in its place later.
    """

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)

    file: str
    row: int
    column: str | None = None
    reason: str
    of: str | None = None
    raw: dict[str, Any]


def path_in(records: str) -> str:
    """Returns the path of the corrections of a records folder."""
    return storage.join(records, FILE_NAME)


def read(records: str) -> list[Correction]:
    """Returns all corrections. Raises `DataError` for a line that is no correction."""
    path = path_in(records)
    if not storage.exists(path):
        return []
    found = []
    for number, line in enumerate(storage.read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path!r} line {number}"
        try:
            # Not by pydantic, which refuses half of a surrogate pair: such a row is bad again.
            values = json.loads(line, parse_int=strict_json.parse_whole)
        except (ValueError, RecursionError) as error:
            raise errors.DataError(f"{where}: no correction: {error}") from None
        found.append(_validate(values, where))
        if found[-1].of is None:
            raise errors.DataError(
                f"{where}: has no 'of', so it may be of another row by now. Delete the line, "
                "preprocess, and correct the row again"
            )
    return found


def build(letter: Mapping[str, Any], where: str) -> Correction:
    """Returns the correction of a dead letter whose `raw` was edited. Raises `DataError`, which
    says `where` it is, for one that cannot be kept."""
    for name, value in letter["raw"].items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise errors.DataError(
                f"{where}: raw has {name!r} with one half of a surrogate pair, which is not text; "
                "write the whole character"
            ) from None
    return _validate(letter, where)


def _validate(values: Any, where: str) -> Correction:
    try:
        return Correction.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        problem = ": ".join([*map(str, first["loc"]), first["msg"]])
        raise errors.DataError(f"{where}: no correction: {problem}") from None


def write(records: str, found: list[Correction]) -> None:
    """Writes all corrections, sorted by file and row."""
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

    def __init__(self, source: base.Source, path: str, found: list[Correction]) -> None:
        super().__init__(source.data)
        self.sizes = source.sizes
        self._source, self._path = source, path
        self._names = {file.path: file.name for file in source.files()}
        self._changes = config.digest({"corrections": [one.model_dump() for one in found]})
        self._found: dict[str, dict[int, Correction]] = {}
        for one in found:
            self._found.setdefault(one.file, {})[one.row] = one

    def files(self) -> list[base.RawFile]:
        """Returns the raw files and the file of corrections."""
        return [*self._source.files(), base.RawFile(FILE_NAME, self._path)]

    @property
    def remarks(self) -> list[str]:
        """Returns those of the source."""
        return self._source.remarks

    def hash_changes(self) -> str:
        """Returns a hash of the corrections as they were read."""
        return self._changes

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Returns the chunks of the source."""
        return self._source.plan(split)

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the rows of the source, and after each batch its corrected rows."""
        for rows in self._source.read(chunk):
            if rows.each:  # images, which are not edited
                yield rows
                continue
            paths = {*rows.files.values(), *(letter.file for letter in rows.letters)}
            wanted: dict[int, Correction] = {}
            for path in sorted(paths):
                wanted |= self._found.get(self._names.get(path, path), {})
            yield from self._apply(rows, wanted) if wanted else [rows]

    def _apply(self, rows: base.Rows, wanted: Mapping[int, Correction]) -> Iterator[base.Rows]:
        count = rows.batch.num_rows
        numbers = rows.list_numbers()
        places = np.flatnonzero(np.isin(numbers, list(wanted)))
        shown = validate.list_raw_rows(rows.batch.take(pa.array(places)), self.data.columns)
        changes: dict[int, dict[str, Any]] = {}
        for place, raw in zip(places.tolist(), shown, strict=True):
            one = wanted[int(numbers[place])]
            if one.of == validate.hash_raw_row(raw):
                changes[place] = self._select_changes(one, raw)
        repaired = [
            letter
            for letter in rows.letters
            if letter.row in wanted
            and wanted[letter.row].of in _list_hashes(letter, self.data.columns)
        ]
        if not changes and not repaired:
            yield rows
            return
        kept = np.ones(count, bool)
        kept[list(changes)] = False
        mask = pa.array(kept)
        yield dataclasses.replace(
            rows,
            batch=rows.batch.filter(mask),
            numbers=numbers[kept],
            letters=tuple(letter for letter in rows.letters if letter not in repaired),
        )
        yield from _patch_rows(rows, changes)
        for letter in repaired:
            yield from self._correct_unread(rows, letter, wanted[letter.row])

    def _correct_unread(
        self, rows: base.Rows, letter: base.Letter, one: Correction
    ) -> Iterator[base.Rows]:
        """Yields a row that could not be read, made of its correction and, if the correction is of
        its columns, of the rest of these; or its letter, if the rest cannot be read either."""
        if letter.raw is None or one.of != validate.hash_unread(letter, self.data.columns):
            letter = dataclasses.replace(letter, raw=None)
        shown = validate.show_raw_row(letter.raw or {}, self.data.columns)
        changes = self._select_changes(one, shown)
        rest = self._source.read_rest(letter, changes)
        rest = dataclasses.replace(
            rows, batch=rest.batch, numbers=rest.numbers, letters=rest.letters
        )
        if not rest.letters:
            yield from _patch_rows(rest, {0: changes})
            return
        raw = {**(letter.raw or {}), **changes}
        again = [dataclasses.replace(bad, value=letter.value, raw=raw) for bad in rest.letters]
        yield dataclasses.replace(rest, letters=tuple(again))

    def _select_changes(self, one: Correction, shown: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the corrected values; `None` for a text that stands for a missing value. Raises
        `DataError` for a number whose text may be read in two ways."""
        absent = self.data.csv.missing if self.data.source == "csv" else ()
        known = {n: v for n, v in one.raw.items() if n in self.data.columns}
        if doubt := describe_doubt(known, shown, self.data):
            raise errors.DataError(f"{self._path!r}: {one.file!r} row {one.row}: {doubt}")
        return {n: None if v in absent else v for n, v in _find_new(known, shown).items()}


def _find_new(raw: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    return {
        n: v
        for n, v in raw.items()
        if v != validate.REDACTED and not (n in shown and _are_same(v, shown[n]))
    }


def _are_same(value: Any, shown: Any) -> bool:
    """Tells if a value is what was `shown`, also as a file has numbers that are not finite."""
    return value == shown or strict_json.dumps(value) == strict_json.dumps(shown)


def _list_hashes(letter: base.Letter, columns: Mapping[str, config.Column]) -> tuple[str, ...]:
    """Returns what a correction of a row that could not be read may be `of`; last what it was to
    earlier versions, which took all from the text."""
    return validate.hash_unread(letter, columns), validate.hash_raw_row(letter.value or "")


@dataclasses.dataclass(frozen=True)
class RawRow:
    """A row of a raw file: what a dead letter has `shown` of it, and what a correction of it may be
    `of`, the hash that is written first."""

    shown: Mapping[str, Any]
    of: tuple[str, ...]


def read_raw_rows(
    source: base.Source, wanted: Collection[tuple[str, int]]
) -> dict[tuple[str, int], RawRow]:
    """Returns the `wanted` rows of raw files, by file and row. Reads the files up to the last."""
    columns = source.data.columns
    names = {file.path: file.name for file in source.files()}
    numbers = [row for _, row in wanted]
    found: dict[tuple[str, int], RawRow] = {}
    for chunk in (chunk for split in sorted(source.data.inputs) for chunk in source.plan(split)):
        if len(found) == len(wanted):
            break
        for rows in source.read(chunk):
            places = np.flatnonzero(np.isin(rows.list_numbers(), numbers))
            shown = validate.list_raw_rows(rows.batch.take(pa.array(places)), columns)
            for place, raw in zip(places.tolist(), shown, strict=True):
                if (known := (rows.name, rows.find_number(place))) in wanted:
                    found[known] = RawRow(raw, (validate.hash_raw_row(raw),))
            for letter in rows.letters:
                if (known := (names.get(letter.file, letter.file), letter.row)) in wanted:
                    raw = validate.show_raw_row(letter.raw or {}, columns)
                    found[known] = RawRow(raw, _list_hashes(letter, columns))
    return found


def describe_doubt(
    raw: Mapping[str, Any], shown: Mapping[str, Any], data: config.Data
) -> str | None:
    """Returns what is wrong with a new number, other than the dead letter has `shown`, whose text
    may be read in two ways: dead letters show numbers as JSON has them, whatever the files write
    for a point. `None` if all can be read in one way."""
    rules = data.csv
    if data.source != "csv" or (rules.decimal, rules.thousands) == (".", ""):
        return None
    marks = f"{rules.decimal}{rules.thousands}."
    for name, value in _find_new(raw, shown).items():
        column = data.columns[name]
        as_json = column.list and column.separator == "json"  # with numbers as JSON has them
        if column.type not in ("int64", "float32") or value in rules.missing or as_json:
            continue
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and any(mark in text for mark in marks):
                return (
                    f"{name!r}: {text!r} may be read in two ways, as the files have "
                    f"data.csv.decimal {rules.decimal!r}; write it as a number without quotes, "
                    "such as 1000.5"
                )
    return None


def _patch_rows(rows: base.Rows, changes: Mapping[int, Mapping[str, Any]]) -> Iterator[base.Rows]:
    """Yields the rows at the places of `changes`, with these. Each with a list to change is alone:
    an item of another type gives its column another, in which lists of other rows would differ. So
    would NaN and infinite numbers, as texts."""
    numbers, schema = rows.list_numbers(), rows.batch.schema
    alone = [
        place
        for place, change in changes.items()
        if any(_needs_own_type(value, schema.field(name).type) for name, value in change.items())
    ]
    others = [place for place in changes if place not in set(alone)]
    for places in (others, *([place] for place in alone)):
        if places:
            batch = rows.batch.take(pa.array(places, pa.int64()))
            patched = _patch(batch, [changes[place] for place in places])
            yield dataclasses.replace(rows, batch=patched, numbers=numbers[places], letters=())


def _needs_own_type(value: Any, kind: pa.DataType) -> bool:
    number = value is None or isinstance(value, int | float)
    nested = pa.types.is_nested(kind) or isinstance(value, list)
    return nested or (pa.types.is_floating(kind) and not number)


def _patch(batch: pa.RecordBatch, changes: list[Mapping[str, Any]]) -> pa.RecordBatch:
    """Returns a batch with new values: of its types, or as text where a value has another."""
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if any(name in change for change in changes):
            array = _replace_values(array, [change.get(name, ...) for change in changes])
        arrays.append(array)
    return pa.record_batch(arrays, batch.schema.names)


def _replace_values(array: pa.Array, new: list[Any]) -> pa.Array:
    """Returns a column with new values from JSON; `...` keeps the old one. A list is alone."""
    listed = any(isinstance(value, list) for value in new)
    text = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
    # To Arrow a text is a list of characters; here it is one that `separator` cuts.
    text |= pa.types.is_nested(array.type) and any(isinstance(value, str) for value in new)
    if not text and not pa.types.is_null(array.type):
        mixed = [o if n is ... else n for o, n in zip(array.to_pylist(), new, strict=True)]
        try:
            return pa.array(mixed, array.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError, UnicodeEncodeError):
            if not listed and any(n is ... for n in new):
                array = _convert_to_text(array)
    if listed:
        return _build_lists(new)
    mixed = [
        o if n is ... else _encode_text(n) for o, n in zip(array.to_pylist(), new, strict=True)
    ]
    return pa.array(mixed, pa.binary())


def _build_lists(new: list[list[Any]]) -> pa.Array:
    """Returns lists from JSON; those with items of several types as texts, as JSON has them."""
    try:
        return pa.array(new)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        texts = [[_format_item(item) for item in items] for items in new]
        return pa.array(texts, pa.list_(pa.binary()))


def _format_item(item: Any) -> bytes | None:
    """Returns an item as a text; `None`, which no item may be, of what has items itself."""
    return None if isinstance(item, list | dict) else _encode_text(item)


def _convert_to_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string()).cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_encode_text(value) for value in array.to_pylist()], pa.binary())


def _encode_text(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="surrogatepass")


def check_columns(raw: Mapping[str, Any], columns: Mapping[str, config.Column], where: str) -> None:
    """Raises `DataError` for a column that the config does not have."""
    for name in raw:
        if name not in columns:
            raise errors.DataError(
                f"{where}: raw has {name!r}, which is not a column of the config"
                f"{errors.suggest(name, columns)}"
            )
