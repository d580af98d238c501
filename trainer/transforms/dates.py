"""Transforms of dates and times to whole numbers, int64 of the shape of the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from pipeline import feature_config

# ISO 8601: a date, and maybe a time to the minute or finer. Zones are not looked at.
_DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
_MIDNIGHT = "T00:00"
_UNKNOWN = -1
_NO_DATE = "1970-01-01" + _MIDNIGHT


def date(x: tf.Tensor, step: feature_config.Date) -> tf.Tensor:
    """The part of an ISO 8601 date or time as it is written; -1 for any other text."""
    known = tf.strings.regex_full_match(x, _DATE + _TIME)
    # A date without a time is at midnight.
    text = tf.where(known, tf.strings.join([x, tf.constant(_MIDNIGHT)]), _NO_DATE)
    return tf.where(known, _PARTS[step.part](text), tf.constant(_UNKNOWN, tf.int64))


def clock(x: tf.Tensor, step: feature_config.Clock) -> tf.Tensor:
    """Of x = 100 h + m: h, m, or 60 h + m. -1 stays -1."""
    parts = {"hour": x // 100, "minute": x % 100, "minute_of_day": x // 100 * 60 + x % 100}
    return tf.where(x < 0, tf.constant(_UNKNOWN, x.dtype), parts[step.part])


def _digits(start: int, length: int) -> Callable[[tf.Tensor], tf.Tensor]:
    def read(text: tf.Tensor) -> tf.Tensor:
        return tf.strings.to_number(tf.strings.substr(text, start, length), tf.int64)

    return read


_year, _month, _day = _digits(0, 4), _digits(5, 2), _digits(8, 2)


def _days(text: tf.Tensor) -> tf.Tensor:
    """Days since 1970-01-01: Howard Hinnant, chrono-compatible low-level date algorithms."""
    return _days_of(_year(text), _month(text), _day(text))


def _days_of(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    # Years that begin in March have the leap day at their end.
    year = tf.where(month <= 2, year - 1, year)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    era, of_era = year // 400, year % 400
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def _day_of_year(text: tf.Tensor) -> tf.Tensor:
    one = tf.ones_like(_year(text))
    return _days(text) - _days_of(_year(text), one, one) + 1


_PARTS: Mapping[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "year": _year,
    "month": _month,
    "day": _day,
    "hour": _digits(11, 2),
    "minute": _digits(14, 2),
    # 1970-01-01 was a Thursday.
    "weekday": lambda text: (_days(text) + 3) % 7,
    "day_of_year": _day_of_year,
}
