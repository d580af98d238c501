"""Which features a column of dates or times makes: parts that return, and a trend."""

from __future__ import annotations

import re
from typing import Any

from pipeline.steps import date_forms
from pipeline.steps.date_forms import EPOCHS
from pipeline.steps.dates import COMPACT
from preprocessing.schema_inference import dates, unix_times
from preprocessing.schema_inference.profile import ColumnProfile

_FOUR = re.compile(r"\d{4}")
_TWO_MONTHS = 60
# Even intervals of the trend. Rows that follow each other closely, such as those of each hour, have
# a value for most of the times there can be, and get an interval for each so many times. With 40,
# errors of two smooth series of a year were up to twice as large.
_INTERVALS, _MOST_INTERVALS, _TIMES_EACH, _CLOSE = 8, 180, 120, 0.5
_YEAR = 365.25
# The minute of the day, in even intervals: what happens within one, such as a rush hour, cannot be
# learned.
_MINUTES = list(range(0, 1441, 30))
# Two-digit years that span so many, or are so far ahead, may be of another century than they are
# taken for.
_TWO_CENTURIES, _AHEAD = 50, 2035
# A day such as a holiday can be learned if it has returned so often, and has so many rows.
_RETURNS, _LEARNED = 4, 5


def find(name: str, found: ColumnProfile) -> tuple[str, dates.DateRange] | None:
    """Returns how the dates or times of a column are written and what they span, if it has such."""
    if found.lengths:
        return None
    if found.kind == "string":
        form = found.as_dates.form
        return (form, found.as_dates.spans[form]) if form else None
    if found.kind == "int64" and found.as_dates.compact:
        return "ymd", found.as_dates.compact
    return unix_times.find(name, found)


def _has_two_digits(form: str, found: ColumnProfile) -> bool:
    """Tells if years have two digits."""
    texts = found.as_dates.examples.values()
    return "yy" in form or (form == "d month y" and not any(map(_FOUR.search, texts)))


def build_rule(form: str, found: ColumnProfile) -> dict[str, str]:
    """Returns the rule that later values are written in the same form, if all of these are. Floats
    since 1970 are text then, as float32 has not all seconds."""
    if found.kind == "float32":
        return {"type": "string"} | ({} if found.tokens else {"dates": form})
    known = date_forms.TEXTS if found.kind == "string" else (COMPACT,)
    odd = found.tokens or form in found.as_dates.unreal
    return {"dates": form} if form in known and not odd else {}


def set_rule_of_no_feature(rules: dict[str, Any], found: ColumnProfile) -> None:
    """Removes that rule from those of a label or key, but for texts of which some are missing.
    Among texts that are not read as dates, an empty one in quotes is not."""
    rules.pop("dates", None)
    form = found.as_dates.form
    if form and found.missing and found.kind == "string":
        rules |= build_rule(form, found)


def write_note(form: str, found: ColumnProfile) -> str:
    """Returns what a person should know of how they were read."""
    if form in EPOCHS:
        return f"{form} since 1970"
    if form == "clock":
        return "times of day"
    if found.kind == "string" and (others := found.as_dates.others):
        return f"dates, taken for {form}; if they are not, form: {' or '.join(others)}"
    if _has_two_digits(form, found):
        return f"dates, {form}, of the years 1950 to 2049"
    return "dates" if form == "iso" else f"dates, {form}"


def find_stand_ins(name: str, found: ColumnProfile) -> list[str]:
    """Returns which days stand for no date, if some do."""
    times = find(name, found)
    texts = found.as_dates.list_stand_ins(times[0]) if times else []
    if times is None or not texts:
        return []
    _, span = times
    rows = sum(count for text, count in found.count_texts() if text in texts)
    often = f"{rows:,} of {found.values:,} values" if found.different is not None else "values"
    return [
        f"{name!r} has {often} such as {', '.join(map(repr, texts))}, far from the others, which "
        f"go from {span.first_day} to {span.last_day}: its trend ends there. If they stand for no "
        "date, leave them empty in the raw data"
    ]


def write_remarks(name: str, found: ColumnProfile) -> list[str]:
    """Returns what is in doubt: which of several ways of writing dates is meant, or why none is."""
    if found.lengths:
        return []
    if found.kind == "string" and (mixed := found.as_dates.mixed):
        listed = ", ".join(f"{text!r} ({form})" for form, text in mixed.items())
        return [
            f"{name!r} is kept as text: its dates are written in {len(mixed)} ways, such as "
            f"{listed}. Write all of them in one way"
        ]
    times = find(name, found)
    if times is None:
        return unix_times.write_remark(name, found)
    form, span = times
    if wrong := found.as_dates.unreal.get(form):
        return [
            f"{name!r}: {wrong!r} is no day of the calendar. It counts as -1, and so will any text "
            f"that is no date: correct such days, and schema holds later values to the form {form}"
        ]
    if _has_two_digits(form, found) and (
        span.years >= _TWO_CENTURIES or span.last_day.year > _AHEAD
    ):
        return [
            f"{name!r}: its years have two digits, and are taken for 1950 to 2049, from "
            f"{span.first_day.year} to {span.last_day.year}. Write four digits if that is wrong"
        ]
    if found.kind == "string" and (others := found.as_dates.others):
        one = next(iter(found.as_dates.examples.values()))
        return [
            f"{name!r}: dates such as {one!r} are taken for {form}, and no value shows that they "
            f"are not {' or '.join(others)}. If they are, write that as form in the config"
        ]
    if form in EPOCHS and not unix_times.is_time(name):
        one = found.list_some()[0]
        what, kind = "whole numbers", ""
        if found.kind == "float32":
            what, kind = "numbers", f"write type: float32 in data.columns.{name}, and "
        return [
            f"{name!r}: {what} such as {one} are taken for {form} since 1970. "
            f"If they are not, {kind}give features.{name} the step z_score"
        ]
    return []


def suggest_parts(
    name: str, form: str, span: dates.DateRange, *, found: ColumnProfile
) -> dict[str, list[Any]]:
    """Returns features by name: day of the week, month and hour as categories, the season, and the
    minute of the day and the day itself in even intervals; only those that differ. Dates of several
    years also make a category of each day of the calendar, if their rows are enough to learn it."""
    days = span.last - span.first

    def build_part(what: str) -> dict[str, Any]:
        return {"date": {"part": what} | ({} if form == "iso" else {"form": form})}

    made: dict[str, list[Any]] = {}
    # Of what is written by the month or year, weekdays are chance.
    if len(span.days) > 1:
        made[f"{name}_weekday"] = [build_part("weekday"), {"identity": {"ids": 8}}]
    if days >= _TWO_MONTHS and len(span.months) > 1:
        made[f"{name}_month"] = [build_part("month"), {"identity": {"ids": 13}}]
        made[f"{name}_season"] = [build_part("day_of_year"), {"cycle": {"period": _YEAR}}]
    if days >= _RETURNS * _YEAR and len(span.hours) <= 1 and found.values >= _LEARNED * _YEAR:
        made[f"{name}_day"] = [build_part("calendar_day"), {"identity": {"ids": 374}}]
    if len(span.hours) > 1:
        made[f"{name}_hour"] = [build_part("hour"), {"identity": {"ids": 25}}]
    if len(span.minutes) > 1:
        made[f"{name}_time"] = [build_part("minute_of_day"), {"piecewise": {"edges": _MINUTES}}]
    if days:
        count = min(_choose_intervals(span, found), days)
        edges = [span.first + days * n // count for n in range(count + 1)]
        made[f"{name}_trend"] = [build_part("days"), {"piecewise": {"edges": edges}}]
    return made


def _choose_intervals(span: dates.DateRange, found: ColumnProfile) -> int:
    """Returns of how many intervals the trend is."""
    possible = (span.last - span.first + 1) * max(1, len(span.hours)) * max(1, len(span.minutes))
    times = found.count_of_different
    if times < _CLOSE * possible:
        return _INTERVALS
    return max(_INTERVALS, min(_MOST_INTERVALS, times // _TIMES_EACH))
