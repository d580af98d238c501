"""Turns what a source found into rows that are what the config declares, and letters for the rest.

A row with several faults gets one letter, for its first column in the order of the config.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline import config
from pipeline.config.splits import SplitName
from preprocessing.arrow import arrow_types, cast, image_values, lists
from preprocessing.rows import rules
from preprocessing.rows.split import assign
from preprocessing.sources import csv_numbers
from preprocessing.sources.base import Letter, Rows

# Characters of a value that a letter shows, and of one that a row may be corrected with.
SHOWN = 64
_KEPT = 4096
REDACTED = "<redacted>"


@dataclasses.dataclass(frozen=True)
class Good:
    """Rows that may become records, and what became of the others.

    `numbers` says which row of its file each one was, `splits` where in `SPLITS` it goes unless its
    key decides, `kept` which of the rows that were read they are. `truncated` counts, by column,
    the good rows whose list lost items. The rows of `left_out` were good and are left out by
    `data.sample`; `None` without any.
    """

    numbers: np.ndarray
    splits: np.ndarray
    kept: np.ndarray
    batch: pa.RecordBatch
    letters: list[Letter]
    dropped: int
    truncated: Mapping[str, int] = dataclasses.field(default_factory=dict)
    left_out: pa.RecordBatch | None = None

    @property
    def sampled(self) -> int:
        """How many rows `data.sample` left out."""
        return 0 if self.left_out is None else self.left_out.num_rows

    @property
    def read(self) -> int:
        """How many rows there were."""
        return self.batch.num_rows + len(self.letters) + self.dropped + self.sampled


def enforce(rows: Rows, data: config.Data, split: SplitName) -> Good:
    """Converts types, applies the rules of each column, and sorts rows by the outcome.

    The rows are from the inputs of `split`; some may go to others.
    """
    faults: dict[int, tuple[str, str]] = {}
    arrays, dropped = [], np.zeros(rows.batch.num_rows, bool)
    longer: dict[str, np.ndarray] = {}
    sizes: dict[str, np.ndarray] = {}
    for name, column in data.columns.items():
        raw = cast.null_empty_texts(rows.batch.column(name), column)
        array, found = cast.convert(raw, column)
        if column.list:
            sizes[name] = lists.count_items(array)
        if column.list and column.on_longer != "reject":
            last = column.on_longer == "keep_last"
            array, longer[name] = lists.shorten(array, column.max_items or 0, last=last)
        array, nan = rules.null_nan(array, column)
        missing = raw.is_null().to_numpy(zero_copy_only=False) | nan
        if column.missing == "drop":
            dropped |= missing
        elif column.missing == "reject" or (data.in_place and column.default is not None):
            # What is used in place keeps its NaN, for which the trainer takes no default.
            found.append(("missing", missing if column.missing == "reject" else nan))
        found += rules.find_not_finite(array, column, label=name in data.every_label)
        for reason, bad in [*found, *rules.find_broken(array, column)]:
            for row in np.flatnonzero(bad).tolist():
                faults.setdefault(row, (name, reason))
        arrays.append(array)
    for name, bad in _find_other_lengths(sizes, data.columns):
        for row in np.flatnonzero(bad & ~dropped).tolist():
            faults.setdefault(row, (name, "lengths"))
    batch = pa.record_batch(arrays, arrow_types.arrow_schema(data.columns))
    splits, found = assign(batch, split, data)
    for reason, bad in found:
        for row in np.flatnonzero(bad).tolist():
            faults.setdefault(row, (data.split.columns[0], reason))
    letters = _write_letters(rows, faults, data)
    dropped[list(faults)] = False
    numbers = rows.list_numbers()
    good = ~dropped
    good[list(faults)] = False
    kept = np.flatnonzero(good)
    if len(kept) < len(good):
        batch = batch.filter(pa.array(good))
        numbers, splits = numbers[good], splits[good]
    letters = [*(_redact(letter, data.columns) for letter in rows.letters), *letters]
    files = {stretch.file.path: n for n, stretch in enumerate(rows.stretches)}
    letters.sort(key=lambda letter: (files.get(letter.file, -1), letter.row))
    truncated = {name: int(found[kept].sum()) for name, found in longer.items()}
    return Good(numbers, splits, kept, batch, letters, int(dropped.sum()), truncated)


def _find_other_lengths(
    sizes: Mapping[str, np.ndarray], columns: Mapping[str, config.Column]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields lists that have to be as long as another, and the rows `[rows]` bool where they are
    not; `sizes` are those before long ones are cut."""
    for name in sizes:
        other = columns[name].same_length_as
        if other is not None and other in sizes:
            yield name, sizes[name] != sizes[other]


def _write_letters(
    rows: Rows, faults: Mapping[int, tuple[str, str]], data: config.Data
) -> list[Letter]:
    bad = sorted(faults)
    raw = list_raw_rows(rows.batch.take(pa.array(bad, pa.int64())), data.columns) if bad else []
    letters = []
    for row, found in zip(bad, raw, strict=True):
        name, reason = faults[row]
        letter = _write_letter(rows, row, name, reason=reason, data=data)
        letters.append(dataclasses.replace(letter, raw=found, of=hash_raw_row(found)))
    return letters


def _write_letter(rows: Rows, row: int, name: str, *, reason: str, data: config.Data) -> Letter:
    column, raw = data.columns[name], rows.batch.column(name)[row].as_py()
    if column.type == "uint8" and isinstance(raw, bytes):
        raw = _find_out_of_range(raw, column)
    if column.type == "image" and isinstance(raw, bytes):
        raw = image_values.describe(raw)
    shown: object = _to_json(raw) if isinstance(raw, bytes | list) else raw
    if name in rows.exchanged and isinstance(raw, bytes):
        shown = csv_numbers.restore_marks(str(shown), data.csv)
    shown = _abbreviate(shown) if isinstance(shown, str | list) else shown
    if column.sensitive and reason != "missing":
        shown = REDACTED
    value = None if reason == "missing" else str(shown)
    problem = rules.describe_problem(reason, shown, column, label=name in data.every_label)
    return Letter(rows.file(name, row), rows.find_number(row), name, reason, value, problem)


def list_raw_rows(
    batch: pa.RecordBatch, columns: Mapping[str, config.Column]
) -> list[dict[str, Any]]:
    """Returns what each row holds, as JSON takes it, for a person to correct.

    Pixels and values of thousands of characters are left out, those of sensitive columns hidden.
    """
    found: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for name, column in columns.items():
        if column.is_image:
            continue
        for row, value in zip(found, batch.column(name).to_pylist(), strict=True):
            row[name] = _to_json(value)
    return [show_raw_row(row, columns) for row in found]


def show_raw_row(raw: Mapping[str, Any], columns: Mapping[str, config.Column]) -> dict[str, Any]:
    """Returns the values of a row that a person may see, as `list_raw_rows`."""
    shown = {
        name: REDACTED if columns[name].sensitive and value is not None else value
        for name, value in raw.items()
    }
    return {name: value for name, value in shown.items() if len(str(value)) <= _KEPT}


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def hash_raw_row(raw: Mapping[str, Any] | str) -> str:
    """Returns a short hash by which a row is known to be the same, or edited."""
    return config.digest({"raw": raw})[:16]


def hash_unread(letter: Letter, columns: Mapping[str, config.Column]) -> str:
    """Returns the hash of a row that could not be read, of a letter as a source gives it: of what
    it shows of the columns, or else of the text; of its length if the text may hold what is
    sensitive, because one could try values until their hash is the same."""
    if letter.raw is not None:
        return hash_raw_row(show_raw_row(letter.raw, columns))
    text = letter.value or ""
    return hash_raw_row(f"{len(text)} characters" if _has_sensitive(columns) else text)


def _has_sensitive(columns: Mapping[str, config.Column]) -> bool:
    return any(column.sensitive for column in columns.values())


def _abbreviate(value: str | list) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text):,} characters)"


def _find_out_of_range(raw: bytes, column: config.Column) -> int:
    """Returns the first value that is out of range: an image itself says nothing to anybody."""
    low, high = column.min, column.max
    outside = (v for v in raw if (low is not None and v < low) or (high is not None and v > high))
    return next(outside, raw[0] if raw else 0)


def _redact(letter: Letter, columns: Mapping[str, config.Column]) -> Letter:
    """Hides the sensitive columns of a row that could not be read, and its text with them."""
    if letter.raw is None and letter.value is None:
        return letter
    raw = None if letter.raw is None else show_raw_row(letter.raw, columns)
    value = letter.value
    if value is not None:
        value = REDACTED if _has_sensitive(columns) else _abbreviate(value)
    return dataclasses.replace(letter, raw=raw, value=value, of=hash_unread(letter, columns))
