"""Numbers as web pages and spreadsheets write them: with spaces that do not break or have no width
around them, and the minus of typesetters."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Alternatives and no class of characters, as Arrow takes binary for Latin-1.
_SPACE = "|".join("\u00a0\u1680\u202f\u205f\u2060\u3000\ufeff\u200e\u200f")
_SPACE += "|" + "|".join(map(chr, range(0x2000, 0x200C)))
_MINUS = "\u2212"
_ODD = f"{_SPACE}|{_MINUS}"
_SIGN = rf"^(?:{_SPACE}| )*(?:{_MINUS})(.*)$"
_AROUND = rf"^(?:{_SPACE}| )*([+-]?)(?:{_SPACE})*(.*?)(?:{_SPACE}| )*$"
_ASCII = 0x7F
# Whole numbers that float64 has no room for, as programs write them in columns with gaps.
_LONG = r"^([+-]?[0-9]{16,})\.0+$"
_LONG_BYTES = 18


def normalize(texts: pa.Array) -> pa.Array:
    """Returns texts, or UTF-8 as binary, as Arrow reads them if they are numbers. Those without
    such a character stay, also with plain spaces."""
    data = texts.buffers()[2]
    # To look at all bytes at once is quick.
    if data is None or not len(data) or np.frombuffer(data, np.uint8).max() <= _ASCII:
        return texts
    odd = pc.match_substring_regex(texts, _ODD)
    if not pc.any(odd).as_py():
        return texts
    made = pc.replace_substring_regex(texts, _SIGN, r"-\1")
    return pc.if_else(odd, pc.replace_substring_regex(made, _AROUND, r"\1\2"), texts)


def drop_decimal_points(texts: pa.Array) -> pa.Array:
    """Returns binary with ids of 16 digits or more as they are without `.0`: they are text only
    because int64 may have no room for them, and are one id in both forms."""
    if (pc.max(pc.binary_length(texts)).as_py() or 0) < _LONG_BYTES:
        return texts
    if not pc.any(pc.match_substring_regex(texts, _LONG)).as_py():
        return texts
    return pc.replace_substring_regex(texts, _LONG, r"\1")


def normalize_text(text: str) -> str:
    """Returns the same of one text."""
    if text.isascii() or re.search(_ODD, text) is None:
        return text
    return re.sub(_AROUND, r"\1\2", re.sub(_SIGN, r"-\1", text))
