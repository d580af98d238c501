"""How dates and times are written as text: what matches, and what makes ISO 8601 of it.

Patterns are of RE2, which TensorFlow and Arrow share, and of Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

# ISO 8601: a date, and maybe a time to the minute or finer. Zones are not looked at.
_ZONE = r"((?i:utc|gmt)?[+-]\d{2}:?\d{2}( \([A-Za-z ]+\))?|(?i:z|utc?|gmt|[ecmp][sd]t))"
# The calendar of Python, which all days are held to, has no year 0.
_YEAR = r"([1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])"
_DATE = rf"{_YEAR}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_TIME = r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
# Other ways, in which leading zeros may be left out, and hours may be those of a clock face.
_MONTH, _DAY = "(0?[1-9]|1[0-2])", r"(0?[1-9]|[12]\d|3[01])"
# Halves of the day may be written `p.m.` and stand behind a space that does not break, narrow or
# not, as browsers write it. Without minutes only they show that a number is an hour.
_SPACE = "[ \u00a0\u202f]?"
_HALF = rf"{_SPACE}[AaPp]\.?{_SPACE}[Mm]"
_MINUTES = rf"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?({_HALF}\.?)?( ?{_ZONE})?"
_CLOCK = rf"({_MINUTES}|(0?[1-9]|1[0-2]){_HALF}\.?( ?{_ZONE})?)"
_LOOSE = f"((,? +|T){_CLOCK})?"
_AFTER_NAMES = f"((,? +(at +)?|T){_CLOCK}|:{_MINUTES})?"
# Two digits of a year, with all zeros: without them it could as well be a version.
_MONTH_2, _DAY_2, _YEAR_2 = r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])", r"\d\d"
_MONTHS = (
    "jan(uary)?",
    "feb(ruary)?",
    "mar(ch)?",
    "apr(il)?",
    "may",
    "june?",
    "july?",
    "aug(ust)?",
    "sep(t(ember)?)?",
    "oct(ober)?",
    "nov(ember)?",
    "dec(ember)?",
)
_NAME = rf"(?i:{'|'.join(_MONTHS)})\.?"
_WEEKDAY = r"(?i:(mon|tue(s|sday)?|wed(nes)?|thu(r|rs)?|fri|sat(ur)?|sun)(day)?)\.?,? +"
_COMPACT_CLOCK = rf"([01]\d|2[0-3]):?[0-5]\d(:?[0-5]\d(\.\d+)?)?{_ZONE}?"
_ORDINAL, _GAP = "(?i:st|nd|rd|th)?", "[ ,./-]{0,2}"
_NAMED_DAY = f"{_DAY}{_ORDINAL}"

TextForm: TypeAlias = Literal[
    "iso",
    "y-m-d",
    "y/m/d",
    "m/d/y",
    "d/m/y",
    "d.m.y",
    "m-d-y",
    "d-m-y",
    "m/d/yy",
    "d/m/yy",
    "yy/m/d",
    "d.m.yy",
    "m-d-yy",
    "d-m-yy",
    "yy-m-d",
    "ymd",
    "d month y",
    "month d y",
    "y month d",
    "y-m",
    "m/y",
    "month y",
    "quarter",
    "clock",
]
# Numbers since 1970-01-01 in UTC, and how many of them are a second. Texts may have decimals.
Epoch: TypeAlias = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]
Form: TypeAlias = TextForm | Epoch
EPOCHS: Mapping[str, int] = {name: 1000**power for power, name in enumerate(get_args(Epoch))}
NUMBER = r"-?(\d{1,19}(\.\d*)?|\d(\.\d*)?[eE]\+?(0?\d|1[0-8]))"
# Those that int64 has whole. Of others, with exponents, float64 has 53 bits.
EXACT = r"-?(\d{1,18}|[0-8]\d{18})(\.\d*)?"
# The same day, or its month or quarter, in each form; a time of day is one of 1970-01-01.
EXAMPLES: Mapping[str, str] = {
    form: form.replace("month", "Jan")
    .replace("yy", "13")
    .replace("y", "2013")
    .replace("m", "01")
    .replace("d", "31")
    for form in get_args(TextForm)
} | {
    "iso": "2013-01-31",
    "quarter": "2013Q1",
    "clock": "13:45",
    **{form: str(1_359_590_400 * unit) for form, unit in EPOCHS.items()},
}

# How texts are written -> what the whole of one matches; of those that read a text alike, the first
# is the usual one.
TEXTS: Mapping[str, str] = {
    "iso": _DATE + _TIME,
    "y-m-d": f"{_YEAR}-{_MONTH}-{_DAY}{_LOOSE}",
    "y/m/d": f"{_YEAR}/{_MONTH}/{_DAY}{_LOOSE}",
    "m/d/y": f"{_MONTH}/{_DAY}/{_YEAR}{_LOOSE}",
    "d/m/y": f"{_DAY}/{_MONTH}/{_YEAR}{_LOOSE}",
    "d.m.y": rf"{_DAY}\.{_MONTH}\.{_YEAR}{_LOOSE}",
    "m-d-y": f"{_MONTH}-{_DAY}-{_YEAR}{_LOOSE}",
    "d-m-y": f"{_DAY}-{_MONTH}-{_YEAR}{_LOOSE}",
    "m/d/yy": f"{_MONTH}/{_DAY}/{_YEAR_2}{_LOOSE}",
    "d/m/yy": f"{_DAY}/{_MONTH}/{_YEAR_2}{_LOOSE}",
    "yy/m/d": f"{_YEAR_2}/{_MONTH}/{_DAY}{_LOOSE}",
    "d.m.yy": rf"{_DAY_2}\.{_MONTH_2}\.{_YEAR_2}{_LOOSE}",
    "m-d-yy": f"{_MONTH_2}-{_DAY_2}-{_YEAR_2}{_LOOSE}",
    "d-m-yy": f"{_DAY_2}-{_MONTH_2}-{_YEAR_2}{_LOOSE}",
    "yy-m-d": f"{_YEAR_2}-{_MONTH_2}-{_DAY_2}{_LOOSE}",
    "ymd": rf"{_YEAR}{_MONTH_2}{_DAY_2}([T ]?{_COMPACT_CLOCK})?",
    "d month y": rf"({_WEEKDAY})?{_NAMED_DAY}{_GAP}{_NAME}{_GAP}({_YEAR}|\d\d){_AFTER_NAMES}",
    "month d y": (
        rf"({_WEEKDAY})?{_NAME}{_GAP}{_NAMED_DAY}"
        rf"(,? *{_YEAR}{_AFTER_NAMES}| +{_CLOCK} +{_YEAR})"
    ),
    "y month d": f"{_YEAR}{_GAP}{_NAME}{_GAP}{_NAMED_DAY}{_AFTER_NAMES}",
    "y-m": f"{_YEAR}[/Mm-]{_MONTH}",
    "m/y": f"{_MONTH}[/-]{_YEAR}",
    "month y": f"{_NAME}{_GAP}{_YEAR}|{_YEAR}{_GAP}{_NAME}",
    "quarter": rf"{_YEAR}[ /-]?[Qq][1-4]|[Qq][1-4][ /-]?{_YEAR}",
    "clock": _CLOCK,
}
# A month or a quarter: what counts is its first day.
OF_MONTHS = ("y-m", "m/y", "month y", "quarter")
MORNING, AFTERNOON = (rf".*\d{_SPACE}{half}\.?{_SPACE}[Mm].*" for half in ("[Aa]", "[Pp]"))

_Rewrites = list[tuple[str, str]]
# Two digits of each number, of tenths of a second too, and minutes behind each hour.
_PADS = [
    (r"(\d)T(\d)", r"\1 \2"),
    (r"(:\d\d\.\d)\b", r"\10"),
    (rf"(^|[ T])(\d\d?)({_HALF})", r"\1\2:00\3"),
    (r"\b(\d)\b", r"0\1"),
]
# Two digits of a year from 50 on are of the last century, as in Oracle's RR: data tell of the past,
# and POSIX, with 69, would take 1963 for 2063.
_CENTURIES = (("([5-9]\\d)", "19"), ("(\\d\\d)", "20"))


def _build_numeric_rewrites(form: str) -> _Rewrites:
    """Returns what makes ISO 8601 of numbers between `/`, `-` or `.`, such as `m/d/yy`."""
    mark = next(mark for mark in "/-." if mark in form)
    order = form.split(mark)
    places = {part[0]: rf"\{order.index(part) + 1}" for part in order}
    made = list(_PADS)
    for year, century in _CENTURIES if "yy" in order else ((r"(\d{4})", ""),):
        parts = [year if part[0] == "y" else r"(\d\d)" for part in order]
        made.append(
            (
                f"^{f'[{mark}]'.join(parts)}(?:,? +)?",
                f"{century}{places['y']}-{places['m']}-{places['d']} ",
            )
        )
    return made


def _month_rewrites(*orders: tuple[str, str]) -> _Rewrites:
    """Returns what makes ISO 8601 of dates with the name of a month."""
    months = [
        (rf"(?i)[ ,./-]*{name[:3]}[a-z]*[ ,./-]*", f"-{number:02}-")
        for number, name in enumerate(_MONTHS, 1)
    ]
    return [(f"^{_WEEKDAY}", ""), (r"(\d)(?i:st|nd|rd|th)", r"\1"), *months, *_PADS, *orders]


_SEPARATED = r"(?:,? +(?:at +)?|:)?"
# What makes ISO 8601 of each form, one after the other.
_REWRITES: Mapping[str, _Rewrites] = {
    "iso": [],
    "ymd": [
        (r"^(\d{4})(\d\d)(\d\d)", r"\1-\2-\3"),
        (r"^(.{10})[T ]?(\d\d):?(\d\d)", r"\1 \2:\3"),
        (r"^(.{16}):?(\d\d)", r"\1:\2"),
    ],
    "d month y": _month_rewrites(
        (rf"^(\d\d)-(\d\d)-(\d{{4}})\b{_SEPARATED}", r"\3-\2-\1 "),
        *(
            (rf"^(\d\d)-(\d\d)-{year}\b{_SEPARATED}", rf"{century}\3-\2-\1 ")
            for year, century in _CENTURIES
        ),
    ),
    "month d y": _month_rewrites(
        (r"^-(\d\d)-(\d)(\d{4})\b", r"-\1-0\2 \3"),
        (rf"^-(\d\d)-(\d\d),? *(\d{{4}})\b{_SEPARATED}", r"\3-\1-\2 "),
        (r"^-(\d\d)-(\d\d) +(\d.*) (\d{4})$", r"\4-\1-\2 \3"),
    ),
    "y month d": _month_rewrites((rf"^(\d{{4}})-(\d\d)-(\d\d){_SEPARATED}", r"\1-\2-\3 ")),
    "y-m": [(r"^(\d{4})\D(\d)$", r"\1-0\2-01"), (r"^(\d{4})\D(\d\d)$", r"\1-\2-01")],
    "m/y": [(r"^(\d)\D(\d{4})$", r"\2-0\1-01"), (r"^(\d\d)\D(\d{4})$", r"\2-\1-01")],
    "month y": _month_rewrites(
        (r"^-(\d\d)-(\d{4})$", r"\2-\1-01"), (r"^(\d{4})-(\d\d)-$", r"\1-\2-01")
    ),
    "quarter": [
        (r"^[Qq](\d)\D?(\d{4})$", r"\2Q\1"),
        *(
            (rf"^(\d{{4}})\D?[Qq]{number}$", rf"\1-{month:02}-01")
            for number, month in zip(range(1, 5), itertools.count(1, 3), strict=False)
        ),
    ],
    "clock": [*_PADS, (r"^(\d\d):", r"1970-01-01 \1:")],
}


def get_pattern(form: str) -> str:
    """Returns what the whole of a text of a form, or of numbers since 1970, matches."""
    return NUMBER if form in EPOCHS else TEXTS[form]


def rewrites(form: str) -> Sequence[tuple[str, str]]:
    """Returns patterns and what takes their place: of a text of the `form` they make, one after the
    other, a date of ISO 8601, and the time behind it."""
    return _REWRITES[form] if form in _REWRITES else _build_numeric_rewrites(form)
