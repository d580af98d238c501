"""What of raw data cannot be read: columns as a whole, and rows."""

from __future__ import annotations

import math

from pipeline.source_table import SOURCES
from preprocessing.schema_inference.profile import ColumnProfile, Survey
from preprocessing.schema_inference.yaml_lines import format_scalar

# A column of a source that is no text may be bytes: then this share of values is no UTF-8.
_BYTES = 0.01


def explain_unusable(column: ColumnProfile, source: str) -> str | None:
    """Returns why a column cannot be in a config, if it cannot."""
    if not column.values:
        return "has no values"
    refused = column.about.refused if column.kind == "string" else 0
    if not SOURCES[source].text and refused >= _BYTES * column.values:
        return "holds bytes that are not UTF-8 text"
    if column.holes:
        return "holds lists with values missing in them"
    if column.about.not_finite:
        return "holds lists with NaN or infinite values in them" if column.listed else None
    return "cannot be read as numbers or UTF-8 text" if column.about.least is None else None


def describe_bad_rows(found: Survey, names: set[str]) -> tuple[str, str]:
    """Returns what is wrong with the rows that were read, and the error budget that allows it;
    both are empty if nothing is."""
    refused = {n: c.bad.rows for n, c in found.columns.items() if n in names and c.bad.rows}
    total = found.rows + found.unreadable.total()
    bad = found.unreadable.total() + sum(refused.values())
    if not bad:
        return "", ""
    share = math.ceil(bad / total * 1000) / 1000
    reasons = [f"{n:,} x {why}" for why, n in sorted(found.unreadable.items())]
    reasons += [f"{n:,} x {format_scalar(name)} encoding" for name, n in refused.items()]
    budget = f"{share:g}" if share < 1 else f"{bad}"
    return f"{bad:,} of {total:,} rows are bad: {'; '.join(reasons)}", budget


def advise_fix(found: Survey, names: set[str], source: str) -> str:
    """Returns what to do about bad rows, with the first that could not be read; of CSV that may be
    in another encoding, and of escapes in JSON that make no text, too."""
    first = found.first_unreadable
    which = f" ({first})" if first is not None else ""
    columns = {name: column.bad for name, column in found.columns.items() if name in names}
    escaped = [format_scalar(name) for name, bad in columns.items() if bad.escaped]
    if escaped:
        which += f" (items in {', '.join(escaped)} have half of a surrogate pair or a NUL)"
    encoding = source == "csv" and any(bad.of_bytes for bad in columns.values())
    return f"fix the data{which}{', set data.csv.encoding' if encoding else ''}"
