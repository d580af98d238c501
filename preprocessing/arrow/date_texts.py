"""Dates and times that are written as text, or as whole numbers such as 20130131."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.steps import date_forms
from preprocessing.arrow import cast, nulls

_DAY, _COMPACT = len("2013-01-31"), len("20130131")
# The time behind a date of ISO 8601, and an offset from UTC.
_CLOCK = (
    r"^.{10}(?:\D*(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d+)?))?"
    r"[^+-]*(?:(?P<sign>[+-])(?P<ahead>\d\d):?(?P<more>\d\d))?)?"
)
_SECOND = 1_000_000  # in microseconds
_FINER = r"(\.\d{6})\d+"
_BEYOND = 2.0**63


def match_form(form: str, texts: pa.Array) -> pa.Array:
    """Tells of each text if it is written in a form; 30 February may be."""
    return pc.match_substring_regex(texts, f"^({date_forms.get_pattern(form)})$")


def rewrite_as_iso(form: str, texts: pa.Array) -> pa.Array:
    """Returns texts of a form as ISO 8601; hours of the afternoon stay as they are."""
    for pattern, new in date_forms.rewrites(form):
        texts = pc.replace_substring_regex(texts, pattern, new)
    return texts


def cut_below_microseconds(texts: pa.Array) -> pa.Array:
    """Returns times of ISO 8601 without digits beyond microseconds: rounded ones could be of the
    next day."""
    return pc.replace_substring_regex(texts, _FINER, r"\1")


def find_unreal_days(form: str, texts: pa.Array) -> np.ndarray:
    """Tells of each text of a form if it is a day that is not in the calendar."""
    if form in date_forms.EPOCHS:
        return np.zeros(len(texts), bool)
    days = pc.utf8_slice_codeunits(rewrite_as_iso(form, texts), 0, _DAY).dictionary_encode()
    _, bad = cast.cast(days.dictionary, pa.date32())
    return np.zeros(len(texts), bool) if bad is None else bad[days.indices.to_numpy()]


def parse_instants(form: str, texts: pa.StringArray) -> pa.Int64Array:
    """Returns microseconds since 1970 of texts of a form; null for what is no date.

    A time is in UTC unless an offset follows, such as +0200; zones by name are not looked at.
    """
    texts = nulls.put_null(texts, pc.invert(match_form(form, texts)))
    if form in date_forms.EPOCHS:
        return _count_microseconds(form, texts)
    iso = cut_below_microseconds(rewrite_as_iso(form, texts))
    days, _ = cast.cast(pc.utf8_slice_codeunits(iso, 0, _DAY), pa.date32())
    parts = pc.extract_regex(iso, _CLOCK)
    number = {
        name: pc.if_else(pc.equal(part, ""), "0", part).cast(pa.float64()).fill_null(0).to_numpy()
        for name, part in zip(parts.type.names, parts.flatten(), strict=True)
        if name != "sign"
    }
    sign = np.where(pc.equal(parts.field("sign"), "-").fill_null(False).to_numpy(False), -1, 1)
    afternoon, morning = (
        pc.match_substring_regex(texts, half).fill_null(False).to_numpy(zero_copy_only=False)
        for half in (date_forms.AFTERNOON, date_forms.MORNING)
    )
    hour = np.where(afternoon | morning, number["hour"] % 12, number["hour"]) + 12 * afternoon
    minutes = number["minute"] - sign * (60 * number["ahead"] + number["more"])
    of_day = (hour * 60 + minutes) * 60 + number["second"]
    midnights = days.cast(pa.timestamp("us")).cast(pa.int64())
    return pc.add(midnights, pa.array(np.rint(of_day * _SECOND).astype(np.int64)))


def _count_microseconds(form: str, numbers: pa.StringArray) -> pa.Int64Array:
    """Returns numbers since 1970 as microseconds; null for those of no year that int64 has.

    Digits beyond microseconds are cut. Numbers with an exponent are as near as float64 is to them.
    """
    unit = date_forms.EPOCHS[form]
    parts = pc.extract_regex(numbers, r"^(?P<whole>-?\d+)\.?(?P<rest>\d*)$")
    places = len(str(_SECOND // unit)) - 1 if unit <= _SECOND else 0
    rest = pc.utf8_slice_codeunits(pc.utf8_rpad(parts.field("rest"), places, "0"), 0, places)
    digits = pc.binary_join_element_wise(parts.field("whole"), rest, "")
    digits = nulls.put_null(digits, parts.is_null())
    exact, _ = cast.cast(digits, pa.int64())
    whole = exact.fill_null(0).to_numpy() // max(1, unit // _SECOND)
    found = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False)
    found = np.rint(found * (_SECOND / unit))
    known = np.abs(found) < _BEYOND
    near = pa.array(np.where(known, found, 0).astype(np.int64), mask=~known)
    return pc.if_else(exact.is_valid(), pa.array(whole), near)


def find_unreadable(form: str, values: pa.Array) -> np.ndarray:
    """Returns for each value whether it is not a date in this form; false where it is missing."""
    different = values.dictionary_encode()
    texts = different.dictionary.cast(pa.string())
    if pa.types.is_integer(values.type):
        texts = pc.utf8_lpad(texts, _COMPACT, "0")
    bad = ~match_form(form, texts).to_numpy(zero_copy_only=False)
    bad[~bad] = find_unreal_days(form, texts.filter(pa.array(~bad)))
    # Nulls point behind the last of the different values.
    return np.append(bad, False)[different.indices.fill_null(len(bad)).to_numpy()]
