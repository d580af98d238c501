"""Parquet files: each row group is a chunk. Columns are found by name and may have other types."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import errors, storage
from pipeline.config.splits import SplitName
from preprocessing.arrow import plain_types
from preprocessing.sources import base, files, lakes

# Rows that are read at a time, at most: values that repeat take almost no room in a file.
_ROWS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Group:
    """Row group `index` of a file; `first` is the number of rows before it, `bytes` unpacked."""

    file: base.RawFile
    index: int
    first: int
    rows: int
    bytes: int


class ParquetSource(base.Source):
    """Rows of Parquet files, counted from 1."""

    def files(self) -> list[base.RawFile]:
        """Returns the files of each split, by the order of their names."""
        return [file for split in sorted(self.data.inputs) for file in self._find(split)]

    def read_names(self, file: base.RawFile) -> tuple[str, ...]:
        """Returns the columns of the file's schema."""
        with _open_file(file.path) as content:
            return tuple(content.schema_arrow.names)

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Reads the metadata of each file; one that lacks a column is a `DataError`."""
        groups = [group for file in self._find(split) for group in self._list_groups(file)]
        return [base.Chunk(split, index, g.rows, g, g.bytes) for index, g in enumerate(groups)]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the rows of a row group with the types of the file, but for those that few of
        Arrow's functions take; dates and times as ISO 8601, or as numbers if the column has these;
        NaN as no value."""
        group: Group = chunk.details
        path, wanted = group.file.path, list(self.data.columns)
        at_once = min(_ROWS, max(1, self.read_bytes * group.rows // max(1, group.bytes)))
        first = group.first
        with _open_file(path) as file:
            for batch in file.iter_batches(at_once, [group.index], wanted, use_threads=False):
                arrays = [
                    plain_types.to_readable(batch.column(name), self.data.columns[name].type)
                    for name in wanted
                ]
                yield base.Rows(
                    pa.record_batch(arrays, wanted),
                    first + 1,
                    dict.fromkeys(wanted, path),
                    name=group.file.name,
                )
                first += len(batch)

    def _find(self, split: SplitName) -> list[base.RawFile]:
        found = files.find(self.data, split)
        lakes.refuse({storage.parent(file.path) for file in found})
        return found

    def _list_groups(self, file: base.RawFile) -> Iterator[Group]:
        with _open_file(file.path) as content:
            base.check_names(
                tuple(content.schema_arrow.names), list(self.data.columns), file.path, holder="it"
            )
            first = 0
            for index in range(content.metadata.num_row_groups):
                found = content.metadata.row_group(index)
                if found.num_rows:
                    yield Group(file, index, first, found.num_rows, found.total_byte_size)
                first += found.num_rows


def read_schema(path: str) -> pa.Schema:
    """Returns the columns of a file. Raises `DataError` if it is not readable as Parquet."""
    with _open_file(path) as file:
        return file.schema_arrow


@contextlib.contextmanager
def _open_file(path: str) -> Iterator[pq.ParquetFile]:
    with files.translate_errors(path), storage.open_file(path) as raw:
        try:
            yield pq.ParquetFile(raw)
        except (pa.ArrowInvalid, pa.ArrowException) as error:
            line = str(error).splitlines()[0]
            raise errors.DataError(f"{path!r}: not readable as Parquet: {line}") from None
