"""CSV files: plain, gz or zip, any delimiter and encoding, with or without a header.

Columns are found by name, so files may order them differently and have others too. Everything is
read as text; types are given by `preprocessing.arrow.cast`, so that one bad value costs one row.
Plain files are cut into ranges of rows; packed ones are read as a stream.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from pipeline import config, errors, storage
from pipeline.config.column_config import JSON
from pipeline.config.splits import SplitName
from pipeline.records import file_kinds
from preprocessing.arrow import nulls, number_texts
from preprocessing.sources import base, csv_lines, csv_numbers, files

# Bytes of a header that cannot be read that are shown.
_SHOWN = 24


@dataclasses.dataclass(frozen=True)
class CsvChunk:
    """Rows of one file: `length` bytes from `offset` of its unpacked text, or all that follow.

    `names` are the columns in the order of the file; `first` counts rows below the header from 0.
    """

    file: base.RawFile
    names: tuple[str, ...]
    offset: int
    length: int | None = None
    first: int = 0


class CsvSource(base.Source):
    """Rows of text files with delimiters."""

    def files(self) -> list[base.RawFile]:
        """Returns the files of each split, by the order of their names."""
        return [file for split in sorted(self.data.inputs) for file in files.find(self.data, split)]

    def read_names(self, file: base.RawFile) -> tuple[str, ...]:
        """Returns the columns of the header; without one, those of the config, or all but the label
        if the first row has one value less."""
        found, _ = self._read_first_row(file)
        if self.data.csv.header:
            return found
        every = tuple(self.data.columns)
        unlabelled = tuple(name for name in every if name != self.data.label)
        return unlabelled if len(found) == len(unlabelled) else every

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Reads the header of each file, and cuts plain ones into ranges of whole rows."""
        found: list[tuple[CsvChunk, int | None]] = []
        for file in files.find(self.data, split):
            whole = self._read_header(file)
            if files.can_be_cut(file.path, self.data.csv.encoding):
                found += self._cut_ranges(whole)
            else:
                found.append((whole, None))
        return [
            base.Chunk(
                split, i, rows, part, part.length or files.estimate_unpacked_size(part.file.path)
            )
            for i, (part, rows) in enumerate(found)
        ]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the rows of a chunk, all columns as binary with nulls for missing values."""
        part: CsvChunk = chunk.details
        first = part.first
        with files.open_unpacked(part.file.path, self.data.csv.encoding, part.offset) as stream:
            limited = stream if part.length is None else csv_lines.Limited(stream, part.length)
            path = part.file.path
            for block in csv_lines.read_blocks(limited, self.read_bytes, path, **self._rules):
                yield self._parse_rows(block, part, first)
                first += block.rows

    def _read_header(self, file: base.RawFile) -> CsvChunk:
        """Reads the header. Raises `DataError` if it lacks a column or has one twice."""
        if not self.data.csv.header:
            return CsvChunk(file, tuple(self.data.columns), 0)
        names, end = self._read_first_row(file)
        wanted = self.data.columns
        base.check_names(names, list(wanted), file.path, holder="its header")
        # Columns that are not read may share their name; no column of a config has one with a NUL.
        return CsvChunk(
            file, tuple(n if n in wanted else f"\0{i}" for i, n in enumerate(names)), end
        )

    def _read_first_row(self, file: base.RawFile) -> tuple[tuple[str, ...], int]:
        """Returns the values of the first row, and how many bytes it ends after."""
        with files.open_unpacked(file.path, self.data.csv.encoding) as stream:
            start = stream.read(self.sizes.read)
        ends = self._find_row_ends(start + b"\n")
        if not start.strip():
            expected = "a header was" if self.data.csv.header else "rows were"
            raise errors.DataError(f"{file.path!r}: is empty; {expected} expected")
        # Empty rows above the header do not count.
        ends = ends[ends > len(start) - len(start.lstrip(b"\r\n"))]
        end = min(int(ends[0]), len(start)) if len(ends) else len(start)
        return _decode_names(self._trim(start[:end]), self.data.csv, file.path), end

    def _cut_ranges(self, whole: CsvChunk) -> Iterator[tuple[CsvChunk, int]]:
        """Cuts a plain file; reads it once, at the speed of the disk unless it has quotes."""
        first, path = 0, whole.file.path
        size = self.sizes.choose_chunk_size(storage.size(path) - whole.offset)
        with files.open_unpacked(path, offset=whole.offset) as stream:
            for found in csv_lines.find_ranges(stream, size, path, **self._rules):
                offset = whole.offset + found.offset
                part = dataclasses.replace(whole, offset=offset, length=found.length, first=first)
                yield part, found.rows
                first += found.rows

    @property
    def _rules(self) -> dict[str, Any]:
        """What tells where rows end, as `csv_lines` takes it."""
        rules = self.data.csv
        return {"quote": rules.quote, "delimiter": rules.delimiter, "trim": rules.trim}

    def _find_row_ends(self, data: bytes) -> np.ndarray:
        return csv_lines.find_row_ends(data, **self._rules)

    def _trim(self, data: bytes) -> bytes:
        rules = self.data.csv
        return csv_lines.trim_values(data, rules.quote, rules.delimiter) if rules.trim else data

    def _parse_rows(self, block: csv_lines.RawRows, part: CsvChunk, first: int) -> base.Rows:
        bad: list[pa_csv.InvalidRow] = []

        def keep(row: pa_csv.InvalidRow) -> str:
            bad.append(row)
            return "skip"

        data = self._trim(block.data)
        try:
            table = self._parse(data, part.names, keep)
        except pa.ArrowInvalid:
            # The handler is not called for a row whose bytes are no UTF-8: find out which they are.
            bad.clear()
            self._parse(data.decode("latin-1").encode(), part.names, keep)
            data = csv_lines.drop_rows(
                data, self._find_row_ends(data), [row.number - 1 for row in bad]
            )
            table = self._parse(data, part.names, keep)
        rows = np.delete(np.arange(first, first + block.rows), [row.number - 1 for row in bad])
        if len(rows) != len(table):
            raise errors.DataError(f"{part.file.path!r}: was changed while it was read")
        top = 2 if self.data.csv.header else 1
        return base.Rows(
            self._normalize_numbers(self._null_quoted(_combine(table))),
            files=dict.fromkeys(self.data.columns, part.file.path),
            numbers=rows + top,
            name=part.file.name,
            letters=tuple(
                _write_letter(row, part.file.path, first=first + top, rules=self.data.csv)
                for row in bad
            ),
            exchanged=frozenset(
                name
                for name, column in self.data.columns.items()
                if csv_numbers.exchanges_marks(column, self.data.csv)
            ),
        )

    def _null_quoted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns nulls for quoted texts that stand for a missing value, if such do."""
        texts = [text.encode() for text in self.data.csv.missing if text]
        if not (self.data.csv.quoted_missing and texts):
            return batch
        listed = pa.array(texts)
        arrays = [nulls.put_null(array, pc.is_in(array, listed)) for array in batch.columns]
        return pa.record_batch(arrays, batch.schema)

    def _normalize_numbers(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Writes numbers as `preprocessing.arrow.cast` reads them, if the files do otherwise."""
        rules = self.data.csv
        as_is = (rules.decimal, rules.thousands) == (".", "")
        arrays = []
        for array, column in zip(batch.columns, self.data.columns.values(), strict=True):
            if column.type == "string":
                array = number_texts.drop_decimal_points(array)
            elif column.type not in ("int64", "float32") or as_is:
                pass
            elif not column.list:
                array = csv_numbers.normalize(array, rules)
            elif column.separator != JSON:  # whose numbers are as JSON has them
                array = csv_numbers.normalize_lists(array, rules, column.separator)
            arrays.append(array)
        return pa.record_batch(arrays, batch.schema)

    def _parse(self, data: bytes, names: tuple[str, ...], handler: object) -> pa.Table:
        """Parses whole rows, in this thread, to the columns of the config as binary."""
        rules = self.data.csv
        types = dict.fromkeys(self.data.columns, pa.binary())
        if not data.strip(b"\r\n"):
            return pa.schema(types.items()).empty_table()
        return pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            _build_parse_options(rules, data, handler),
            pa_csv.ConvertOptions(
                include_columns=list(types),
                column_types=types,
                null_values=list(rules.missing),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                check_utf8=False,
            ),
        )


def _combine(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _build_parse_options(
    rules: config.Csv, data: bytes, handler: object = None
) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=rules.delimiter,
        quote_char=rules.quote or False,
        newlines_in_values=bool(rules.quote) and rules.quote.encode() in data,
        invalid_row_handler=handler,
    )


def _decode_names(header: bytes, rules: config.Csv, path: str) -> tuple[str, ...]:
    """Returns the column names of a header. Raises `DataError` if they are no text."""
    try:
        return _parse_row(header, rules.delimiter, rules.quote)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise errors.DataError(
            f"{path!r}: its header cannot be read: it begins with {header[:_SHOWN]!r}"
            f"{_advise_encoding(header)}"
        ) from None


def _advise_encoding(header: bytes) -> str:
    """Returns what to do about a header that is not UTF-8, to end an error with."""
    if mark := file_kinds.detect_encoding(header):
        return f", the mark of {mark}. Set data.csv.encoding to {mark}"
    try:
        header.decode()
    except UnicodeDecodeError:
        return ", not UTF-8. Set data.csv.encoding; make schema suggests one"
    return ""


@functools.lru_cache
def _parse_row(header: bytes, delimiter: str, quote: str) -> tuple[str, ...]:
    """Returns the values of a row. Many files have the same header."""
    table = pa_csv.read_csv(
        pa.BufferReader(header),
        pa_csv.ReadOptions(use_threads=False, block_size=len(header) + 1),
        _build_parse_options(config.Csv(delimiter=delimiter, quote=quote), header),
    )
    return tuple(table.column_names)


def _write_letter(
    row: pa_csv.InvalidRow, path: str, *, first: int, rules: config.Csv
) -> base.Letter:
    number = first + row.number - 1
    return base.Letter(path, number, None, "columns", row.text, _describe_width(row, rules))


def _describe_width(row: pa_csv.InvalidRow, rules: config.Csv) -> str:
    """Says how many values a row has and how many it should, and what to do."""
    count, delimiter = row.actual_columns, rules.delimiter
    has = f"has {count} value{'' if count == 1 else 's'} for {row.expected_columns} columns"
    if count < row.expected_columns:
        return f"{has}: add what is missing, or remove the row"
    how = f"put a value that has {delimiter!r} in it in quotes, or set data.csv.delimiter"
    if not rules.quote:
        how = "set data.csv.quote or data.csv.delimiter"
    if row.text.rstrip("\r\n").endswith(delimiter):
        end = f"if all rows end with {delimiter!r}, end the header with it, too"
        return f"{has}, the last of them empty: {end}; else {how}"
    return f"{has}: {how}"
