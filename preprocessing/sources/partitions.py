"""Columns that stand in the names of folders, as Hive, Spark and others write them.

`lake/day=2024-06-01/part-0.parquet` holds rows whose column `day` is 2024-06-01. Only folders right
above a file count. A column that a file has itself is read from the file.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote

import pyarrow as pa

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from preprocessing.sources import base, files

_FOLDER = re.compile(r"(?P<column>[^=/]+)=(?P<value>[^/]*)")
# What is written for rows without a value.
_NOTHING = ("", "__HIVE_DEFAULT_PARTITION__")


def read_columns(path: str) -> dict[str, str | None]:
    """Returns the columns in the names of the folders right above a file, with their values."""
    found = []
    for folder in reversed(path.split("/")[:-1]):
        if not (match := _FOLDER.fullmatch(folder)):
            break
        value = unquote(match["value"])
        found.append((unquote(match["column"]), None if value in _NOTHING else value))
    return dict(reversed(found))


def find_common(paths: Iterable[str]) -> list[str]:
    """Returns the columns that stand in the path of every file."""
    every = [read_columns(path) for path in paths]
    return [name for name in (every[0] if every else {}) if all(name in found for found in every)]


def list_below(folder: str) -> tuple[str, list[str]]:
    """Returns what is in a folder, as a pattern of folders and the paths in them.

    That are the folder itself and its names; or, if these are all like `day=2024-06-01`, those
    below. Hidden names do not count. Raises `DataError` if folders differ in their columns.
    """
    names = [name for name in storage.listdir(folder) if not name.startswith((".", "_"))]
    if not names or not all(map(_FOLDER.fullmatch, names)):
        return folder, [storage.join(folder, name) for name in names]
    top = len(folder.rstrip("/")) + 1
    every = storage.glob(storage.join(files.escape(folder), "**"))
    paths = [path for path in every if not re.search(r"/[._]", f"/{path[top:]}")]
    levels = {tuple(path[top:].split("/")[:-1]) for path in paths}
    columns = {tuple(name.partition("=")[0] for name in level) for level in levels}
    if len(columns) != 1 or not all(_FOLDER.fullmatch(name) for level in levels for name in level):
        raise errors.DataError(
            f"{folder!r}: its folders name different columns, or none, such as "
            f"{', '.join(sorted(map('/'.join, levels))[:3]) or 'empty ones'}; give a pattern of "
            "files whose folders all name the same columns"
        )
    return storage.join(folder, *(f"{name}=*" for name in columns.pop())), paths


def wrap(make: Callable[[config.Data], base.Source], data: config.Data) -> base.Source:
    """Returns the source of `make`, which also reads those columns from the paths of files that
    stand in all of these, and that the first file does not have itself."""
    try:
        found = [file for split in sorted(data.inputs) for file in files.find(data, split)]
    except errors.DataError:  # which the source will say when it reads
        return make(data)
    named = [name for name in find_common(file.path for file in found) if name in data.columns]
    if named and (data.source != "csv" or data.csv.header):
        own = make(data).read_names(found[0]) or ()
        named = [name for name in named if name not in own]
    rest = {name: column for name, column in data.columns.items() if name not in named}
    if not named or not rest:
        return make(data)
    return Partitioned(make(data.model_copy(update={"columns": rest})), data, tuple(named))


class Partitioned(base.Source):
    """A source whose files have some `columns` in their paths."""

    def __init__(self, source: base.Source, data: config.Data, columns: tuple[str, ...]) -> None:
        super().__init__(data)
        self.sizes = source.sizes
        self._source, self._columns = source, columns

    def files(self) -> list[base.RawFile]:
        """Returns the files of the source."""
        return self._source.files()

    def read_names(self, file: base.RawFile) -> tuple[str, ...] | None:
        """Returns the columns of a file and of its path."""
        own = self._source.read_names(file)
        return None if own is None else (*own, *self._columns)

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Cuts as the source does."""
        return self._source.plan(split)

    def read(self, chunk: base.Chunk) -> Iterator[base.Rows]:
        """Yields rows as the source does, with text in the columns of the path."""
        path = chunk.details.file.path
        values = {name: pa.scalar(read_columns(path)[name], pa.string()) for name in self._columns}
        for rows in self._source.read(chunk):
            count = rows.batch.num_rows
            arrays = [
                pa.repeat(values[name], count).cast(pa.binary())
                if name in values
                else rows.batch.column(name)
                for name in self.data.columns
            ]
            yield dataclasses.replace(
                rows,
                batch=pa.record_batch(arrays, list(self.data.columns)),
                files={**rows.files, **dict.fromkeys(self._columns, path)},
            )
