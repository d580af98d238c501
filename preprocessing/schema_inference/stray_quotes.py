"""Quotes that are left over in CSV: what stands between two of them, rows and all, is one value."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.compute as pc

from preprocessing.sources.base import Rows

# Values of several lines are odd if at most so many are, or this share of all,
_FEW, _SHARE = 3, 0.01
# and if they are so many times as long as the others on average,
_LONGER = 10
# or their lines have as many delimiters as rows have: at least this share of them.
_LIKE_ROWS = 0.8


@dataclasses.dataclass
class Lines:
    """How many values of a column have several `lines`, and how many bytes those of one line have.
    `longest` is the one of the most lines, which starts in `row` of `file`."""

    several: int = 0
    bytes_of_others: int = 0
    others: int = 0
    longest: bytes = b""
    row: int = 0
    file: str = ""

    def see(self, name: str, rows: Rows) -> None:
        """Takes in some rows of a CSV file, in which the column is called `name`."""
        array = rows.batch.column(name)
        text = array.buffers()[2]
        size = (pc.sum(pc.binary_length(array)).as_py() or 0) if len(array) else 0
        self.bytes_of_others += size
        self.others += len(array) - array.null_count
        # Few columns have any, and to look at all bytes at once is quick.
        if text is None or b"\n" not in text.to_pybytes():
            return
        lines = pc.fill_null(pc.count_substring(array, b"\n"), 0).to_numpy(zero_copy_only=False)
        found = np.flatnonzero(lines)
        if not len(found):
            return
        texts = [array[int(place)].as_py() for place in found]
        self.several += len(texts)
        self.others -= len(texts)
        self.bytes_of_others -= sum(map(len, texts))
        place = int(lines.argmax())
        if lines[place] > self.longest.count(b"\n"):
            self.longest = array[place].as_py()
            self.row, self.file = rows.find_number(place), rows.file(name, place)

    @property
    def most(self) -> int:
        """How many lines the longest value has."""
        return self.longest.count(b"\n") + 1

    def is_odd(self, columns: int, delimiter: str) -> bool:
        """Tells if few values have several lines, and look like rows of so many `columns`."""
        few = max(_FEW, _SHARE * (self.several + self.others))
        if not 0 < self.several <= few or not self.others:
            return False
        if len(self.longest) >= _LONGER * max(1.0, self.bytes_of_others / self.others):
            return True
        expected = (columns - 1) * (self.most - 1)
        return 0 < _LIKE_ROWS * expected <= self.longest.count(delimiter.encode())


def write_remark(name: str, lines: Lines) -> str:
    """Returns what is odd, where it is and what to do."""
    return (
        f"{name!r}: the value in row {lines.row:,} of {lines.file!r} has {lines.most:,} lines, and "
        f"{lines.others:,} of {lines.others + lines.several:,} values have one. If a stray quote "
        "took the rows between for one value, remove it, or write quote: '' in data.csv if no "
        "value is quoted"
    )
