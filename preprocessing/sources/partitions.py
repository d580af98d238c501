"""Columns that stand in the names of folders, as Hive, Spark and others write them.

`lake/day=2024-06-01/part-0.parquet` holds rows whose column `day` is 2024-06-01. Only folders right
above a file count. A column that a file has itself is read from the file.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
    stand in all of these, and that the first file with rows does not have itself."""
    try:
        found = [file for split in sorted(data.inputs) for file in files.find(data, split)]
    except errors.DataError:  # which the source will say when it reads
        return make(data)
    paths = [file.path for file in found]
    somewhere = {name for path in paths for name in read_columns(path) if name in data.columns}
    if not somewhere:
        return make(data)
    own: tuple[str, ...] = ()
    if data.source != "csv" or data.csv.header:
        # A file of JSON lines may be empty.
        own = next(filter(None, map(make(data).find_names, found)), ())
    named = [name for name in find_common(paths) if name in somewhere and name not in own]
    rest = {name: column for name, column in data.columns.items() if name not in named}
    if not rest:
        return make(data)
    source = make(data.model_copy(update={"columns": rest}))
    return Partitioned(source, data, tuple(named), paths=paths, own=somewhere.intersection(own))


def describe_both(name: str) -> str:
    """Returns a remark on a column that is in the names of folders and in the files."""
    return (
        f"{name!r} is in the names of folders and in the files: that of the files is read. Rename "
        "one of the two to have both"
    )


class Partitioned(base.Source):
    """A source whose files have some `columns` in their `paths`. Of the columns that only some
    paths have, and of `own` ones, which the first file has itself, the files are read."""

    def __init__(
        self,
        source: base.Source,
        data: config.Data,
        columns: tuple[str, ...],
        *,
        paths: Sequence[str],
        own: Collection[str],
    ) -> None:
        super().__init__(data)
        self.sizes = source.sizes
        self._source, self._columns = source, columns
        self._first, self._own = paths[0], sorted(own)
        # Of each column that only some paths have: the first that has it, and the first without.
        self._partly: dict[str, tuple[str, str]] = {}
        every = [(path, read_columns(path)) for path in paths]
        for name in dict.fromkeys(name for _, found in every for name in found):
            lacking = next((path for path, found in every if name not in found), None)
            if name in data.columns and name not in own and lacking is not None:
                path = next(path for path, found in every if name in found)
                self._partly[name] = path, lacking

    @property
    def remarks(self) -> list[str]:
        """Returns what is read from the files although folders are called like it."""
        partly = (
            f"{name!r} is in the names of folders, as of {path!r}, but not of {lacking!r}: that of "
            "the files is read"
            for name, (path, lacking) in self._partly.items()
        )
        return [*map(describe_both, self._own), *partly]

    def files(self) -> list[base.RawFile]:
        """Returns the files of the source."""
        return self._source.files()

    def read_names(self, file: base.RawFile) -> tuple[str, ...] | None:
        """Returns the columns of a file and of its path."""
        own = self._source.read_names(file)
        return None if own is None else (*own, *self._columns)

    def plan(self, split: SplitName) -> list[base.Chunk]:
        """Cuts as the source does. Raises `MissingColumn`, which says if folders have it."""
        try:
            return self._source.plan(split)
        except base.MissingColumn as error:
            raise self._explain(error) from None

    def _explain(self, error: base.MissingColumn) -> base.MissingColumn:
        """Returns the error of a file that lacks a column, in terms of the folders if they have
        it."""
        name = error.name
        owner = self._first if name in self._own else None
        if name in self._partly:
            path, lacking = self._partly[name]
            if name not in (self._source.read_names(base.RawFile(lacking, lacking)) or ()):
                hint = (
                    f": no folder of its path is {name}=..., as of {path!r}. Move it, or leave it"
                )
                return base.MissingColumn(lacking, name, f"{hint} out")
            owner = lacking
        if owner is None:
            return error
        hint = (
            f" in the file. {owner!r} has it itself, and then the folder {name}=... of no file "
            "counts: remove or rename it in one of the two"
        )
        return base.MissingColumn(error.path, name, hint)

    def read_rest(self, letter: base.Letter, changed: Collection[str]) -> base.Rows:
        """Returns what the source does, unless columns of the path would be missing."""
        if self._columns:
            return super().read_rest(letter, changed)
        return self._source.read_rest(letter, changed)

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
