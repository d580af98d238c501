"""JSON lines: one object a row, plain, gz or zip. Other members than the columns are ignored.

pyarrow parses whole blocks. Only where it refuses one are the culprits looked for, by halving: what
it refuses alone is a dead letter, so nothing depends on how the text is cut.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from pipeline.steps import date_forms
from preprocessing.arrow import plain_types
from preprocessing.sources import base, csv_lines, files, json_types

# Names may hold brackets and slashes too; `/[]` stands for what is in a list.
_COLUMN = re.compile(r"Column\(/(.+?)(/\[\])*\) changed from")
_NO_INT64 = re.compile(r"to int64, couldn't parse: *(.+)")
_TWICE = re.compile(r"Column\(/(.+?)\) was specified twice")
_TOO_LARGE = "Number too big to be stored in double"
_BOOLEAN = re.compile(r"Column\(/(.+)\) changed from number to boolean")
_FIRST_NULL, _INDENTED_NULL = re.compile(rb"\s*null"), re.compile(rb"[\r\n][ \t]+null")
# A whole number: its digits, and a point that only zeros follow. One in a list stands alone there.
_NUMBER = rb"(-?(?:0|[1-9]\d*))(?:\.0+)?"
_DECIMAL = rb"(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_DECIMALS = b"decimals"
_IN_LIST = re.compile(rb"(?<=[\s,\[])" + _NUMBER + rb"(?=\s*[,\]])")
_TRUE_IN_LIST = re.compile(rb"(?<=[\s,\[])true(?=\s*[,\]])")
_FALSE_IN_LIST = re.compile(rb"(?<=[\s,\[])false(?=\s*[,\]])")
# About so many bytes of rows say which columns a file has.
_FIRST_BYTES = 1 << 20
_TYPES = {"int64": pa.int64(), "float32": pa.float64(), "string": pa.string()}


@dataclasses.dataclass(frozen=True)
class JsonlChunk:
    """Lines of one file: `length` bytes from `offset`, or all; `first` of its rows come before."""

    file: base.RawFile
    offset: int = 0
    length: int | None = None
    first: int = 0


class JsonlSource(base.Source):
    """Rows of files with a JSON object a line, counted from 1 without the empty ones."""

    def __init__(self, data: config.Data) -> None:
        super().__init__(data)
        for name, column in data.columns.items():
            if column.is_image:
                raise errors.UsageError(f"data.columns.{name}: source jsonl has no {column.type}")

    def files(self) -> list[base.RawFile]:
        """Returns the files of each split, by the order of their names."""
        return [file for split in sorted(self.data.inputs) for file in files.find(self.data, split)]

    def find_names(self, file: base.RawFile) -> tuple[str, ...]:
        """Returns the columns that any of the first rows of a file has, about a megabyte of it."""
        with files.open_unpacked(file.path) as stream:
            block = next(csv_lines.read_blocks(stream, _FIRST_BYTES, file.path), None)
        lines = re.split(rb"[\r\n]+", block.data) if block else []
        rows = (json_types.read_values(line, self.data.columns) or {} for line in lines)
        return tuple(dict.fromkeys(name for row in rows for name in row))

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Cuts plain files into ranges of whole lines."""
        found: list[tuple[JsonlChunk, int | None]] = []
        for file in files.find(self.data, split):
            if files.can_be_cut(file.path):
                found += self._cut_ranges(file)
            else:
                found.append((JsonlChunk(file), None))
        return [
            base.Chunk(
                split, i, rows, part, part.length or files.estimate_unpacked_size(part.file.path)
            )
            for i, (part, rows) in enumerate(found)
        ]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the rows of a chunk; numbers and lists as they are, text as binary, NaN as no
        value."""
        part: JsonlChunk = chunk.details
        first = part.first
        with files.open_unpacked(part.file.path, offset=part.offset) as stream:
            limited = stream if part.length is None else csv_lines.Limited(stream, part.length)
            for block in csv_lines.read_blocks(limited, self.read_bytes, part.file.path):
                yield self._parse_rows(block, part, first)
                first += block.rows

    def read_rest(self, letter: base.Letter, changed: Collection[str]) -> base.Rows:
        """Returns the row of a letter without its `changed` columns, as it would be read."""
        rest = {name: value for name, value in (letter.raw or {}).items() if name not in changed}
        if not rest:
            return super().read_rest(letter, changed)
        file = base.RawFile("", letter.file)
        block = csv_lines.RawRows(json.dumps(rest).encode(), 1, 0)
        return self._parse_rows(block, JsonlChunk(file), letter.row - 1)

    def _cut_ranges(self, file: base.RawFile) -> Iterator[tuple[JsonlChunk, int]]:
        first, size = 0, self.sizes.choose_chunk_size(storage.size(file.path))
        with files.open_unpacked(file.path) as stream:
            for found in csv_lines.find_ranges(stream, size, file.path):
                yield JsonlChunk(file, found.offset, found.length, first), found.rows
                first += found.rows

    def _parse_rows(self, block: csv_lines.RawRows, part: JsonlChunk, first: int) -> base.Rows:
        wanted = pa.schema([_choose_field(n, c) for n, c in self.data.columns.items()])
        bad: dict[int, str] = {}
        try:
            table = _parse(block.data, wanted, block.rows)
        except pa.ArrowInvalid:
            texts = [row for row in re.split(rb"[\r\n]+", block.data) if row]
            tables = _parse_halves(texts, wanted, 0, columns=self.data.columns, bad=bad)
            table = pa.concat_tables([wanted.empty_table(), *tables])
            letters = [
                self._write_letter(part.file.path, first + 1 + n, texts[n], why=why)
                for n, why in bad.items()
            ]
        numbers = np.delete(np.arange(first, first + block.rows), list(bad))
        # As binary, so that text which is not UTF-8 is found like any other bad value.
        plain = [_cast_texts(column) for column in table.combine_chunks().columns]
        arrays = [
            pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
            for column in plain
        ]
        arrays = [
            plain_types.to_readable(array, column.type)
            for array, column in zip(arrays, self.data.columns.values(), strict=True)
        ]
        return base.Rows(
            pa.record_batch(arrays, wanted.names),
            files=dict.fromkeys(self.data.columns, part.file.path),
            numbers=numbers + 1,
            name=part.file.name,
            letters=tuple(letters) if bad else (),
        )

    def _write_letter(self, path: str, number: int, text: bytes, *, why: str) -> base.Letter:
        """Tells a value of another type from a line that is no JSON."""
        letter = self._describe_line(path, number, text, why=why)
        return dataclasses.replace(letter, raw=json_types.read_values(text, self.data.columns))

    def _describe_line(self, path: str, number: int, text: bytes, *, why: str) -> base.Letter:
        value = text.decode(errors="backslashreplace")
        text = json_types.blank_unread(text, self.data.columns)
        if (place := _COLUMN.search(why)) and (name := self._find_column(place[1])):
            column = self.data.columns[name]
            problem = json_types.describe_fault(text, name, column=column, why=why)
            return base.Letter(path, number, name, "type", value, problem)
        if (found := _NO_INT64.search(why)) and (name := self._find_holder(text, found[1])):
            column = self.data.columns[name]
            problem = json_types.describe_fault(text, name, column=column, why=why)
            return base.Letter(path, number, name, "type", value, problem)
        if _TOO_LARGE in why and (large := json_types.describe_too_large(text, self.data.columns)):
            name, reason, problem = large
            return base.Letter(path, number, name, reason, value, problem)
        problem = "is not one JSON object"
        if twice := _TWICE.search(why):
            problem = f"has the key {twice[1]!r} twice"
        elif "surrogate pair" in why:
            problem = "has one half of a surrogate pair, which is not text"
        return base.Letter(path, number, None, "json", value, problem)

    def _find_column(self, place: str) -> str | None:
        """Returns the column of a place as pyarrow names it; a name may end as a place in lists."""
        if place in self.data.columns:
            return place
        return next((name for name in self.data.columns if name.startswith(f"{place}/[]")), None)

    def _find_holder(self, text: bytes, number: str) -> str | None:
        """Returns the column of whole numbers in which a line has a number written so."""
        try:
            row = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            return None
        for name, column in self.data.columns.items():
            values = row.get(name)
            if column.type == "int64" and number in (
                values if isinstance(values, list) else [values]
            ):
                return name
        return None


def _cast_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns texts as binary, those in lists, too; other values as they are."""
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_list(column.type) and pa.types.is_string(column.type.value_type):
        return column.cast(pa.list_(pa.binary()))
    return column


def _choose_field(name: str, column: config.Column) -> pa.Field:
    """Returns what a member is parsed to. That of text for numbers since 1970 is marked."""
    kind = _TYPES[column.type]
    marks = {_DECIMALS: b""} if column.dates in date_forms.EPOCHS else None
    return pa.field(name, pa.list_(kind) if column.shape or column.list else kind, metadata=marks)


def _parse(data: bytes, wanted: pa.Schema, rows: int) -> pa.Table:
    """Parses whole lines. Raises `ArrowInvalid` also if they are not as many objects."""
    if _has_null_row(data):
        raise pa.ArrowInvalid("null is not an object")
    try:
        table = _read(data, wanted).cast(wanted)
    except pa.ArrowInvalid:
        plain = _rewrite_whole_numbers(data, wanted)
        if plain == data:
            raise
        data, table = plain, _read(plain, wanted).cast(wanted)
    if len(table) != rows:
        raise pa.ArrowInvalid(f"{len(table)} objects in {rows} rows")
    # pyarrow refuses 1e309, but takes 9e308, and hundreds of digits, for infinite.
    if _has_infinity(table) and json_types.hold_too_large(data):
        raise pa.ArrowInvalid(_TOO_LARGE)
    return table


def _has_infinity(table: pa.Table) -> bool:
    lists = map(pa.types.is_list, table.schema.types)
    values = [
        pc.list_flatten(column) if is_list else column
        for column, is_list in zip(table.columns, lists, strict=True)
    ]
    floats = (one for one in values if pa.types.is_floating(one.type))
    return any(pc.any(pc.is_inf(one)).as_py() for one in floats)


def _read(data: bytes, wanted: pa.Schema) -> pa.Table:
    """Parses lines to the types that are `wanted`, or boolean where numbers are all booleans."""
    try:
        return pa_json.read_json(
            pa.BufferReader(data),
            pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pa_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        found = _BOOLEAN.search(str(error))
        name = found[1] if found else ""
        # A name may end as the place of items does.
        listed = name not in wanted.names
        place = wanted.get_field_index(name.removesuffix("/[]") if listed else name)
        if place < 0:
            raise
    kind = pa.list_(pa.bool_()) if listed else pa.bool_()
    return _read(data, wanted.set(place, wanted.field(place).with_type(kind)))


def _rewrite_whole_numbers(data: bytes, wanted: pa.Schema) -> bytes:
    """Returns lines whose whole numbers pyarrow takes: in columns of text as text, as ids of more
    than 64 bits must be, and with decimals in those of numbers since 1970; also in columns of whole
    numbers without `.0`. What is NaN in one of these, as Python writes what is missing, becomes
    null."""
    for field in wanted:
        listed = pa.types.is_list(field.type)
        kind = field.type.value_type if listed else field.type
        if kind not in (pa.string(), pa.int64()) and not listed:
            continue
        forms = {json.dumps(field.name), json.dumps(field.name, ensure_ascii=False)}
        names = b"|".join(re.escape(form.encode(errors="replace")) for form in sorted(forms))
        before = b"((?:" + names + rb")\s*:\s*)"
        if listed:
            lists = re.compile(before + rb'(\[[^\[\]"{}]*\])')
            data = b"".join(
                _rewrite_items(part, kind) if at % 3 == 2 else part
                for at, part in enumerate(lists.split(data))
            )
        else:
            new = rb'\1"\2"' if kind == pa.string() else rb"\1\2"
            number = _DECIMAL if _DECIMALS in (field.metadata or {}) else _NUMBER
            data = re.sub(before + number + rb"(?=\s*[,}])", new, data)
            data = re.sub(before + rb"NaN(?=\s*[,}])", rb"\1null", data)
    return data


def _rewrite_items(items: bytes, kind: pa.DataType) -> bytes:
    """Returns one list of numbers and booleans as pyarrow takes it: no list of both."""
    if kind == pa.string():
        return _IN_LIST.sub(rb'"\1"', items)
    items = _FALSE_IN_LIST.sub(b"0", _TRUE_IN_LIST.sub(b"1", items))
    return _IN_LIST.sub(rb"\1", items) if kind == pa.int64() else items


def _has_null_row(data: bytes) -> bool:
    """Finds rows that are just `null`: pyarrow takes them for objects, and dies of a first one."""
    if b"null" not in data:
        return False
    if _FIRST_NULL.match(data) or b"\nnull" in data or b"\rnull" in data:
        return True
    # Lines that begin with a space are rare, and looking for these is quicker than for patterns.
    indented = any(mark in data for mark in (b"\n ", b"\n\t", b"\r ", b"\r\t"))
    return indented and _INDENTED_NULL.search(data) is not None


def _parse_halves(
    texts: list[bytes],
    wanted: pa.Schema,
    first: int,
    *,
    columns: Mapping[str, config.Column],
    bad: dict[int, str],
) -> list[pa.Table]:
    """Returns what can be parsed, and notes in `bad` why single lines cannot, also without what is
    not read of them."""
    if not texts:
        return []
    try:
        return [_parse(b"\n".join(texts), wanted, len(texts))]
    except pa.ArrowInvalid as error:
        if len(texts) == 1:
            blanked = json_types.blank_unread(texts[0], columns)
            if blanked != texts[0]:
                return _parse_halves([blanked], wanted, first, columns=columns, bad=bad)
            bad[first] = str(error)
            return []
    half = len(texts) // 2
    tables = _parse_halves(texts[:half], wanted, first, columns=columns, bad=bad)
    return tables + _parse_halves(texts[half:], wanted, first + half, columns=columns, bad=bad)
