"""Finds out how raw data is written: which source reads it, in which dialect, with what columns."""

from __future__ import annotations

import collections
import csv
import dataclasses
import io
import itertools
import json
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pipeline import config, errors, storage
from pipeline.source_table import SOURCES
from preprocessing.schema_inference import (
    detect_encoding,
    detect_examples,
    detect_kind,
    folder_pattern,
    header,
    precision,
)
from preprocessing.schema_inference.detect_encoding import Encoding
from preprocessing.schema_inference.profile import EXACT, KINDS
from preprocessing.schema_inference.raw_format import Guess
from preprocessing.sources import files, json_layout, partitions

# Unpacked bytes, and rows of them, by which a dialect is recognised.
_HEAD, _ROWS = 1 << 20, 200
_DELIMITERS = (",", "\t", ";", "|")
_BOOLEANS = "true and false"
# Kinds of numbers that people call otherwise: 1.0, and what int64 has no room for.
# Python refuses to read numbers of some thousand digits.
_MOST_DIGITS = 300
_WHOLE, _HUGE = "whole", "huge"
_CALLED = {_WHOLE: "float", _HUGE: "int"}
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
ONLY_LISTS = "all columns are lists, and a label is one value; add a column to predict"
# Characters of a name; YAML has keys of up to 1,024, in which some are written as two.
_NAME = 500
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
# Characters of a line that an error shows, and which share of rows must be alike.
_SHOWN, _MOST = 40, 0.9


def sniff(path: str, *, has_header: bool | None = None) -> Guess:
    """Looks at a file, the files of a pattern, or those of a folder.

    The kind is known by content, which names may contradict. JSON lines are read to their end to
    learn what their columns hold; of others the first file's beginning or metadata is enough.
    Whether CSV `has_header` is found out unless it is given. Raises `DataError` if there is nothing
    to read, `UsageError` if a header is given of what is no CSV.
    """
    pattern = folder_pattern.find_pattern(path)
    data = config.Data(
        inputs={"train": {"files": pattern}},
        columns={"x": config.Column(type="string")},
        label="x",
    )
    found = [file.path for file in files.find(data, "train")]
    if len(found) > 1:
        # Who writes many files leaves some of them empty.
        found.insert(0, next((path for path in found if storage.size(path)), found[0]))
    kind = detect_kind.detect_kind(found[0])
    if kind not in SOURCES:
        guess = _sniff_text(pattern, found, has_header)
    elif SOURCES[kind].pixels:
        raise errors.DataError(
            f"{found[0]!r}: is {SOURCES[kind].called}; name one file of images, or the folder"
        )
    elif SOURCES[kind].schema:
        guess = _sniff_table(kind, pattern, found[0])
    else:
        guess = detect_examples.sniff(pattern, found[0])
    if has_header is not None and guess.source != "csv":
        raise errors.UsageError(
            f"HEADER={has_header:d} is for CSV, and {found[0]!r} is {guess.source}; leave it out"
        )
    if SOURCES[guess.source].in_folders:
        for name in partitions.find_common(found):
            if name in guess.kinds:
                guess.remarks.append(partitions.describe_both(name))
            elif name not in guess.left_out:
                guess.kinds[name] = KINDS
    for name in [name for name in guess.kinds if len(name) > _NAME]:
        del guess.kinds[name]
        guess.left_out[name] = f"has a name of {len(name):,} characters"
    if not guess.kinds:
        why = "; ".join(f"{name!r} {reason}" for name, reason in guess.left_out.items())
        raise errors.DataError(f"{found[0]!r}: has no readable column: {why or 'it has none'}")
    if guess.lists.issuperset(guess.kinds):
        raise errors.DataError(f"{found[0]!r}: {ONLY_LISTS}")
    return guess


def _sniff_text(pattern: str, found: list[str], has_header: bool | None) -> Guess:
    with files.open_unpacked(found[0]) as stream:
        head = stream.read(_HEAD)
    encoding = detect_encoding.find(head, found[0])
    if encoding.name != "utf-8":
        head = head.decode(encoding.name, "replace").removeprefix("\ufeff").encode()
    if not head.strip():
        raise errors.DataError(f"{found[0]!r}: is empty")
    if json_layout.is_lines(head, found[0]):
        _refuse_recoded(encoding, found[0])
        return _sniff_jsonl(pattern, list(dict.fromkeys(found)))
    return _sniff_csv(pattern, found[0], encoding, has_header=has_header)


def sniff_recoded(guess: Guess, rows: int) -> Guess | None:
    """Returns how to read text that is not the UTF-8 it was taken for, as the files, or their
    beginnings, that were looked at are ASCII; `rows` were read. Returns `None` if it is damaged."""
    if guess.source != "csv" or guess.data().csv.encoding != "utf-8":
        return None
    paths = [file.path for file in files.find(guess.data(), "train")]
    encoding = detect_encoding.find(detect_encoding.read_not_ascii(paths), guess.pattern, rows=rows)
    if encoding.name == "utf-8":
        return None
    remarks = [encoding.remark, *guess.remarks]
    return dataclasses.replace(guess, csv=guess.csv | {"encoding": encoding.name}, remarks=remarks)


def _refuse_recoded(encoding: Encoding, path: str) -> None:
    """Raises `DataError` for JSON that is not UTF-8, a few damaged lines aside."""
    if encoding.name == "utf-8" or encoding.few:
        return
    by = f" ({', '.join(map(repr, encoding.words))})" if encoding.words else ""
    raise errors.DataError(
        f"{path!r}: is JSON in {detect_encoding.format_name(encoding.name)}{by}; source jsonl "
        f"reads UTF-8 ({detect_encoding.build_conversion(encoding.name)} makes it)"
    )


def _sniff_table(kind: str, pattern: str, path: str) -> Guess:
    guess, schema = Guess(kind, pattern), pkgutil.resolve_name(SOURCES[kind].schema)(path)
    times = collections.Counter(schema.names)
    for field in schema:
        listed = any(is_one(field.type) for is_one in _LISTS)
        if times[field.name] > 1:
            guess.left_out[field.name] = _describe_repeated(times[field.name])
        elif pa.types.is_nested(field.type.value_type if listed else field.type):
            guess.left_out[field.name] = f"is {field.type}, neither one value nor a list of them"
        else:
            guess.kinds[field.name] = KINDS
    return guess


def _sniff_csv(pattern: str, path: str, encoding: Encoding, *, has_header: bool | None) -> Guess:
    with files.open_unpacked(path, encoding.name) as stream:
        text = stream.read(_HEAD).decode(errors="replace")
    found = {delimiter: _split_rows(text, delimiter) for delimiter in _DELIMITERS}
    _refuse_preface(path, text)
    if all(len(rows[0]) == 1 for rows in found.values()) and _is_spaced(text, path):
        found[" "] = _split_rows(text, " ")
    # Most rows as wide as the first, and of those that tie, the widest.
    delimiter = max(found, key=lambda d: _measure_agreement(found[d]))
    padded = delimiter != " " and _is_padded(found[delimiter])
    rows = _split_rows(text, delimiter, trim=True) if padded else found[delimiter]
    first, (named, doubt) = rows[0], header.find(rows)
    named = named if has_header is None else has_header
    names = first if named else [f"column_{i + 1}" for i in range(len(first))]
    guess = Guess("csv", pattern)
    if encoding.remark:
        guess.remarks.append(encoding.remark)
    if doubt and has_header is None:
        guess.remarks.append(doubt)
    for name, times in collections.Counter(names).items():
        if not name:
            guess.left_out[name] = "has no name; to use it, name it in the header"
        elif times > 1:
            guess.left_out[name] = _describe_repeated(times)
        else:
            guess.kinds[name] = KINDS
    guess.csv = {
        **({} if delimiter == "," else {"delimiter": delimiter}),
        **({} if encoding.name == "utf-8" else {"encoding": encoding.name}),
        **({} if named else {"header": False}),
        **({"trim": True} if padded else {}),
        **({"quoted_missing": True} if _is_quoted(text, delimiter) else {}),
    }
    return guess


def _describe_repeated(times: int) -> str:
    return f"is there {times} times; to use them, give each another name"


def _is_quoted(text: str, delimiter: str) -> bool:
    """Tells if all values below the first row are in quotes: then these do not tell NA, a value,
    from NA, no value."""
    lines = _QUOTED.sub("", text).splitlines()
    rows = [line for line in lines[1 : -1 if len(text) >= _HEAD else None] if line]
    return _QUOTED.search(text) is not None and not "".join(rows).strip(delimiter + " ")


def _refuse_preface(path: str, text: str) -> None:
    """Raises `DataError` for lines above the table: Excel's sep=; and comments."""
    lines = text.lstrip("\r\n").splitlines()
    count = 1 if re.fullmatch("sep=.", lines[0].strip()) else 0
    if not count and lines[0].startswith("#"):
        count = next((n for n, line in enumerate(lines) if not line.startswith("#")), 0)
        wide = (
            _measure_agreement(_split_rows("\n".join(lines[count:]), mark)) for mark in _DELIMITERS
        )
        if not any(more and share > _MOST for more, share, _ in wide) or any(
            mark in lines[0] for mark in _DELIMITERS
        ):
            return
    if count:
        raise errors.DataError(
            f"{path!r}: begins with {lines[0][:_SHOWN]!r}, which is no row; remove "
            f"{'that line' if count == 1 else f'the first {count} lines'}"
        )


def _is_spaced(text: str, path: str) -> bool:
    """Tells if single spaces cut all rows alike, with numbers below each other. Raises `DataError`
    if only runs of spaces do, as in columns that are aligned by them."""
    lines = [line for line in text.splitlines()[:_ROWS] if line.strip()][:-1]
    rows = [line.split() for line in lines]
    if len(rows) < 2 or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return False
    if not any(all(_is_number(row[n]) for row in rows[1:]) for n in range(len(rows[0]))):
        return False
    if any(line.split(" ") != row for line, row in zip(lines, rows, strict=True)):
        raise errors.DataError(
            f"{path!r}: has runs of spaces between values; source csv reads one delimiter "
            "(sed -E 's/^ +| +$//g; s/ +/,/g' makes it a comma)"
        )
    return True


def _split_rows(text: str, delimiter: str, *, trim: bool = False) -> list[list[str]]:
    """Returns the first rows, without one that may be cut off; `trim` as in `data.csv`."""
    rows: list[list[str]] = []
    try:
        # Not `splitlines`, which takes form feeds and the like for ends of lines.
        found = io.StringIO(text, newline="")
        reader = csv.reader(found, delimiter=delimiter, skipinitialspace=trim)
        some = itertools.islice((row for row in reader if row), _ROWS)
        rows += ([cell.strip(" ") for cell in row] if trim else row for row in some)
    except csv.Error:
        pass  # such as a value of megabytes; the rows before it will do
    return rows[:-1] if len(text) >= _HEAD and 1 < len(rows) < _ROWS else rows or [[text]]


def _measure_agreement(rows: list[list[str]]) -> tuple[bool, float, int]:
    width = len(rows[0])
    return width > 1, sum(len(row) == width for row in rows) / len(rows), width


def _is_padded(rows: list[list[str]]) -> bool:
    """Tells if spaces stand around names or numbers, or around most values."""
    around = [[cell != cell.strip(" ") for cell in row] for row in rows]
    numbers = [
        padded and _is_number(cell)
        for row, where in zip(rows, around, strict=True)
        for cell, padded in zip(row, where, strict=True)
    ]
    every = [padded for where in around for padded in where]
    return any(around[0]) or any(numbers) or sum(every) * 2 > len(every)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _sniff_jsonl(pattern: str, paths: list[str]) -> Guess:
    seen: dict[str, set[str]] = {}
    lengths: dict[str, set[int]] = {}
    wide: set[str] = set()
    large: dict[str, precision.Large] = collections.defaultdict(precision.Large)
    for path in paths:
        for row in _read_objects(path):
            for name, value in row.items():
                kinds = seen.setdefault(name, set())
                if isinstance(value, list):
                    lengths.setdefault(name, set()).add(len(value))
                    kinds |= {"list", *map(_find_kind_in_list, value)}
                elif value is not None and value == value:  # NaN is missing
                    kinds.add(_find_kind(value))
                if name not in wide and _is_wide(value):
                    wide.add(name)
                if _HUGE in kinds and (whole := _find_whole(value)) is not None:
                    large[name].see([whole])
    if not seen:
        _refuse_no_object(paths)
    guess = Guess("jsonl", pattern)
    for name, kinds in seen.items():
        length = lengths.get(name)
        if length is not None and (len(length) > 1 or 0 in length):
            guess.lists.add(name)
        elif length is not None:
            guess.shapes[name] = next(iter(length))
        if _WHOLE in kinds and name not in wide:
            kinds = {"float" if kind == _WHOLE else kind for kind in kinds}
        if length is None and _HUGE in kinds and large[name].name_things:
            kinds = kinds - {"float"}
        _decide(guess, name, kinds, lengths=length)
    return guess


def _refuse_no_object(paths: list[str]) -> None:
    """Raises `DataError` for files without an object, if their first row is not an empty one."""
    for path in paths:
        with files.open_unpacked(path) as stream:
            first = next((line for line in stream if line.strip()), b"{}")
        if first.strip() != b"{}":
            why = json_layout.explain_no_object(first)
            raise errors.DataError(f"{path!r}: row 1 is not JSON: it {why}")


def _decide(guess: Guess, name: str, kinds: set[str], *, lengths: set[int] | None) -> None:
    """Gives a member of JSON objects its type: pyarrow's parser wants one for all of its values."""
    single = kinds - {"list"}
    if lengths and kinds & {"plain"}:
        guess.left_out[name] = "holds lists and single values"
    elif not single:
        guess.left_out[name] = "has no values"
    elif single <= {"int", _WHOLE} or (not lengths and single <= {"int", _BOOLEANS}):
        guess.kinds[name] = ("int64",)
    elif _HUGE in single and single <= {"int", _WHOLE, _HUGE, "string"}:
        guess.kinds[name] = ("string",)
    elif single <= {"int", _WHOLE, _HUGE, "float"}:
        guess.kinds[name] = ("float32",)
    elif single == {"string"}:
        guess.kinds[name] = ("string",)
    else:
        shown = {_CALLED.get(kind, kind) for kind in single}
        objects = "; make each of their members a column" if shown == {"objects"} else ""
        guess.left_out[name] = f"holds {', '.join(sorted(shown))}{objects}"


def _read_objects(path: str) -> Iterator[dict[str, Any]]:
    """Yields what is one JSON object a line; the source makes dead letters of the rest."""
    with files.open_unpacked(path) as stream:
        for line in stream:
            try:
                found = json.loads(line, parse_float=_Float, parse_int=_parse_whole)
            except (ValueError, RecursionError):  # the latter of brackets by the thousand
                continue
            if isinstance(found, dict):
                yield found


def _parse_whole(text: str) -> int:
    """Returns a whole number, of which the first digits tell whether it is too large for int64."""
    return int(text[:_MOST_DIGITS])


class _Float(str):
    """A number with a point or an exponent, as it is written."""

    @property
    def whole(self) -> int | None:
        """The number, if it is a whole one such as 1.0."""
        digits, _, rest = self.partition(".")
        return _parse_whole(digits) if rest and not rest.strip("0") else None


def _is_wide(value: Any) -> bool:
    """Tells if float32 may make another whole number of a value, or of one in a list."""
    if isinstance(value, list):
        return any(map(_is_wide, value))
    return abs(_find_whole(value) or 0) > EXACT


def _find_whole(value: Any) -> int | None:
    """Returns a value that is a whole number, also if it is written as 1.0."""
    number = value.whole if isinstance(value, _Float) else value
    return number if isinstance(number, int) else None


def _find_kind(value: Any) -> str:
    if isinstance(value, bool):
        return _BOOLEANS
    if isinstance(value, _Float):
        if value.whole is None:
            return "float"
        return _WHOLE if value.whole in precision.INT64 else _HUGE
    if isinstance(value, int):
        return "int" if value in precision.INT64 else _HUGE
    return {float: "float", str: "string", type(None): "nulls in lists"}.get(type(value), "objects")


def _find_kind_in_list(value: Any) -> str:
    return "lists in lists" if isinstance(value, list) else _find_kind(value)
