"""Steps of dates and times to whole numbers, int64 of the shape of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeline.steps.base import Follows, Step

if TYPE_CHECKING:
    import tensorflow as tf

# ISO 8601: a date, and maybe a time to the minute or finer. Zones are not looked at.
_DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
_UNKNOWN = -1
# Where year, month, day, hour and minute are among the 16 characters up to the minutes.
_PLACES = {"year": (0, 4), "month": (5, 7), "day": (8, 10), "hour": (11, 13), "minute": (14, 16)}
_LENGTH = 16


class Date(Step):
    """A part of a date such as 2013-01-31 or a time such as 2013-01-31T23:59:00Z; -1 if it is
    neither. Weekdays count from Monday, 0."""

    takes = ("text",)
    gives = "integer"
    part: Literal["year", "month", "day", "hour", "minute", "weekday", "day_of_year"]

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """The part of an ISO 8601 date or time as it is written; -1 for any other text."""
        import tensorflow as tf

        known = tf.strings.regex_full_match(x, _DATE + _TIME)
        # Bytes, not texts: strings cost more than all the rest.
        digits = tf.cast(tf.io.decode_raw(x, tf.uint8, fixed_length=_LENGTH), tf.int64) - ord("0")
        numbers = tf.matmul(digits, tf.constant(_weights(), tf.int64))
        parts = {name: tf.gather(numbers, n, axis=-1) for n, name in enumerate(_PLACES)}
        return tf.where(known, _part(self.part, parts), _UNKNOWN)


class Clock(Step):
    """A part of a time written as a number: 517 is 5:17."""

    takes = ("integer",)
    gives = "integer"
    part: Literal["hour", "minute", "minute_of_day"] = "minute_of_day"

    def statistics_after(self) -> Follows:
        """Later times have greater hours and minutes of the day."""
        return "forgotten" if self.part == "minute" else "monotonic"

    def value(self, x: float) -> float:
        """The same for one number."""
        return self._of(x) if x >= 0 else _UNKNOWN

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """Of x = 100 h + m: h, m, or 60 h + m. -1 stays -1."""
        import tensorflow as tf

        return tf.where(x >= 0, self._of(x), _UNKNOWN)

    def _of(self, x: tf.Tensor) -> tf.Tensor:
        if self.part == "hour":
            return x // 100
        return x % 100 if self.part == "minute" else x // 100 * 60 + x % 100


def _weights() -> list[list[int]]:
    """Returns what each character counts in each part."""
    return [
        [10 ** (end - 1 - place) if start <= place < end else 0 for start, end in _PLACES.values()]
        for place in range(_LENGTH)
    ]


def _part(part: str, of: dict[str, tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    if part in ("hour", "minute"):
        # A date without a time is at midnight; it has no digits there, but nulls.
        return tf.maximum(of[part], 0)
    if part == "weekday":
        return (_days(of["year"], of["month"], of["day"]) + 3) % 7  # 1970-01-01 was a Thursday
    if part == "day_of_year":
        one = tf.ones_like(of["year"])
        return _days(of["year"], of["month"], of["day"]) - _days(of["year"], one, one) + 1
    return of[part]


def _days(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    """Days since 1970-01-01: Howard Hinnant, chrono-compatible low-level date algorithms."""
    import tensorflow as tf

    # Years that begin in March have the leap day at their end.
    year = tf.where(month <= 2, year - 1, year)
    # Numbers come second in products, or saved Keras models take them for int32.
    of_year = ((month + 9) % 12 * 153 + 2) // 5 + day - 1
    era, of_era = year // 400, year % 400
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
