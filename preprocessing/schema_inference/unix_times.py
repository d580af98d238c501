"""Numbers that count time since 1970: of columns called like times, and of others that show it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping

import numpy as np

from pipeline.steps import date_forms
from preprocessing.schema_inference import traits
from preprocessing.schema_inference.dates import DateRange
from preprocessing.schema_inference.profile import ColumnProfile

# Numbers of such columns are taken for times since 1970 if all are in these years; of others only
# milliseconds in fewer years, and seconds that show it, as identifiers have as many digits.
_CALLED = re.compile(
    r"(^|[^a-z])(time(stamp)?|date(time)?|dt|ts|stamp|epoch|unix|utc|when|created|updated|modified|"
    r"logged|recorded|posted|published)($|[^a-z])|_at$|[a-z](Time|Date|At|Stamp)$",
    re.IGNORECASE,
)
_EPOCH = datetime.date(1970, 1, 1)
_FROM, _TO = datetime.date(1990, 1, 1), datetime.date(2100, 1, 1)
_FROM_UNCALLED, _TO_UNCALLED = datetime.date(2000, 1, 1), datetime.date(2040, 1, 1)
# Identifiers of ten digits that begin with 1 go from 2001 to 2033: neither times to the end of that
# nor, if no rhythm shows it, times of so many days.
_TO_OF_SECONDS, _MOST_DAYS = datetime.date(2031, 1, 1), 20 * 366
_SECONDS: Mapping[str, int] = {"seconds": 1, "milliseconds": 1000}
_A_MINUTE, _AN_HOUR, _A_DAY, _A_WEEK = 60, 3600, 86400, 604800
# So many different times show a common step of minutes, hours or days.
_STEPS = 20
# A rhythm of days is one that is so much stronger than by chance, and than those of other lengths,
# in so many days: numbers in clusters have rhythms of any length.
_CHANCE, _STRONGER, _DAYS = 15.0, 3.0, 14
_OTHERS = np.concatenate([np.linspace(0.4, 0.85, 23), np.linspace(1.15, 1.6, 23)])
# Whole numbers that fill more of their range are counted through.
_FILLED = 0.5


def is_time(name: str) -> bool:
    """Tells if a column is called a time."""
    return _CALLED.search(name) is not None


def find(name: str, found: ColumnProfile) -> tuple[str, DateRange] | None:
    """Returns what the numbers of a column count, if it is time since 1970, and what they span."""
    least, greatest, called = found.about.least, found.about.greatest, is_time(name)
    whole = found.kind == "int64"
    times = detect(least, greatest, called=called) if called or whole else None
    uncalled = times is None and not called
    if uncalled:
        times = _detect_uncalled(least, greatest)
    # First what is cheap: few numbers are in the range.
    if times is None or not _are_plain(found) or (not called and traits.is_identifier(name, found)):
        return None
    values = traits.count_numbers(found)[0]
    if uncalled and not shows_days(values / date_forms.EPOCHS[times[0]]):
        return None
    seconds = values // date_forms.EPOCHS[times[0]]
    times[1].hours = set(np.unique(seconds // _AN_HOUR % 24).astype(int).tolist())
    times[1].minutes = set(np.unique(seconds // _A_MINUTE % 60).astype(int).tolist())
    return times


def detect(
    least: float | int | None, greatest: float | int | None, *, called: bool = True
) -> tuple[str, DateRange] | None:
    """Returns what numbers from `least` to `greatest` count, if it is time since 1970. `called`
    tells if the column is called a time."""
    if called:
        return _match_range(least, greatest, date_forms.EPOCHS, years=(_FROM, _TO))
    milliseconds = {"milliseconds": 1000}
    return _match_range(least, greatest, milliseconds, years=(_FROM_UNCALLED, _TO_UNCALLED))


def write_remark(name: str, found: ColumnProfile) -> list[str]:
    """Returns that numbers may be times, if nothing shows whether they are."""
    about, different = found.about, found.count_of_different
    times = _detect_uncalled(about.least, about.greatest)
    if times is None or different < _STEPS:
        return []
    if traits.is_identifier(name, found) or traits.is_personal(name, found):
        return []
    if not _are_plain(found) or find(name, found) is not None:
        return []
    if not 0 < times[1].last - times[1].first < _MOST_DAYS:
        return []
    assert about.least is not None and about.greatest is not None
    if found.kind == "int64" and different > _FILLED * (about.greatest - about.least):
        return []
    form, span = times
    return [
        f"{name!r}: numbers such as {found.list_some()[0]} are taken for amounts, and may be "
        f"{form} since 1970, from {span.first_day} to {span.last_day}. If they are, call the "
        f"column {name}_time, or make features of it with the step date, form: {form}"
    ]


def shows_days(seconds: np.ndarray) -> bool:
    """Tells if different numbers, `[values]`, are seconds: all are whole minutes, hours or days
    apart, or follow a rhythm of days."""
    if len(seconds) < _STEPS:
        return False
    apart = seconds - seconds.min()
    if (apart == np.floor(apart)).all():
        step = int(np.gcd.reduce(apart.astype(np.int64)))
        if step % _A_MINUTE == 0 and step and (_A_WEEK % step == 0 or step % _A_DAY == 0):
            return True
    if apart.max() < _DAYS * _A_DAY:
        return False
    others = max(_measure_rhythm(apart, _A_DAY / ratio) for ratio in _OTHERS)
    return _measure_rhythm(apart, _A_DAY) > max(_CHANCE, _STRONGER * others)


def _measure_rhythm(seconds: np.ndarray, period: float) -> float:
    """Returns the power of a rhythm, which is 1 on average for times that follow none."""
    return float(abs(np.exp(2j * np.pi / period * seconds).sum()) ** 2) / len(seconds)


def _are_plain(found: ColumnProfile) -> bool:
    """Tells if values are whole numbers, or floats that the step `date` can read as text."""
    if found.lengths or found.kind not in ("int64", "float32"):
        return False
    if found.kind == "int64":
        return True
    if found.about.not_finite or found.csv.decimal != ".":
        return False
    if not all(re.fullmatch(date_forms.NUMBER, text, re.ASCII) for text in found.list_texts()):
        return False
    # Of files of float32, such as TFRecord, text has no more digits.
    values = traits.count_numbers(found)[0]
    return bool((values.astype(np.float32) != values).any())


def _detect_uncalled(
    least: float | int | None, greatest: float | int | None
) -> tuple[str, DateRange] | None:
    """Returns what numbers may count of a column that is not called a time."""
    return _match_range(least, greatest, _SECONDS, years=(_FROM_UNCALLED, _TO_OF_SECONDS))


def _match_range(
    least: float | int | None,
    greatest: float | int | None,
    units: Mapping[str, int],
    *,
    years: tuple[datetime.date, datetime.date],
) -> tuple[str, DateRange] | None:
    """Returns the first of the units in which all numbers are in these years, and their span."""
    if least is None or greatest is None:
        return None
    start, end = ((day - _EPOCH).days for day in years)
    for form, unit in units.items():
        first, last = (int(number) // unit // _A_DAY for number in (least, greatest))
        if start <= first <= last < end:
            days = last - first + 1
            months = set(range(min(12, 1 + days // 31)))
            return form, DateRange(first, last, months, set(range(min(31, days))), set(range(24)))
    return None
