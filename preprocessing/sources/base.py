"""What every kind of raw data has to offer: files, a plan of chunks, and a way to read one."""

from __future__ import annotations

import abc
import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pipeline import config, errors
from pipeline.config.splits import SplitName

# Every column of what is read at a time costs something, however few its rows are: from so many
# columns on more is read, up to a whole chunk.
WIDE_COLUMNS = 500
_EVENLY = 8


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How many raw bytes are taken at a time.

    `read` is what is read, encoded and spilled: large enough to make Python's share per row small,
    small enough that allocators reuse memory instead of asking for fresh pages. `chunk` is a chunk:
    some reads, so that one can be encoded while another is written.
    """

    read: int = 4 << 20
    chunk: int = 32 << 20

    def choose_chunk_size(self, size: int) -> int:
        """Returns how many of the `size` bytes of a file that can be cut anywhere go into a chunk:
        all, or a multiple of eight chunks that are as equal as rows let them be, so that 2, 4 or 8
        processes have the same to do."""
        if size <= self.chunk:
            return self.chunk
        chunks = -(-size // (self.chunk * _EVENLY)) * _EVENLY
        return -(-size // chunks)


SIZES = Sizes()
# Names that an error shows, and characters of one.
_LISTED, _LONG = 20, 60


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One file that goes in. `name` goes into the manifest, so it holds no folder of this host."""

    name: str
    path: str


@dataclasses.dataclass(frozen=True)
class Chunk:
    """One piece of work: a part of a split, small enough to be sent to any worker.

    `index` counts the chunks of a split in the order of their rows, `rows` is how many there
    are if that is known before reading, `details` is what the source needs to find them, `bytes`
    is about how many they take, if that is known: small chunks are put together
    (`preprocessing.sources.together`).
    """

    split: SplitName
    index: int
    rows: int | None = None
    details: Any = None
    bytes: int | None = None


@dataclasses.dataclass(frozen=True)
class Letter:
    """A row that cannot become a record, and why: one line of the dead letters.

    `row` is counted as a spreadsheet does where the source has such rows: a header is row 1; it is
    -1 if rows have no numbers.
    `problem` completes "column 'x' ..." for people; `value` is the raw text, if it may be shown.
    `raw` has the row's columns as they were found, to be corrected, and `of` is a hash of them
    (of `value` if the row could not be cut into columns): see
    `preprocessing.dead_letters.corrections`. A source gives `raw` as it is, and no `of`; what is
    sensitive or long is taken out of it before it is written.
    """

    file: str
    row: int
    column: str | None
    reason: str
    value: str | None
    problem: str
    raw: Mapping[str, Any] | None = None
    of: str | None = None

    def __str__(self) -> str:
        column = f"column {self.column!r} " if self.column else ""
        row = f"row {self.row}: " if self.row >= 0 else ""
        return f"{self.file!r}: {row}{column}{self.problem}"


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Rows of one file among those of others in a batch: from row `start` to the next stretch."""

    start: int
    file: RawFile


@dataclasses.dataclass(frozen=True)
class Rows:
    """Some rows of a chunk, in order.

    `batch` has the config's columns as the source found them: with the types of
    `arrow_types.arrow_schema`, or others that `cast` turns into these, such as text. `files` says
    where each column was read, `first_row` which row of these files is the first, `numbers` which
    one each is if they do not follow one another. `letters` are rows that could not even be read.
    `name` is what the manifest calls the file; if every row is a file of its own, `each` has them;
    if there are rows of several files, `stretches` says which are whose. In columns `exchanged` the
    source has put a point for the decimal mark of the file, and that mark for a point.
    """

    batch: pa.RecordBatch
    first_row: int = 0
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    numbers: np.ndarray | None = None
    letters: tuple[Letter, ...] = ()
    name: str = ""
    each: tuple[RawFile, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    exchanged: frozenset[str] = frozenset()

    def file(self, column: str, row: int = 0) -> str:
        """Returns the file that a column of the row at `row` of `batch` was read from."""
        if self.stretches:
            return self.stretches[int(self.find_owners(np.array([row]))[0])].file.path
        return self.each[row].path if self.each else self.files.get(column, "input")

    def find_owners(self, rows: np.ndarray) -> np.ndarray:
        """Returns which of the `stretches` each of some rows of `batch` is in."""
        starts = [stretch.start for stretch in self.stretches]
        return np.searchsorted(starts, rows, side="right") - 1

    def find_paths(self, rows: np.ndarray) -> pa.DictionaryArray | None:
        """Returns the file of each of some rows of `batch`; `None` if it is the same for all."""
        if not self.stretches:
            return None
        paths = pa.array([stretch.file.path for stretch in self.stretches])
        owners = self.find_owners(rows).astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(owners), paths)

    def find_number(self, row: int) -> int:
        """Returns which row of its file the one at `row` of `batch` is."""
        return self.first_row + row if self.numbers is None else int(self.numbers[row])

    def list_numbers(self) -> np.ndarray:
        """Returns which row of its file each of `batch` is."""
        if self.numbers is not None:
            return self.numbers
        return np.arange(self.first_row, self.first_row + self.batch.num_rows)


class MissingColumn(errors.DataError):
    """A file lacks a column that `owner` has; `hint` follows in the message."""

    def __init__(self, path: str, name: str, hint: str, *, owner: str = "the config") -> None:
        super().__init__(f"{path!r}: column {name!r} of {owner} is missing{hint}")
        self.path, self.name, self.hint = path, name, hint

    def __reduce__(self) -> tuple[type[MissingColumn], tuple[str, str, str]]:
        return type(self), (self.path, self.name, self.hint)


def check_names(names: Sequence[str], wanted: Sequence[str], path: str, *, holder: str) -> None:
    """Raises `MissingColumn` if a wanted column is not there, `DataError` if it is there twice;
    `holder` has them."""
    there = collections.Counter(names)
    for name in wanted:
        if there[name] == 1:
            continue
        listed = f"; {holder} has {_format_names(names)}"
        if name not in there:
            raise MissingColumn(path, name, errors.suggest(name, names) + listed)
        raise errors.DataError(
            f"{path!r}: column {name!r} of the config is there {there[name]} times{listed}"
        )


def _format_names(names: Sequence[str]) -> str:
    """Returns names for a message: the first ones, none of them long, in one line."""
    shown = [name if name.isprintable() else repr(name)[1:-1] for name in names[:_LISTED]]
    shown = [name if len(name) <= _LONG else f"{name[:_LONG]}…" for name in shown]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(shown) + more


class Source(abc.ABC):
    """A kind of raw data. Instances are sent to workers, so they hold nothing open.

    All methods raise `DataError` naming the file, what was found and what is allowed.
    """

    # If rows have numbers by which they can be found again.
    numbered: ClassVar[bool] = True
    # Set by `choose`: classes of users need not take it.
    sizes = SIZES

    def __init__(self, data: config.Data) -> None:
        self.data = data

    @property
    def read_bytes(self) -> int:
        """Raw bytes that are read, encoded and spilled at a time."""
        wide = max(1, len(self.data.columns) // WIDE_COLUMNS)
        return min(self.sizes.chunk, self.sizes.read * wide)

    @abc.abstractmethod
    def files(self) -> list[RawFile]:
        """Returns every file that is read, in an order that depends on the config alone."""

    def read_names(self, file: RawFile) -> tuple[str, ...] | None:
        """Returns the columns that a file says it has; `None` where each row says that for itself,
        and lacks what it does not have."""
        return None

    def find_names(self, file: RawFile) -> tuple[str, ...]:
        """Returns the columns that a file has: those of `read_names`, or of its first rows."""
        return self.read_names(file) or ()

    @property
    def remarks(self) -> list[str]:
        """Returns what may be wrong with the files, each to follow "warning: "."""
        return []

    def hash_changes(self) -> str:
        """Returns a hash of what was changed in the rows of the files as they are read, if any."""
        return ""

    @abc.abstractmethod
    def plan(self, split: SplitName) -> list[Chunk]:
        """Cuts a split of `data.inputs` into chunks, always the same way for the same files."""

    def read_rest(self, letter: Letter, changed: Collection[str]) -> Rows:
        """Returns the row of a letter that `read` has given, without its `changed` columns: all are
        null where the source could not cut it into columns. What of the rest cannot be read is a
        letter again."""
        nulls = [pa.nulls(1)] * len(self.data.columns)
        batch = pa.record_batch(nulls, list(self.data.columns))
        files = dict.fromkeys(self.data.columns, letter.file)
        return Rows(batch, files=files, numbers=np.array([letter.row]))

    @abc.abstractmethod
    def read(self, chunk: Chunk) -> Iterator[Rows]:
        """Yields the rows of a chunk in order, about `read_bytes` at a time."""
