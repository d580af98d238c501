"""What raw columns are like: which types they could have, what is missing, how many values differ.

Every row is read, through the same sources and conversions as a run, so that what is found holds
for the run too. Memory grows with the number of different values, up to a limit.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from pipeline.config.column_config import JSON
from pipeline.console import progress
from pipeline.steps.dates import COMPACT
from preprocessing.arrow import cast
from preprocessing.schema_inference import bad_texts, dates, extremes, precision, stray_quotes
from preprocessing.sources import csv_numbers, together
from preprocessing.sources.base import Letter, Source
from preprocessing.statistics import distinct

Kind = Literal["int64", "float32", "string"]
# The narrowest first.
KINDS: tuple[Kind, ...] = ("int64", "float32", "string")
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
# What people write where there is no value, besides what `data.csv.missing` has by default.
# fmt: off
TOKENS = (
    "NULL", "null", "Null", "(null)", "<null>", "None", "none", "NONE", "nil", "<NA>", "\\N",
    "NaN", "nan", "NAN", "NaT", "N/A", "n/a", "n.a.", "N.A.", "na", "#N/A", "#NULL!", "#VALUE!",
    "#DIV/0!", "?", "-", "--", "---", ".", "missing", "Missing", "unknown", "Unknown",
    "0000-00-00", "0000-00-00 00:00:00",
)
# fmt: on
# A column with more different values is not counted by value; of many columns each gets a share of
# what a table may have in all, about 150 bytes each, but some.
MAX_DIFFERENT, _IN_ALL, _AT_LEAST = 100_000, 4_000_000, 1000
# So many values of such a column are kept, at most.
FIRST = 100
# Texts that are digits but name something, such as postal codes: as numbers they lose their zeros.
_CODE = r"^-?0[0-9xX]"
# Whole numbers that Python reads, and numbers that are not or are written as powers of ten.
_WHOLE = r"^[+-]?\d{1,300}(\.0*)?$"
_MEASURED = r"^[+-]?(\d*\.\d*[1-9]|\d+\.?\d*[eE])"
# float32 has all whole numbers up to this, and then only some.
EXACT = 2**24
_LARGE = 2.0**63
# The least number that is a day with hour and minute.
_TIMES = 190001010000
# Different values that are no numbers, until a column is known to be text.
FEW = 20


@dataclasses.dataclass
class ColumnProfile:
    """One column. `lengths` counts rows by how many values they have, none if it is no list. Texts
    are cut at `separator`, if there is one.

    `csv` says how numbers are written. `pointed` tells if some whole ones are written as 1.0,
    `classes` if these are taken for whole numbers though, `large` are those of more than 64 bits,
    `measured` tells if some numbers are not whole, and `floats` if some are floats in the raw data.
    `different` counts values, as they lie in the raw data, and is `None` once they are more than
    `most`; `first` are some of these then, `beyond` estimates how many there are, and `apart` how
    many of these are numbers to float32.
    `empty` texts are neither missing nor values until `settle` says which.
    `least`, `greatest` of a string are lengths in characters.
    """

    kinds: tuple[Kind, ...] = KINDS
    csv: config.Csv = dataclasses.field(default_factory=config.Csv)
    separator: str = ""
    missing: int = 0
    empty: int = 0
    values: int = 0
    lengths: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    holes: bool = False
    codes: bool = False
    pointed: bool = False
    classes: bool = False
    large: precision.Large = dataclasses.field(default_factory=precision.Large)
    measured: bool = False
    floats: bool = False
    tokens: set[str] = dataclasses.field(default_factory=set)
    as_dates: dates.Seen = dataclasses.field(default_factory=dates.Seen)
    bad: bad_texts.BadTexts = dataclasses.field(default_factory=bad_texts.BadTexts)
    lines: stray_quotes.Lines = dataclasses.field(default_factory=stray_quotes.Lines)
    different: collections.Counter | None = dataclasses.field(default_factory=collections.Counter)
    first: tuple[Any, ...] = ()
    beyond: distinct.Distinct = dataclasses.field(default_factory=distinct.Distinct)
    apart: precision.Apart = dataclasses.field(default_factory=precision.Apart)
    most: int = MAX_DIFFERENT
    _texts: pa.DataType = dataclasses.field(default_factory=pa.binary)
    by_kind: dict[Kind, extremes.NumberStats] = dataclasses.field(
        default_factory=lambda: {kind: extremes.NumberStats() for kind in KINDS}
    )

    def see(self, array: pa.Array) -> None:
        """Takes in some rows, as a source found them."""
        self.missing += array.null_count
        present = array.drop_null()
        if pa.types.is_dictionary(present.type):
            present = present.dictionary_decode()
        if self.separator:
            present = self.bad.cut(present, self.separator)
            self.missing += present.null_count
            present = present.drop_null()
        rows = present
        if any(is_one(present.type) for is_one in _LISTS):
            for length in pc.list_value_length(present).value_counts().to_pylist():
                self.lengths[length["values"]] += length["counts"]
            present = present.flatten()
            self.holes |= present.null_count > 0
            present = present.drop_null()
        elif not self.separator and (empty := cast.find_empty_texts(present)) is not None:
            self.empty += pc.sum(empty).as_py()
            self._texts = present.type
            present = present.filter(pc.invert(empty))
        if len(present):
            found = present.value_counts()
            self._take(found.field(0), found.field(1).to_numpy())
        if self.by_kind["string"].refused:
            self.bad.see(rows, as_json=self.separator == JSON)

    def resolve_empty(self, taken_for_missing: Collection[str]) -> None:
        """Decides what empty texts are, after all rows: missing among numbers and dates, else texts
        like others. `taken_for_missing` can be made so by `data.csv.missing`."""
        if not self.empty:
            return
        empty, self.empty = self.empty, 0
        if (
            self.kind in ("int64", "float32")
            or self.as_dates.form
            or (self.absent & set(taken_for_missing))
        ):
            self.missing += empty
        else:
            self._take(pa.array([b""]).cast(self._texts), np.array([empty]))

    def _take(self, values: pa.Array, counts: np.ndarray) -> None:
        self.values += int(counts.sum())
        self._count(values, counts)
        if pa.types.is_temporal(values.type):
            self.kinds = ("string",)
            values = values.cast(pa.string())
        whole = pa.types.is_decimal(values.type) and values.type.scale <= 0
        if whole or pa.types.is_uint64(values.type):
            # What is too large for int64 is a hash, of which a float would be another.
            self.kinds = tuple(kind for kind in self.kinds if kind != "float32")
        if pa.types.is_integer(values.type) and pc.min(values).as_py() >= _TIMES:
            self.as_dates.see(values.cast(pa.string()).cast(pa.binary()))
        if pa.types.is_floating(values.type):
            self.floats = True
            self.measured |= bool(pc.any(pc.not_equal(values, pc.trunc(values))).as_py())
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = values.cast(pa.binary())
        if pa.types.is_binary(values.type):
            self._look_at_text(values)
        if "int64" in self.kinds and not self._are_whole(values):
            # How many are not is never asked.
            self.kinds = tuple(kind for kind in self.kinds if kind != "int64")
        for kind in self.kinds:
            if len(self.by_kind[kind].refused_values) <= FEW:
                self._try(kind, values, counts)
        if pa.types.is_binary(values.type) and "float32" in self.kinds:
            self._look_at_numbers(values)

    def _are_whole(self, values: pa.Array) -> bool:
        if pa.types.is_binary(values.type):
            values = csv_numbers.normalize(values, self.csv)
        return cast.fits(values, config.Column(type="int64", missing="allow"))

    def _count(self, values: pa.Array, counts: np.ndarray) -> None:
        if self.different is None:
            self._estimate(values, counts)
            return
        self.different.update(dict(zip(values.to_pylist(), counts.tolist(), strict=True)))
        if len(self.different) > self.most:
            # From all parts of what was read so far, as rows may be sorted.
            step = max(1, len(self.different) // FIRST)
            self.first = tuple(itertools.islice(self.different, 0, step * FIRST, step))
            times = np.fromiter(self.different.values(), np.int64)
            self._estimate(pa.array(self.different, values.type), times)
            self.different = None

    def _estimate(self, values: pa.Array, times: np.ndarray) -> None:
        self.beyond.see(values, times)
        if "float32" in self.kinds and len(self.by_kind["float32"].refused_values) <= FEW:
            self.apart.see(values, self.csv)

    @property
    def count_of_different(self) -> int:
        """How many different values there are; within 2 % if they are more than `most`."""
        return self.beyond.count if self.different is None else len(self.different)

    def compute_share_of_rare(self, below: int) -> float:
        """Returns the share of the rows whose value occurs less than `below` times; an estimate if
        there are more different ones than `most`."""
        if self.different is None:
            return min(1.0, self.beyond.count_rows_of_rare(below) / self.values)
        return sum(n for n in self.different.values() if n < below) / max(1, self.values)

    def _look_at_text(self, values: pa.Array) -> None:
        listed = pa.array([token.encode() for token in TOKENS])
        stands_in = pc.is_in(values, listed)
        seen, values = values.filter(stands_in), values.filter(pc.invert(stands_in))
        self.as_dates.see(values)
        self.tokens |= {token.decode() for token in seen.to_pylist()}
        self.codes |= bool(pc.any(pc.match_substring_regex(values, _CODE)).as_py())

    def _look_at_numbers(self, values: pa.Array) -> None:
        """Notes if there are whole numbers that float32 would make others."""
        about = self.by_kind["float32"]
        may_be_large = -(about.least or 0) >= _LARGE or (about.greatest or 0) >= _LARGE
        if (self.measured and not may_be_large) or len(about.refused_values) > FEW:
            return
        values = csv_numbers.normalize(values, self.csv)
        self.pointed |= bool(pc.any(pc.match_substring(values, ".")).as_py())
        if "int64" in self.kinds:
            return
        self.measured |= bool(pc.any(pc.match_substring_regex(values, _MEASURED)).as_py())
        if may_be_large:
            whole = values.filter(pc.match_substring_regex(values, _WHOLE))
            self.large.see(int(text.partition(b".")[0]) for text in whole.to_pylist())

    def _try(self, kind: Kind, values: pa.Array, counts: np.ndarray) -> None:
        """Converts different values to a type, and notes what they are or that they are refused."""
        about, written = self.by_kind[kind], values
        if kind != "string" and pa.types.is_binary(values.type):
            values = csv_numbers.normalize(values, self.csv)
        made, faults = cast.convert(values, config.Column(type=kind, missing="allow"))
        if faults:
            bad = np.any([rows for _, rows in faults], axis=0)
            about.refused += int(counts[bad].sum())
            refused = written.filter(pa.array(bad)).slice(0, FEW + 1).to_pylist()
            about.refused_values |= {_format_text(value) for value in refused}
            made, counts = made.filter(pa.array(~bad)), counts[~bad]
        if kind == "int64":
            self.as_dates.see_numbers(made.to_numpy(zero_copy_only=False))
        about.see(pc.utf8_length(made) if kind == "string" else made, counts)

    @property
    def kind(self) -> Kind | None:
        """The narrowest type that all values have; text if nothing else; of no value none."""
        if not self.values:
            return None
        fitting = [k for k in self.kinds if not self.by_kind[k].refused]
        if self.codes or not fitting:
            return "string"
        if fitting[0] == "int64" and "string" in fitting and self._have_times:
            return "string"
        if fitting[0] == "int64" and self.pointed and not (self.classes or self.is_wide):
            return "float32"
        # What is too large for int64 names something, if float32 would make many of them one.
        if fitting[0] == "float32" and (
            self.large.name_things if self.measured else self.large.numbers
        ):
            return "string"
        return fitting[0]

    @property
    def _have_times(self) -> bool:
        """Tells if whole numbers are days with times, such as 20150101134501: they are text, as
        their digits are places and no amount."""
        least = self.by_kind["int64"].least
        if least is None or least < _TIMES or self.as_dates.form != COMPACT:
            return False
        span = self.as_dates.spans[COMPACT]
        return dates.COMPACT_FROM <= span.first_day.year <= span.last_day.year <= dates.COMPACT_TO

    @property
    def is_wide(self) -> bool:
        """Tells if float32 has not all the whole numbers that these lie among."""
        about = self.by_kind["int64"]
        return max(abs(about.least or 0), abs(about.greatest or 0)) > EXACT

    @property
    def about(self) -> extremes.NumberStats:
        """What the values are as `kind`."""
        assert self.kind is not None
        return self.by_kind[self.kind]

    @property
    def strays(self) -> set[str]:
        """The texts for which alone this is not a column of numbers, if few rows have them."""
        numbers = self.by_kind["float32"]
        if self.kind != "string" or self.codes or self.large.numbers or numbers.least is None:
            return set()
        few = len(numbers.refused_values) <= FEW and numbers.refused * 100 < self.values
        return numbers.refused_values if few else set()

    def list_some(self) -> list[str]:
        """Returns the first values, as text."""
        values = self.first if self.different is None else self.different
        return [_format_text(value) for value in itertools.islice(values, FIRST)]

    @property
    def listed(self) -> bool:
        """Tells if rows have different numbers of values, or may have."""
        return bool(self.separator) or len(self.lengths) > 1 or 0 in self.lengths

    def list_texts(self) -> Iterator[str]:
        """Yields all different values as text; of very many the first."""
        return map(_format_text, self.first if self.different is None else self.different)

    def count_texts(self) -> Iterator[tuple[str, int]]:
        """Yields all different values as text, and how often each occurs; of very many the first,
        as if each occurred once."""
        counts = dict.fromkeys(self.first, 1) if self.different is None else self.different
        return ((_format_text(value), count) for value, count in counts.items())

    @property
    def texts(self) -> set[str]:
        """The values of what is text but has no leading zeros, and some of what is numbers; of
        very many some."""
        if self.kind is None or self.codes or self.lengths:
            return set()
        if self.kind != "string":
            return set(self.list_some()) - self.tokens
        if self.different is None:
            return self.by_kind["float32"].refused_values
        return {_format_text(value) for value in self.different} - self.tokens

    @property
    def absent(self) -> set[str]:
        """The texts that must stand for no value, if this is to be a column of numbers or dates."""
        if self.as_dates.form:
            return self.tokens
        numbers = self.by_kind["float32"]
        others = numbers.refused_values - self.tokens
        if "float32" not in self.kinds or self.codes or others or not self.tokens:
            return set()
        return self.tokens if numbers.least is not None else set()


@dataclasses.dataclass(frozen=True)
class Survey:
    """All columns of the rows that were read, and the rows that could not be, by reason, with the
    first of them."""

    rows: int
    columns: dict[str, ColumnProfile]
    unreadable: collections.Counter[str]
    first_unreadable: Letter | None = None


def survey(
    source: Source,
    kinds: dict[str, tuple[Kind, ...]],
    separators: Mapping[str, str] = {},
    *,
    in_all: int = _IN_ALL,
    at_least: int = _AT_LEAST,
) -> Survey:
    """Reads everything. `kinds` are the types that each column may be given; texts of a column that
    has one of the `separators` are lists. About `in_all` values of the table are counted, and of a
    column `at_least` so many."""
    rules = source.data.csv
    names = source.data.columns
    most = min(MAX_DIFFERENT, max(at_least, in_all // len(names)))
    found = {
        name: ColumnProfile(
            kinds=kinds[name], csv=rules, most=most, separator=separators.get(name, "")
        )
        for name in names
    }
    unreadable: collections.Counter[str] = collections.Counter()
    read, first = 0, None
    source = together.wrap(source)
    chunks = [chunk for split in source.data.inputs for chunk in source.plan(split)]
    known = [chunk.rows for chunk in chunks]
    total = None if None in known else sum(rows or 0 for rows in known)
    with progress.Progress("reading", total, unit="rows") as bar:
        for chunk in chunks:
            for rows in source.read(chunk):
                for name, column in found.items():
                    column.see(rows.batch.column(name))
                    if source.data.source == "csv":
                        column.lines.see(name, rows)
                unreadable.update(letter.reason for letter in rows.letters)
                first = first or next(iter(rows.letters), None)
                read += rows.batch.num_rows
                bar.reach(read)
    # Only of CSV can other texts be taken for missing.
    others = set(TOKENS) - set(rules.missing) if source.data.source == "csv" else set()
    for column in found.values():
        column.resolve_empty(others)
    return Survey(read, found, unreadable, first)


def _format_text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
