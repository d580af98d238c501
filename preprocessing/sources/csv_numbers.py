"""Numbers as people write them, with a decimal comma or in groups of three digits."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import config

_PLAIN = r"[+-]?\d+(\.\d+)?"
_COMMA = r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?"
_GROUPS_OF_COMMAS = r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?"


def plain(array: pa.Array, rules: config.Csv) -> pa.Array:
    """Returns texts with the decimal point, and without the thousands separator, of `rules`.

    A separator that stands elsewhere than between groups of three digits stays, and so the text is
    no number.
    """
    if rules.thousands:
        between, point = re.escape(rules.thousands), re.escape(rules.decimal)
        grouped = pc.match_substring_regex(array, rf"^[+-]?\d{{1,3}}({between}\d{{3}})+({point}|$)")
        array = pc.if_else(grouped, pc.replace_substring(array, rules.thousands, ""), array)
    if rules.decimal == ".":
        return array
    # The two change places, so that a point in the file makes no number.
    for old, new in ((".", "\0"), (rules.decimal, "."), ("\0", rules.decimal)):
        array = pc.replace_substring(array, old, new)
    return array


def form(columns: Iterable[Iterable[str]], delimiter: str) -> dict[str, str]:
    """Returns what `data.csv` must say of numbers, if columns of texts are numbers then.

    `1,234` alone may be either; it has a decimal comma in files that do without commas elsewhere.
    """
    found: set[str] = set()
    thousands = False
    for column in columns:
        texts = list(column)
        if not texts or not any("," in text for text in texts):
            continue
        comma = all(re.fullmatch(_COMMA, text) for text in texts)
        groups = all(re.fullmatch(f"{_PLAIN}|{_GROUPS_OF_COMMAS}", text) for text in texts)
        if comma and (delimiter != "," or not groups):
            found.add("comma")
            thousands |= any("." in text for text in texts)
        elif groups:
            found.add("groups")
    if found == {"comma"}:
        return {"decimal": ",", **({"thousands": "."} if thousands else {})}
    return {"thousands": ","} if found == {"groups"} else {}
