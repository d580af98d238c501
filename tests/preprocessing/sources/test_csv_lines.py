"""Blocks hold whole rows, the same ones that pyarrow sees, however the text is cut."""

from __future__ import annotations

import io

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import strategies as st

from pipeline import errors
from preprocessing.sources import csv_lines


def _blocks(data: bytes, size: int, quote: str = '"') -> list[csv_lines.RawRows]:
    return list(csv_lines.read_blocks(io.BytesIO(data), size, "in.csv", quote=quote))


def _rows_of_pyarrow(data: bytes) -> list[list[bytes]]:
    """Parses one column, tabs being delimiters that do not occur."""
    if not data.strip(b"\r\n"):
        return []
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=["a", "b"]),
        pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=_as_it_is),
        pa_csv.ConvertOptions(column_types={"a": pa.binary(), "b": pa.binary()}),
    )
    return [list(row.values()) for row in table.to_pylist()]


def _as_it_is(row: pa_csv.InvalidRow) -> str:
    return "skip"


_FIELD = st.text('ab",\n\r', max_size=6).map(lambda text: '"' + text.replace('"', '""') + '"')
_BARE = st.text("ab", max_size=3)
_ROW = st.tuples(_FIELD | _BARE | st.just('5" x'), _FIELD | _BARE | st.just('"a"b')).map(",".join)
_NEWLINE = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"])


@hypothesis.settings(max_examples=200)
@hypothesis.given(st.lists(st.tuples(_ROW, _NEWLINE), min_size=1, max_size=8), st.integers(1, 40))
def test_cut_anywhere_the_rows_are_those_of_the_whole(rows, size):
    data = "".join(row + newline for row, newline in rows).encode()
    found = _blocks(data, size)
    assert b"".join(block.data for block in found) == data
    assert [row for block in found for row in _rows_of_pyarrow(block.data)] == _rows_of_pyarrow(
        data
    )
    assert sum(block.rows for block in found) == len(rows)
    offsets = np.cumsum([0, *(len(block.data) for block in found)])
    assert [block.offset for block in found] == offsets[:-1].tolist()


def test_a_last_row_needs_no_newline():
    assert [(b.data, b.rows) for b in _blocks(b"a\nb\nc", 4)] == [(b"a\nb\n", 2), (b"c", 1)]
    assert _blocks(b"", 4) == []


def test_without_quotes_they_are_text():
    assert sum(block.rows for block in _blocks(b'a"\nb\n"c\n', 100, quote="")) == 3


def test_a_quote_that_is_never_closed():
    with pytest.raises(errors.DataError, match=r"'in.csv': row 2: a quote is opened and never clo"):
        _blocks(b'a,b\nc,"d\ne,f\n', 100)


def test_a_row_that_is_too_long(monkeypatch):
    monkeypatch.setattr(csv_lines, "MAX_ROW_BYTES", 1 << 20)
    with pytest.raises(errors.DataError, match="row 3 is longer than 1 MiB; is a quote never clos"):
        _blocks(b"a\nb\n" + b"x" * (3 << 20), 1 << 20)


_PADDED = st.tuples(st.sampled_from(["", " ", "  "]), _FIELD | _BARE, st.sampled_from(["", " "]))


@hypothesis.settings(max_examples=200)
@hypothesis.given(st.lists(st.tuples(_PADDED, _PADDED), min_size=1, max_size=8), st.integers(1, 40))
def test_spaces_do_not_count_wherever_text_is_cut(rows, size):
    def text(row):
        return ",".join("".join(cell) for cell in row)

    def bare(row):
        return ",".join(value for _, value, _ in row)

    padded = "".join(f"{text(row)}\n" for row in rows).encode()
    found = list(csv_lines.read_blocks(io.BytesIO(padded), size, "in.csv", quote='"', trim=True))
    assert b"".join(block.data for block in found) == padded
    assert sum(block.rows for block in found) == len(rows)
    trimmed = b"".join(csv_lines.trim_values(block.data, '"', ",") for block in found)
    assert trimmed == "".join(f"{bare(row)}\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("data", "quote", "delimiter", "trimmed"),
    [
        (b" \n  \r\n a \r", '"', ",", b" \n  \r\na\r"),
        (b' a ; " b "" ; " ;c  d', '"', ";", b'a;" b "" ; ";c  d'),
        (b'" a ; b"\n', "", ";", b'" a;b"\n'),
        (b"a | b", '"', "|", b"a|b"),
        (b'a " b , c " d', '"', ",", b'a " b,c " d'),
    ],
)
def test_which_spaces_are_taken_away(data, quote, delimiter, trimmed):
    assert csv_lines.trim_values(data, quote, delimiter) == trimmed


def test_rows_are_taken_out_by_number():
    data = b"a\n\nb\r\nc\rd"
    ends = csv_lines.find_row_ends(data, '"', ",")
    assert csv_lines.drop_rows(data, ends, [1, 3]) == b"a\nc\r"
    assert csv_lines.drop_rows(data, ends, []) == b"a\nb\r\nc\rd"
