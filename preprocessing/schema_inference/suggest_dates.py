"""Which features a column of dates or times makes: parts that return, and a trend."""

from __future__ import annotations

import re
from typing import Any

from preprocessing.schema_inference import dates
from preprocessing.schema_inference.profile import Found

# Numbers are times only if they are called so.
_TIME = re.compile(
    r"(^|[^a-z])(time(stamp)?|date(time)?|ts|epoch|unix|created|updated|modified)($|[^a-z])|_at$|"
    r"[a-z](Time|Date|At|Timestamp)$",
    re.IGNORECASE,
)
_TWO_MONTHS, _INTERVALS = 60, 8
_YEAR = 365.25
# A day such as a holiday can be learned if it has returned so often, and has so many rows.
_RETURNS, _LEARNED = 4, 5


def find(name: str, found: Found) -> tuple[str, dates.Span] | None:
    """Returns how the dates or times of a column are written and what they span, if it has such."""
    if found.lengths:
        return None
    if found.kind == "string":
        form = found.as_dates.form
        return (form, found.as_dates.spans[form]) if form else None
    if found.kind == "int64" and _TIME.search(name):
        return dates.of_numbers(found.about.least, found.about.greatest)
    return None


def note(form: str, found: Found) -> str:
    """Returns what a person should know of how they were read."""
    if form in ("seconds", "milliseconds"):
        return f"{form} since 1970"
    if {"m/d/y", "d/m/y"} <= set(found.as_dates.forms):
        return "dates, taken for month/day/year; if they are not, form: d/m/y"
    return "dates" if form == "iso" else f"dates, {form}"


def parts(name: str, form: str, span: dates.Span, *, rows: int) -> dict[str, list[Any]]:
    """Returns features by name: day of the week, month and hour as categories, the season, and the
    day itself in even intervals; only those that differ. Dates of several years also make a
    category of each day of the calendar, if their `rows` are enough to learn it."""
    days = span.last - span.first

    def part(what: str) -> dict[str, Any]:
        return {"date": {"part": what} | ({} if form == "iso" else {"form": form})}

    found = {}
    # Of what is written by the month or year, weekdays are chance.
    if len(span.days) > 1:
        found[f"{name}_weekday"] = [part("weekday"), {"identity": {"ids": 8}}]
    if days >= _TWO_MONTHS and len(span.months) > 1:
        found[f"{name}_month"] = [part("month"), {"identity": {"ids": 13}}]
        found[f"{name}_season"] = [part("day_of_year"), {"cycle": {"period": _YEAR}}]
    if days >= _RETURNS * _YEAR and len(span.hours) <= 1 and rows >= _LEARNED * _YEAR:
        found[f"{name}_day"] = [part("calendar_day"), {"identity": {"ids": 374}}]
    if len(span.hours) > 1:
        found[f"{name}_hour"] = [part("hour"), {"identity": {"ids": 25}}]
    if days:
        count = min(_INTERVALS, days)
        edges = [span.first + days * n // count for n in range(count + 1)]
        found[f"{name}_trend"] = [part("days"), {"piecewise": {"edges": edges}}]
    return found
