"""Numbers as people write them, with a decimal comma or in groups of three digits."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config
from pipeline.config.column_config import JSON
from preprocessing.arrow import lists, number_texts

# Decimal marks and what stands between groups, the plainest first; of those that read as much, in
# files with commas between values, and in others.
# fmt: off
_COMMAS = (
    (".", ""), (".", ","), (".", "'"), (".", " "), (",", ""), (",", "."), (",", "'"), (",", " "),
)
_OTHERS = (
    (",", ""), (".", ""), (",", "."), (".", ","), (".", " "), (",", " "), (".", "'"), (",", "'"),
)
# fmt: on
# What typesetters write for a thousands separator: spaces that do not break, thin ones, and ’.
_VARIANTS = {" ": ("\u00a0", "\u202f", "\u2009"), "'": ("\u2019",)}
# So many of a column's texts must be numbers, or it is no column of such.
_NEARLY_ALL = 0.95
_MARKED = re.compile(r"[.,' \u00a0\u202f\u2009\u2019]")


def normalize(array: pa.Array, rules: config.Csv) -> pa.Array:
    """Returns texts with the decimal point, and without the thousands separator, of `rules`, and
    without spaces that do not break around them.

    A separator that stands elsewhere than between groups of three digits stays, and so the text is
    no number; nor is one whose first group is 0, which has a decimal mark there.
    """
    array = number_texts.normalize(array)
    if rules.thousands:
        for variant in _VARIANTS.get(rules.thousands, ()):
            array = pc.replace_substring(array, variant, rules.thousands)
        between, point = re.escape(rules.thousands), re.escape(rules.decimal)
        groups = rf"^[+-]?[1-9]\d{{0,2}}({between}\d{{3}})+({point}[^{between}]*)?$"
        grouped = pc.match_substring_regex(array, groups)
        array = pc.if_else(grouped, pc.replace_substring(array, rules.thousands, ""), array)
    if rules.decimal == ".":
        return array
    # The two change places, so that a point in the file makes no number.
    for old, new in ((".", "\0"), (rules.decimal, "."), ("\0", rules.decimal)):
        array = pc.replace_substring(array, old, new)
    return array


def exchanges_marks(column: config.Column, rules: config.Csv) -> bool:
    """Tells if point and decimal mark change places in the numbers of a column of a file, as
    `normalize` and `normalize_lists` do."""
    separator = column.separator if column.list else None
    numbers = column.type in ("int64", "float32") and separator not in (JSON, ".", rules.decimal)
    return numbers and rules.decimal != "."


def restore_marks(text: str, rules: config.Csv) -> str:
    """Returns a text of a column that `exchanges_marks` as the file has it, without separators
    between groups of digits."""
    return text.translate(str.maketrans(f".{rules.decimal}", f"{rules.decimal}."))


def normalize_lists(array: pa.Array, rules: config.Csv, separator: str) -> pa.Array:
    """Returns texts of which each part between separators is as `normalize` has it.

    The separator is no mark of `rules`, but for whole numbers, which have no decimal mark then.
    """
    if separator in (".", rules.decimal):
        rules = rules.model_copy(update={"decimal": "."})
    parts = pc.split_pattern(array, separator)
    items = normalize(parts.flatten(), rules)
    listed = lists.build(items, lists.count_items(parts), lists.is_there(parts))
    return pc.binary_join(listed, separator.encode())


def normalize_text(text: str, rules: config.Csv) -> str:
    """Returns the same of one text."""
    made: str = normalize(pa.array([text.encode()], pa.binary()), rules)[0].as_py().decode()
    return made


def detect_format(columns: Iterable[Iterable[str]], delimiter: str) -> dict[str, str]:
    """Returns what `data.csv` must say of numbers, so that most columns of texts are numbers.

    `1,234` alone may be either; it has a decimal comma in files that do without commas elsewhere.
    """
    plain = [list(map(number_texts.normalize_text, column)) for column in columns]
    marked = [texts for texts in plain if any(map(_MARKED.search, texts))]
    shares = {
        marks: [_compute_share(texts, *marks) for texts in marked]
        for marks in (_COMMAS if delimiter == "," else _OTHERS)
    }
    default = shares[".", ""]
    most = max(map(sum, shares.values()))
    best = [marks for marks, share in shares.items() if sum(share) == most]
    decimal, thousands = best[0]
    if most == sum(default) and (decimal == "." or not most):
        return {}
    if len({tuple(shares[marks]) for marks in best if shares[marks] != default}) > 1:
        return {}
    return {
        **({} if decimal == "." else {"decimal": decimal}),
        **({"thousands": thousands} if thousands else {}),
    }


def is_number(text: str) -> bool:
    """Tells if a text is a number in one of the ways that `data.csv` can name."""
    plain = number_texts.normalize_text(text)
    return any(_build_pattern(*marks).fullmatch(plain) for marks in _COMMAS)


def may_be_groups(texts: Iterable[str], mark: str) -> bool:
    """Tells if of some numbers, that have such a `mark`, none shows if it is the decimal mark or
    stands between groups of three digits."""
    marked = [text for text in texts if mark in text]
    one = re.compile(rf"[+-]?[1-9]\d{{0,2}}{re.escape(mark)}\d{{3}}")
    return bool(marked) and all(map(one.fullmatch, marked))


def _compute_share(texts: list[str], decimal: str, thousands: str) -> float:
    """Returns which share of texts are numbers; 0 if they are too few."""
    found = sum(map(bool, map(_build_pattern(decimal, thousands).fullmatch, texts))) / len(texts)
    return found if found >= _NEARLY_ALL else 0.0


def _build_pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    between = "[" + re.escape(thousands) + "".join(_VARIANTS.get(thousands, ())) + "]"
    grouped = rf"|[1-9]\d{{0,2}}({between}\d{{3}})+" if thousands else ""
    whole = rf"(?=\S*\d)[+-]?(\d*{grouped})"
    return re.compile(rf"{whole}({re.escape(decimal)}\d*)?([eE][+-]?\d+)?", re.ASCII)
