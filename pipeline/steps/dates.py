"""Steps of dates and times to whole numbers, int64 of the shape of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeline.steps import date_forms
from pipeline.steps.base import Follows, Kind, Step
from pipeline.steps.date_forms import EPOCHS

if TYPE_CHECKING:
    import tensorflow as tf

# Whole numbers such as 20190131.
COMPACT = "ymd"
_A_DAY = 86400
_UNKNOWN = -1
# Where year, month, day, hour and minute are among the 16 characters up to the minutes.
_PLACES = {"year": (0, 4), "month": (5, 7), "day": (8, 10), "hour": (11, 13), "minute": (14, 16)}
_LENGTH = 16


class Date(Step):
    """Takes a part of a date or time as an integer; -1 for anything else, such as 30 February."""

    takes = ("text", "integer")
    gives = "integer"
    takes_missing = True
    part: Literal[
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "minute_of_day",
        "weekday",
        "day_of_year",
        "calendar_day",
        "days",
    ]
    """The part. `minute_of_day` counts minutes from midnight. `weekday`: Monday is 0.
    `day_of_year`: 1 January is 1. `calendar_day`: 31 times the months before it, plus the day, so
    that 4 July is 190 in leap years, too. `days`: days since 1970-01-01."""
    form: date_forms.Form = "iso"
    """How dates are written. `iso`: `2013-01-31` or `2013-01-31T23:59:00Z`. `ymd`: `20130131`, text
    or an integer. `yy`: two digits, 1950 to 2049. `month`: its English name, such
    as `31 Jan 2013`, `Thu, 31 Jan 2013 23:59:00 +0000` and `January 31, 2013`. `y-m`, `m/y`,
    `month y` and `quarter` (`2013Q1`) are their first day. `clock`: a time of day, such as `13:45`,
    `13:45:01` or `01:45 PM`. A time may stand behind a date, as in `1/31/2013, 1:45 PM`,
    `01/31/2013 1 p.m.` and `31/Jan/2013:13:45:01`. Zones are ignored. `seconds` to
    `nanoseconds`: numbers that count since 1970-01-01 in UTC (Unix time), as integers or as text,
    such as `1359639900.5`."""

    def check(self, kind: Kind, shape: tuple[int, ...]) -> None:
        """Raises `ValueError` for a form of texts where it gets integers."""
        allowed = (*EPOCHS, COMPACT)
        if kind == "integer" and self.form not in allowed:
            raise ValueError(f"of {kind} form must be {', '.join(allowed)}, got {self.form}")

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """The part of a date or time as it is written; -1 for any other text, and for -1."""
        import tensorflow as tf

        if self.form in EPOCHS:
            x, known = _read_numbers(x) if x.dtype == tf.string else _read_integers(x)
            parts = _split_seconds(x // EPOCHS[self.form])
            return tf.where(known, _part(self.part, parts), _UNKNOWN)
        if x.dtype != tf.string:
            return _extract_from_compact(self.part, tf.cast(x, tf.int64))
        known = tf.strings.regex_full_match(x, date_forms.TEXTS[self.form])
        afternoon = morning = None
        if self.form != "iso":
            morning = tf.strings.regex_full_match(x, date_forms.MORNING)
            afternoon = tf.strings.regex_full_match(x, date_forms.AFTERNOON)
            for pattern, new in date_forms.rewrites(self.form):
                x = tf.strings.regex_replace(x, pattern, new)
        # Bytes, not texts: strings cost more than all the rest. 32 bits are enough, and quicker.
        digits = tf.cast(tf.io.decode_raw(x, tf.uint8, fixed_length=_LENGTH), tf.int32) - ord("0")
        numbers = tf.matmul(digits, tf.constant(_weights(), tf.int32))
        parts = {name: tf.gather(numbers, n, axis=-1) for n, name in enumerate(_PLACES)}
        # A date without a time is at midnight; it has no digits there, but nulls.
        parts |= {name: tf.maximum(parts[name], 0) for name in ("hour", "minute")}
        if afternoon is not None:
            hour = parts["hour"]
            hour = tf.where(morning | afternoon, hour % 12, hour)
            parts["hour"] = tf.where(afternoon, hour + 12, hour)
        known &= parts["day"] <= _compute_month_length(parts["year"], parts["month"])
        return tf.cast(tf.where(known, _part(self.part, parts), _UNKNOWN), tf.int64)


class Clock(Step):
    """Takes a part of a time of day that is written as a number: 517 is 5:17."""

    takes = ("integer",)
    gives = "integer"
    part: Literal["hour", "minute", "minute_of_day"] = "minute_of_day"
    """The part; `minute_of_day` counts minutes from midnight."""

    def statistics_after(self) -> Follows:
        """Later times have greater hours and minutes of the day."""
        return "forgotten" if self.part == "minute" else "monotonic"

    def value(self, x: float) -> float:
        """The same for one number."""
        return self._extract_part(x) if x >= 0 else _UNKNOWN

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """Of x = 100 h + m: h, m, or 60 h + m. -1 stays -1."""
        import tensorflow as tf

        return tf.where(x >= 0, self._extract_part(x), _UNKNOWN)

    def _extract_part(self, x: tf.Tensor) -> tf.Tensor:
        if self.part == "hour":
            return x // 100
        return x % 100 if self.part == "minute" else x // 100 * 60 + x % 100


def _read_integers(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns numbers since 1970 as int64, and which are known."""
    import tensorflow as tf

    numbers = tf.cast(numbers, tf.int64)
    return numbers, tf.not_equal(numbers, _UNKNOWN)


def _read_numbers(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns numbers since 1970 as int64, rounded down, and which are known.

    Those with an exponent are as near as float64 is to them.
    """
    import tensorflow as tf

    known = tf.strings.regex_full_match(texts, date_forms.NUMBER)
    numbers = tf.strings.to_number(tf.where(known, texts, str(_UNKNOWN)), tf.float64)
    exact = tf.strings.regex_full_match(texts, date_forms.EXACT)
    whole = tf.strings.regex_replace(tf.where(exact, texts, "0"), r"\..*", "")
    below = tf.strings.regex_full_match(texts, r"-.*\.0*[1-9].*")
    read = tf.strings.to_number(whole, tf.int64) - tf.cast(below, tf.int64)
    read = tf.where(exact, read, tf.cast(tf.floor(numbers), tf.int64))
    return read, tf.not_equal(numbers, _UNKNOWN)


def _weights() -> list[list[int]]:
    """Returns what each character counts in each part."""
    return [
        [10 ** (end - 1 - place) if start <= place < end else 0 for start, end in _PLACES.values()]
        for place in range(_LENGTH)
    ]


def _part(part: str, of: dict[str, tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    if part in of:
        return of[part]
    if part == "minute_of_day":
        return of["hour"] * 60 + of["minute"]
    if part == "calendar_day":
        return (of["month"] - 1) * 31 + of["day"]
    days = _days(of["year"], of["month"], of["day"])
    if part == "days":
        return days
    if part == "weekday":
        return (days + 3) % 7  # 1970-01-01 was a Thursday
    one = tf.ones_like(of["year"])
    return days - _days(of["year"], one, one) + 1


def _extract_from_compact(part: str, x: tf.Tensor) -> tf.Tensor:
    """The part of days such as 20190131; -1 for other numbers."""
    import tensorflow as tf

    month, day = x // 100 % 100, x % 100
    known = (x >= 10**4) & (x < 10**8) & (month >= 1) & (month <= 12) & (day >= 1)
    known &= day <= _compute_month_length(x // 10000, month)
    midnight = tf.zeros_like(x)
    of = {"year": x // 10000, "month": month, "day": day, "hour": midnight, "minute": midnight}
    return tf.where(known, _part(part, of), _UNKNOWN)


def _compute_month_length(year: tf.Tensor, month: tf.Tensor) -> tf.Tensor:
    """Returns the last day of a month."""
    import tensorflow as tf

    # Not `==`, which a model of Keras that is read again does not know.
    century = tf.cast(tf.equal(year % 100, 0), year.dtype)
    leap = tf.equal(year % (century * 396 + 4), 0)
    february = tf.cast(leap, year.dtype) + 28
    return tf.where(tf.equal(month, 2), february, (month + month // 8) % 2 + 30)


def _split_seconds(seconds: tf.Tensor) -> dict[str, tf.Tensor]:
    """Year to minute of what counts from 1970-01-01T00:00Z, by the same algorithms backwards."""
    import tensorflow as tf

    days, of_day = seconds // _A_DAY, seconds % _A_DAY
    since = days + 719468
    era, of_era = since // 146097, since % 146097
    years = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (years * 365 + years // 4 - years // 100)
    from_march = (of_year * 5 + 2) // 153
    month = tf.where(from_march < 10, from_march + 3, from_march - 9)
    year = years + era * 400
    return {
        "year": tf.where(month <= 2, year + 1, year),
        "month": month,
        "day": of_year - (from_march * 153 + 2) // 5 + 1,
        "hour": of_day // 3600,
        "minute": of_day % 3600 // 60,
    }


def _days(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    """Days since 1970-01-01: Howard Hinnant, chrono-compatible low-level date algorithms."""
    import tensorflow as tf

    # Years that begin in March have the leap day at their end.
    year = tf.where(month <= 2, year - 1, year)
    # Numbers come second in products, or saved Keras models take them for int32.
    of_year = ((month + 9) % 12 * 153 + 2) // 5 + day
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719469
