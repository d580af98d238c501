"""Transforms of dates and times to whole numbers, int64 of the shape of the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from pipeline import feature_config

# ISO 8601: a date, and maybe a time to the minute or finer. Zones are not looked at.
_DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
_UNKNOWN = -1
# Of the 16 characters up to the minutes, those that are year, month, day, hour and minute.
_PLACES = np.zeros([16, 5], np.int64)
for _column, (_start, _end) in enumerate([(0, 4), (5, 7), (8, 10), (11, 13), (14, 16)]):
    _PLACES[_start:_end, _column] = 10 ** np.arange(_end - _start)[::-1]
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE = range(5)


def date(x: tf.Tensor, step: feature_config.Date) -> tf.Tensor:
    """The part of an ISO 8601 date or time as it is written; -1 for any other text."""
    known = tf.strings.regex_full_match(x, _DATE + _TIME)
    # Bytes, not texts: strings cost more than all the rest.
    digits = tf.cast(tf.io.decode_raw(x, tf.uint8, fixed_length=len(_PLACES)), tf.int64) - ord("0")
    return tf.where(known, _PARTS[step.part](tf.matmul(digits, _PLACES)), _UNKNOWN)


def clock(x: tf.Tensor, step: feature_config.Clock) -> tf.Tensor:
    """Of x = 100 h + m: h, m, or 60 h + m. -1 stays -1."""
    return tf.where(x >= 0, _OF_CLOCK[step.part](x), _UNKNOWN)


_OF_CLOCK: Mapping[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "hour": lambda x: x // 100,
    "minute": lambda x: x % 100,
    "minute_of_day": lambda x: x // 100 * 60 + x % 100,
}


def _of(numbers: tf.Tensor, part: int) -> tf.Tensor:
    return tf.gather(numbers, part, axis=-1)


def _days(numbers: tf.Tensor) -> tf.Tensor:
    """Days since 1970-01-01: Howard Hinnant, chrono-compatible low-level date algorithms."""
    return _days_of(_of(numbers, _YEAR), _of(numbers, _MONTH), _of(numbers, _DAY))


def _days_of(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    # Years that begin in March have the leap day at their end.
    year = tf.where(month <= 2, year - 1, year)
    # Numbers come second in products, or saved Keras models take them for int32.
    of_year = ((month + 9) % 12 * 153 + 2) // 5 + day - 1
    era, of_era = year // 400, year % 400
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def _day_of_year(numbers: tf.Tensor) -> tf.Tensor:
    one = tf.ones_like(_of(numbers, _YEAR))
    return _days(numbers) - _days_of(_of(numbers, _YEAR), one, one) + 1


_PARTS: Mapping[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "year": lambda numbers: _of(numbers, _YEAR),
    "month": lambda numbers: _of(numbers, _MONTH),
    "day": lambda numbers: _of(numbers, _DAY),
    # A date without a time is at midnight; it has no digits there, but nulls.
    "hour": lambda numbers: tf.maximum(_of(numbers, _HOUR), 0),
    "minute": lambda numbers: tf.maximum(_of(numbers, _MINUTE), 0),
    # 1970-01-01 was a Thursday.
    "weekday": lambda numbers: (_days(numbers) + 3) % 7,
    "day_of_year": _day_of_year,
}
