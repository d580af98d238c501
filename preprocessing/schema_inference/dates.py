"""How dates and times are written in a column, and what they span."""

from __future__ import annotations

import dataclasses
import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.steps import dates

# Numbers are taken for times since 1970 if all are in these years.
_FROM, _TO = datetime.date(1990, 1, 1), datetime.date(2100, 1, 1)
_EPOCH = datetime.date(1970, 1, 1)
_A_DAY = 86400
# Where year, month and day are among the numbers of a text.
_ORDER = {
    "iso": (0, 1, 2),
    "y/m/d": (0, 1, 2),
    "m/d/y": (2, 0, 1),
    "d/m/y": (2, 1, 0),
    "d.m.y": (2, 1, 0),
}
_NUMBERS = r"^(?P<a>\d+)[-/.](?P<b>\d+)[-/.](?P<c>\d+)[T ]?(?P<hour>\d*)[0-9:.]* ?(?P<half>[AaPp]?)"


@dataclasses.dataclass
class Span:
    """From which day to which, counted from 1970-01-01, and which months, days of the month and
    hours occur; an hour of the afternoon may be 12 more."""

    first: int
    last: int
    months: set[int] = dataclasses.field(default_factory=set)
    days: set[int] = dataclasses.field(default_factory=set)
    hours: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Seen:
    """The forms that all texts so far have, and what these span in each."""

    forms: tuple[str, ...] = tuple(dates.TEXTS)
    spans: dict[str, Span] = dataclasses.field(default_factory=dict)

    def see(self, texts: pa.Array) -> None:
        """Takes in texts that stand for something, as binary."""
        if not self.forms or not len(texts):
            return
        try:
            texts = texts.cast(pa.string())
        except pa.ArrowInvalid:
            self.forms = ()
            return
        # Most columns hold no dates, as one value shows.
        one = texts[0].as_py()
        self.forms = tuple(form for form in self.forms if _has(form, one))
        self.forms = tuple(form for form in self.forms if _all_have(form, texts))
        if self.forms:
            found = pc.extract_regex(texts, _NUMBERS)
            parts = [found.field(n).cast(pa.int64()).to_numpy() for n in range(3)]
            hours = _hours(found.field(3), found.field(4))
            for form in self.forms:
                year, month, day = (parts[place] for place in _ORDER[form])
                days = (year * 12 + month) * 31 + day
                ends = (int(days.argmin()), int(days.argmax()))
                first, last = (_day(year[n], month[n], day[n]) for n in ends)
                known = self.spans.setdefault(form, Span(first, last))
                known.first, known.last = min(known.first, first), max(known.last, last)
                known.months |= set(np.unique(month).tolist())
                known.days |= set(np.unique(day).tolist())
                known.hours |= hours

    @property
    def form(self) -> str | None:
        """How they are written. Of days and months that could be either the month is first."""
        return next((form for form in self.forms if form in self.spans), None)


def of_numbers(least: float | int | None, greatest: float | int | None) -> tuple[str, Span] | None:
    """Returns what whole numbers from `least` to `greatest` count, if it is time since 1970."""
    if least is None or greatest is None:
        return None
    for form, unit in dates.EPOCHS.items():
        first, last = (int(number) // unit // _A_DAY for number in (least, greatest))
        if (_FROM - _EPOCH).days <= first <= last < (_TO - _EPOCH).days:
            days = last - first + 1
            months = set(range(min(12, 1 + days // 31)))
            return form, Span(first, last, months, set(range(min(31, days))), set(range(24)))
    return None


def _hours(hours: pa.Array, halves: pa.Array) -> set[int]:
    """Returns the hours of texts, 0 where they have none."""
    known = pc.if_else(pc.equal(hours, ""), "0", hours).cast(pa.int64())
    after = pc.is_in(halves, pa.array(["P", "p"])).cast(pa.int64())
    return set(pc.unique(pc.add(known, pc.multiply(after, 12))).to_pylist())


def _has(form: str, text: str) -> bool:
    return re.fullmatch(dates.TEXTS[form], text, re.ASCII) is not None


def _all_have(form: str, texts: pa.Array) -> bool:
    pattern = f"^({dates.TEXTS[form]})$"
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _day(year: int, month: int, day: int) -> int:
    """Returns a day since 1970; of one there is not, such as 31 April, the next there is."""
    first = datetime.date(max(1, int(year)), int(month), 1)
    return (first - _EPOCH).days + int(day) - 1
