"""ORC files: each stripe is a chunk. Columns are found by name and may have other types."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.orc

from pipeline import errors, storage
from pipeline.config.splits import SplitName
from preprocessing.arrow import plain_types
from preprocessing.sources import base, files, lakes


@dataclasses.dataclass(frozen=True)
class Stripe:
    """Stripe `index` of a file; `first` is the number of rows before it."""

    file: base.RawFile
    index: int
    first: int


class OrcSource(base.Source):
    """Rows of ORC files, counted from 1."""

    def files(self) -> list[base.RawFile]:
        """Returns the files of each split, by the order of their names."""
        return [file for split in sorted(self.data.inputs) for file in self._find(split)]

    def read_names(self, file: base.RawFile) -> tuple[str, ...]:
        """Returns the columns of the file's schema."""
        return tuple(read_schema(file.path).names)

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Counts the rows of each stripe; a file that lacks a column is a `DataError`."""
        found = [stripe for file in self._find(split) for stripe in self._list_stripes(file)]
        return [
            base.Chunk(split, index, rows, stripe, size)
            for index, (stripe, rows, size) in enumerate(found)
        ]

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields the rows of a stripe as the Parquet source does those of a row group."""
        stripe: Stripe = chunk.details
        path, wanted = stripe.file.path, list(self.data.columns)
        with _open_file(path) as file:
            batch = _read_stripe(file, stripe.index, wanted)
        at_once = max(1, self.read_bytes * batch.num_rows // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, at_once):
            part = batch.slice(start, at_once)
            arrays = [
                plain_types.to_readable(part.column(name), self.data.columns[name].type)
                for name in wanted
            ]
            yield base.Rows(
                pa.record_batch(arrays, wanted),
                stripe.first + start + 1,
                dict.fromkeys(wanted, path),
                name=stripe.file.name,
            )

    def _find(self, split: SplitName) -> list[base.RawFile]:
        found = files.find(self.data, split)
        lakes.refuse({storage.parent(file.path) for file in found})
        return found

    def _list_stripes(self, file: base.RawFile) -> Iterator[tuple[Stripe, int, int]]:
        """Yields each stripe with rows, how many, and about how many bytes it has in the file."""
        wanted, first = list(self.data.columns), 0
        with _open_file(file.path) as content:
            base.check_names(tuple(content.schema.names), wanted, file.path, holder="it")
            size = storage.size(file.path) // max(1, content.nstripes)
            for index in range(content.nstripes):
                # The file says how many rows there are, but not in which stripe.
                rows = _read_stripe(content, index, wanted[:1]).num_rows
                if rows:
                    yield Stripe(file, index, first), rows, size
                first += rows


def read_schema(path: str) -> pa.Schema:
    """Returns the columns of a file. Raises `DataError` if it is not readable as ORC."""
    with _open_file(path) as file:
        return file.schema


def _read_stripe(file: pyarrow.orc.ORCFile, index: int, wanted: Sequence[str]) -> pa.RecordBatch:
    # To the library a dot in a name is the way to a part of a column.
    names = None if any("." in name for name in wanted) else list(wanted)
    return file.read_stripe(index, names)


@contextlib.contextmanager
def _open_file(path: str) -> Iterator[pyarrow.orc.ORCFile]:
    with files.translate_errors(path), storage.open_file(path) as raw:
        try:
            yield pyarrow.orc.ORCFile(raw)
        except (pa.ArrowException, OSError) as error:
            line = (str(error).splitlines() or [""])[0]
            raise errors.DataError(f"{path!r}: not readable as ORC: {line}") from None
