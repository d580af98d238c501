"""How dates and times are written in a column, and what they span."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.steps import date_forms
from pipeline.steps.dates import COMPACT
from preprocessing.arrow import date_texts

_EPOCH = datetime.date(1970, 1, 1)
_A_YEAR = 365
_DAY = len("2013-01-31")
# What whole numbers such as 20190131 can be the days of.
COMPACT_FROM, COMPACT_TO = 1900, 2099
_LONGEST = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
# Of a column that has many days of the month in one form, a form that has fewer of them by this
# factor takes years for days.
_MANY_DAYS, _FEWER_DAYS = 15, 3
# Years have so many terms at most, which are written without a zero.
_TERMS, _PADDED = 4, re.compile(r"\b0|[Mm]")
# Years of few tables, and days that often stand for no date, such as the end of time.
_PLAUSIBLE_FROM, _PLAUSIBLE_TO = 1700, 2200
_STAND_INS = (17530101, 18991230, 18991231, 19000101, 19700101, 20991231)
_STAND_INS_OF_NUMBERS = (10101, 29991231, 99991231)
# So many of them are kept as examples.
_EXAMPLES = 3
_ISO = r"^(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ]?(?P<hour>\d*):?(?P<minute>\d*)"


@dataclasses.dataclass
class DateRange:
    """From which day to which, counted from 1970-01-01, and which months, days of the month, hours
    and minutes of the hour occur; an hour of the afternoon may be 12 more. `seen` counts different
    values, of each part of the data anew."""

    first: int
    last: int
    months: set[int] = dataclasses.field(default_factory=set)
    days: set[int] = dataclasses.field(default_factory=set)
    hours: set[int] = dataclasses.field(default_factory=set)
    minutes: set[int] = dataclasses.field(default_factory=set)
    seen: int = 0

    @property
    def first_day(self) -> datetime.date:
        """`first` in the calendar."""
        return _EPOCH + datetime.timedelta(days=self.first)

    @property
    def last_day(self) -> datetime.date:
        """`last` in the calendar."""
        return _EPOCH + datetime.timedelta(days=self.last)

    @property
    def years(self) -> int:
        """From which year to which, as a difference."""
        return self.last_day.year - self.first_day.year

    def is_far(self, other: DateRange) -> bool:
        """Tells if it goes further beyond an `other` span than that is long, and has less days."""
        length = other.last - other.first + _A_YEAR
        far = self.first < other.first - length or self.last > other.last + length
        return far and self.seen < other.seen

    def join(self, other: DateRange) -> DateRange:
        """Returns the span of both."""
        return DateRange(
            min(self.first, other.first),
            max(self.last, other.last),
            self.months | other.months,
            self.days | other.days,
            hours=self.hours | other.hours,
            minutes=self.minutes | other.minutes,
            seen=self.seen + other.seen,
        )


@dataclasses.dataclass
class Seen:
    """The forms that all texts so far have, and what these span in each.

    `examples` are a text of each form that is needed to read them all. `no_dates` tells that some
    are in none, `compact` what whole numbers span that are all days, such as 20190131. `aside` is
    what days span, in each form, that may stand for no date, and `odd` are some of them as written.
    Of the forms in `unreal` it is a day that is not, such as 30 February.
    """

    forms: tuple[str, ...] = tuple(date_forms.TEXTS)
    near: dict[str, DateRange] = dataclasses.field(default_factory=dict)
    aside: dict[str, DateRange] = dataclasses.field(default_factory=dict)
    odd: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    examples: dict[str, str] = dataclasses.field(default_factory=dict)
    no_dates: bool = False
    compact: DateRange | None = None
    unreal: dict[str, str] = dataclasses.field(default_factory=dict)
    _apart: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    _no_days: bool = False
    _seasons: bool = True

    def see(self, texts: pa.Array) -> None:
        """Takes in texts that stand for something, as binary."""
        if self.no_dates or not len(texts):
            return
        try:
            texts = texts.cast(pa.string())
        except pa.ArrowInvalid:
            self.forms, self.no_dates = (), True
            return
        # Most columns hold no dates, as one value shows.
        one = texts[0].as_py()
        of_one = [form for form in date_forms.TEXTS if _has(form, one)]
        self.no_dates = not of_one
        self.forms = tuple(
            form
            for form in self.forms
            if form in of_one and pc.all(date_texts.match_form(form, texts)).as_py()
        )
        if self.forms:
            iso = {form: date_texts.rewrite_as_iso(form, texts) for form in self.forms}
            for form in self.forms:
                self._see_span(form, texts, iso[form])
            days = {form: pc.utf8_slice_codeunits(iso[form], 0, _DAY) for form in self.forms}
            for pair in itertools.combinations(self.forms, 2):
                if not days[pair[0]].equals(days[pair[1]]):
                    self._apart.add(pair)
        if not self.no_dates:
            self._sort(texts, one)

    def see_numbers(self, numbers: np.ndarray) -> None:
        """Takes in whole numbers."""
        if self._no_days or not len(numbers):
            return
        year, month, day = numbers // 10000, numbers // 100 % 100, numbers % 100
        real = (year >= COMPACT_FROM) & (year <= COMPACT_TO) & (month >= 1) & (month <= 12)
        real &= (day >= 1) & (day <= _LONGEST[np.clip(month, 1, 12) - 1])
        odd = np.isin(numbers, _STAND_INS_OF_NUMBERS)
        if not (real | odd).all():
            self.compact, self._no_days = None, True
            return
        self.odd[COMPACT] = sorted({*self.odd.get(COMPACT, ()), *map(str, numbers[odd])})
        if len(wrong := _find_unreal_days(year, month, day)):
            self.unreal.setdefault(COMPACT, str(numbers[wrong[0]]))
        if real.any():
            self.compact = _widen(self.compact, (year[real], month[real], day[real]))
            self.compact.hours.add(0)

    @property
    def spans(self) -> dict[str, DateRange]:
        """What the texts span in each form, without days that stand for no date."""
        known = {form: self._build_span(form) for form in self.forms}
        return {form: span for form, span in known.items() if span is not None}

    def _build_span(self, form: str) -> DateRange | None:
        near, aside = self.near.get(form), self.aside.get(form)
        if near is None or aside is None:
            return near or aside
        return near if aside.is_far(near) else near.join(aside)

    def list_stand_ins(self, form: str) -> list[str]:
        """Returns some texts that are days in this form, but stand for no date."""
        near, aside = self.near.get(form), self.aside.get(form)
        far = form == COMPACT or (near is not None and aside is not None and aside.is_far(near))
        return self.odd.get(form, []) if far else []

    @property
    def form(self) -> str | None:
        """How they are written: of several ways the one that spans the fewest years, and of these
        the one that has the month first."""
        known = [form for form in self.forms if form in self.spans]
        if "y-m" in known and self._seasons and self.spans["y-m"].years:
            known.remove("y-m")  # 2019-20, 2020-21
        terms = [f for f in ("y-m", "m/y") if f in known and self._may_be_terms(f)]
        known = [form for form in known if form not in terms]
        return min(known, key=lambda form: self.spans[form].years, default=None)

    @property
    def others(self) -> tuple[str, ...]:
        """Forms in which the same texts are other days, and as likely ones."""
        if (taken := self.form) is None:
            return ()
        spans = self.spans
        days = len(spans[taken].days)
        likely = [
            form
            for form in self.forms
            if days < _MANY_DAYS or len(spans[form].days) * _FEWER_DAYS > days
        ]
        return tuple(form for form in likely if {(form, taken), (taken, form)} & self._apart)

    @property
    def mixed(self) -> dict[str, str]:
        """A text by form, if all are dates but no form has all."""
        return {} if self.no_dates or self.forms else self.examples

    def _may_be_terms(self, form: str) -> bool:
        """Tells if months could be the terms of a year: 2000-1, 2000-2."""
        padded = any(_PADDED.search(text) for text in self.examples.values())
        return max(self.spans[form].months) <= _TERMS and not padded

    def _see_span(self, form: str, texts: pa.Array, iso: pa.Array) -> None:
        found = pc.extract_regex(iso, _ISO)
        year, month, day = (found.field(n).cast(pa.int64()).to_numpy() for n in range(3))
        if len(wrong := _find_unreal_days(year, month, day)):
            self.unreal.setdefault(form, texts[int(wrong[0])].as_py())
        apart = (year < _PLAUSIBLE_FROM) | (year > _PLAUSIBLE_TO)
        apart |= np.isin((year * 100 + month) * 100 + day, _STAND_INS)
        for spans, rows in ((self.near, ~apart), (self.aside, apart)):
            if rows.any():
                parts = (year[rows], month[rows], day[rows])
                known = spans[form] = _widen(spans.get(form), parts)
                mask = pa.array(rows)
                known.hours |= _list_hours(found.field(3).filter(mask), texts.filter(mask))
                known.minutes |= set(
                    pc.unique(_read_numbers(found.field(4).filter(mask))).to_pylist()
                )
        few = texts.filter(pa.array(apart)).slice(0, _EXAMPLES).to_pylist()
        self.odd[form] = sorted({*self.odd.get(form, ()), *few})[:_EXAMPLES]
        if form == "y-m":
            self._seasons &= bool((month == (year + 1) % 100).all())

    def _sort(self, texts: pa.Array, one: str) -> None:
        """Finds an example of each form that is needed."""
        if self.forms:
            kept = next(iter(self.examples.values()), one)
            self.examples = {self.forms[0]: kept}
            return
        for form in dict.fromkeys((*self.examples, *date_forms.TEXTS)):
            has = date_texts.match_form(form, texts)
            if pc.any(has).as_py():
                self.examples.setdefault(form, texts.filter(has)[0].as_py())
                texts = texts.filter(pc.invert(has))
            if not len(texts):
                return
        self.no_dates = True


def _widen(known: DateRange | None, parts: tuple[np.ndarray, np.ndarray, np.ndarray]) -> DateRange:
    """Returns a span that has these days, too."""
    year, month, day = parts
    days = (year * 12 + month) * 31 + day
    ends = (int(days.argmin()), int(days.argmax()))
    first, last = (_count_days(year[n], month[n], day[n]) for n in ends)
    known = known or DateRange(first, last)
    known.first, known.last = min(known.first, first), max(known.last, last)
    known.months |= set(np.unique(month).tolist())
    known.days |= set(np.unique(day).tolist())
    known.seen += len(days)
    return known


def _find_unreal_days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Returns the places of days that are not in the calendar."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longest = _LONGEST[month - 1] - ((month == 2) & ~leap)
    return np.flatnonzero(day > longest)


def _read_numbers(digits: pa.Array) -> pa.Array:
    """Returns digits as numbers, 0 where there are none."""
    return pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64())


def _list_hours(hours: pa.Array, texts: pa.Array) -> set[int]:
    """Returns the hours of texts, 0 where they have none."""
    known = _read_numbers(hours)
    after = pc.match_substring_regex(texts, date_forms.AFTERNOON).cast(pa.int64())
    return set(pc.unique(pc.add(known, pc.multiply(after, 12))).to_pylist())


def _has(form: str, text: str) -> bool:
    return re.fullmatch(date_forms.TEXTS[form], text, re.ASCII) is not None


def _count_days(year: int, month: int, day: int) -> int:
    """Returns a day since 1970; of one there is not, such as 31 April, the next there is."""
    first = datetime.date(int(year), int(month), 1)
    return (first - _EPOCH).days + int(day) - 1
