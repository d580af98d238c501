"""Dates and times that are written as text, or as whole numbers such as 20130131."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.steps import date_forms
from preprocessing.arrow import cast

_DAY, _COMPACT = len("2013-01-31"), len("20130131")


def have(form: str, texts: pa.Array) -> pa.Array:
    """Tells of each text if it is written in a form; 30 February may be."""
    return pc.match_substring_regex(texts, f"^({date_forms.TEXTS[form]})$")


def as_iso(form: str, texts: pa.Array) -> pa.Array:
    """Returns texts of a form as ISO 8601; hours of the afternoon stay as they are."""
    for pattern, new in date_forms.rewrites(form):
        texts = pc.replace_substring_regex(texts, pattern, new)
    return texts


def unreal(form: str, texts: pa.Array) -> np.ndarray:
    """Tells of each text of a form if it is a day that is not in the calendar."""
    days = pc.utf8_slice_codeunits(as_iso(form, texts), 0, _DAY).dictionary_encode()
    _, bad = cast.cast(days.dictionary, pa.date32())
    return np.zeros(len(texts), bool) if bad is None else bad[days.indices.to_numpy()]


def unreadable(form: str, values: pa.Array) -> np.ndarray:
    """Returns for each value whether it is not a date in this form; false where it is missing."""
    different = values.dictionary_encode()
    texts = different.dictionary.cast(pa.string())
    if pa.types.is_integer(values.type):
        texts = pc.utf8_lpad(texts, _COMPACT, "0")
    bad = ~have(form, texts).to_numpy(zero_copy_only=False)
    bad[~bad] = unreal(form, texts.filter(pa.array(~bad)))
    # Nulls point behind the last of the different values.
    return np.append(bad, False)[different.indices.fill_null(len(bad)).to_numpy()]
