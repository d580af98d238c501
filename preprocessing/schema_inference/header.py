"""Whether the first row of a table names its columns, and what to say where that is in doubt.

A first row is taken for names if it would surprise as a row of values: a text above numbers, a word
above others that all return. How likely each of its cells is, given those below, is the share of
these that are like it; of one unlike all, the share of those that are alone in what they are (Good
and Turing's estimate of what was not seen yet).
"""

from __future__ import annotations

import collections
import itertools
import math
import re
from collections.abc import Hashable, Iterable, Sequence

from preprocessing.schema_inference.profile import TOKENS

# A first row with numbers above numbers is taken for names if it is less likely than this as a row
# of values; if some of these numbers are no whole ones, which few names are, than the second.
_UNLIKELY, _VERY_UNLIKELY = 0.1, 0.003
_WORD, _NUMBER = "word", "number"
_ABSENT = {"", "NA", *TOKENS}
_SHOWN, _LONG = 3, 20
_Rows = Sequence[Sequence[str]]


def find(rows: _Rows) -> tuple[bool, str]:
    """Tells if the first of the `rows` is a header; and of what is in doubt, what it was taken for
    and how to say otherwise, in one line, or nothing."""
    first = rows[0]
    # A header that is there again below says nothing of it.
    others = [row for row in rows[1:] if row != first]
    columns = [_drop_gaps(row[n] for row in others if n < len(row)) for n in range(len(first))]
    cells = [(cell, below) for cell, below in zip(first, columns, strict=True) if not _is_gap(cell)]
    alike = [cell for cell, below in cells if _is_value(cell, below)]
    likely = math.prod(_estimate_likelihood(cell, below) for cell, below in cells)
    if not alike:
        seen = [cell in below for cell, below in cells]
        if not any(map(_is_plain, first)) and not (seen and all(seen)):
            return True, _write_remark(first, header=True) if any(
                seen
            ) and likely > _UNLIKELY else ""
        header = not any(seen) and likely < _UNLIKELY
        return header, "" if likely < _VERY_UNLIKELY else _write_remark(first, header=header)
    names = [cell for cell in first if cell]
    limit = _UNLIKELY if all(cell.isdecimal() for cell in alike) else _VERY_UNLIKELY
    header = len(set(names)) == len(names) and likely < limit
    up = _counts_up(first) and bool(others) and not any(map(_counts_up, others))
    sure = header and (up or likely < _VERY_UNLIKELY)
    header |= up
    return header, "" if sure else _write_remark(first, header=header)


def _write_remark(first: Sequence[str], *, header: bool) -> str:
    shown = ", ".join(repr(c if len(c) <= _LONG else c[:_LONG] + "…") for c in first[:_SHOWN])
    shown += ", …" if len(first) > _SHOWN else ""
    if header:
        return f"the first row ({shown}) is taken for names; if it is values: make schema HEADER=0"
    return (
        f"taken as without a header: the first row ({shown}) is taken for values; if it is names: "
        "make schema HEADER=1"
    )


def _is_gap(cell: str) -> bool:
    return cell in _ABSENT


def _drop_gaps(cells: Iterable[str]) -> list[str]:
    return [cell for cell in cells if not _is_gap(cell)]


def _estimate_likelihood(cell: str, below: Sequence[str]) -> float:
    """Returns how likely a cell is as one more of those below: by its kind and, of words, by itself
    if it is not among them."""
    kind = _describe_kind(cell)
    found = _estimate_share(kind, list(map(_describe_kind, below)))
    if kind == _WORD and cell not in below:
        found = min(found, _estimate_share(cell, below))
    return found


def _estimate_share(one: Hashable, others: Sequence[Hashable]) -> float:
    counts = collections.Counter(others)
    like = counts[one] or sum(count == 1 for count in counts.values())
    return min(1.0, (like + 1) / (len(others) + 1))


def _describe_kind(cell: str) -> str:
    """Returns what a cell looks like: a number, a word, or which digits and letters follow each
    other."""
    if _is_plain(cell):
        return _NUMBER
    if not any(map(str.isdigit, cell)):
        return _WORD
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", cell))


def _is_value(cell: str, below: Sequence[str]) -> bool:
    """Tells if a cell has digits, has no letters unless it is a number, and is of the kind of most
    below."""
    kind = _describe_kind(cell)
    plain = kind == _NUMBER or (kind != _WORD and not any(map(str.isalpha, cell)))
    return plain and 2 * sum(_describe_kind(other) == kind for other in below) >= len(below)


def _is_plain(cell: str) -> bool:
    """Tells if a cell is a number in digits."""
    try:
        float(cell)
    except ValueError:
        return False
    return any(map(str.isdigit, cell))


def _counts_up(row: Sequence[str]) -> bool:
    """Tells if the numbers of a row do, as years, or what pandas calls columns without names."""
    numbers = [float(cell) for cell in row if _is_plain(cell)]
    steps = (after - before for before, after in itertools.pairwise(numbers))
    return len(numbers) > 2 and numbers[0].is_integer() and all(step == 1 for step in steps)
