"""Dates as programs and people write them, on random moments, judged by Python's calendar."""

from __future__ import annotations

import datetime
import random
import re

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from pipeline.steps import date_forms, dates
from preprocessing.arrow import date_texts
from preprocessing.schema_inference import dates as seen_dates

EPOCH = datetime.datetime(1970, 1, 1)
_ROWS, _YEARS = 3000, 99
_A_DAY = 86400
PARTS = {
    "days": lambda d: (d - EPOCH).days,
    "minute_of_day": lambda d: 60 * d.hour + d.minute,
    "hour": lambda d: d.hour,
    "year": lambda d: d.year,
}


def _hour(moment):
    return (moment.hour - 1) % 12 + 1


def _half(moment):
    return "a.m." if moment.hour < 12 else "p.m."


# What it is -> its form, how one is written, and to how many seconds.
WRITTEN = {
    "browser": ("m/d/y", lambda d: f"{d.month}/{d.day}/{d.year}, {_hour(d)}:{d:%M:%S %p}", 1),
    "browser, narrow space": (
        "m/d/y",
        lambda d: f"{d.month}/{d.day}/{d.year}, {_hour(d)}:{d:%M:%S}\u202f{d:%p}",
        1,
    ),
    "browser, short": ("m/d/yy", lambda d: f"{d.month}/{d.day}/{d:%y}, {_hour(d)}:{d:%M %p}", 60),
    "browser, long": ("month d y", lambda d: f"{d:%B} {d.day}, {d.year} at {d:%I:%M:%S %p}", 1),
    "browser, text": (
        "month d y",
        lambda d: f"{d:%a %b %d %Y %H:%M:%S} GMT+0000 (Central America Standard Time)",
        1,
    ),
    "browser, British": ("d/m/y", lambda d: f"{d:%d/%m/%Y, %H:%M:%S}", 1),
    "browser, German": ("d.m.y", lambda d: f"{d.day}.{d.month}.{d.year}, {d:%H:%M:%S}", 1),
    "browser, Canadian": ("y-m-d", lambda d: f"{d:%Y-%m-%d}, {_hour(d)}:{d:%M:%S} {_half(d)}", 1),
    "points": ("m/d/y", lambda d: f"{d:%m/%d/%Y %I:%M} {_half(d)}", 60),
    "hours": ("m/d/y", lambda d: f"{d:%m/%d/%Y %I %p}", 3600),
    "hours, one digit": ("d.m.y", lambda d: f"{d.day}.{d.month}.{d.year} {_hour(d)}{d:%p}", 3600),
    "hours, named": ("month d y", lambda d: f"{d:%B} {d.day}, {d.year} at {_hour(d)} {d:%p}", 3600),
    "hours, two digits": ("d-m-yy", lambda d: f"{d:%d-%m-%y %I} {_half(d)}", 3600),
    "hours of a day": ("clock", lambda d: f"{_hour(d)} {d:%p}", 3600),
    "time of day": ("clock", lambda d: f"{_hour(d)}:{d:%M:%S}\u00a0{_half(d)}", 1),
    "Apache": ("d month y", lambda d: f"{d:%d/%b/%Y:%H:%M:%S} +0000", 1),
    "listing": ("m/d/y", lambda d: f"{d:%m/%d/%Y  %I:%M %p}", 60),
    "T, no zeros": ("y-m-d", lambda d: f"{d.year}-{d.month}-{d.day}T{d.hour}:{d:%M}", 60),
    "T": ("m/d/y", lambda d: f"{d:%m/%d/%YT%H:%M:%S}Z", 1),
    "tenths": ("y/m/d", lambda d: f"{d:%Y/%m/%d %H:%M:%S}.0", 1),
}


def _draw(form, unit):
    """Returns moments to the unit, of the years of two digits; times of day are of 1970-01-01."""
    draw = random.Random(7)
    first = datetime.datetime(1950, 1, 1)
    seconds = (draw.randrange(_YEARS * 365 * _A_DAY) // unit * unit for _ in range(_ROWS))
    if form == "clock":
        return [EPOCH + datetime.timedelta(seconds=s % _A_DAY) for s in seconds]
    return [first + datetime.timedelta(seconds=s) for s in seconds]


@pytest.mark.parametrize("name", WRITTEN)
def test_dates_are_read_as_they_are_written(name):
    form, write, unit = WRITTEN[name]
    moments = _draw(form, unit)
    texts = [write(moment) for moment in moments]
    for part, of in PARTS.items():
        found = dates.Date(part=part, form=form).apply(tf.constant(texts)).numpy()
        np.testing.assert_array_equal(found, [of(moment) for moment in moments], part)
    instants = date_texts.parse_instants(form, pa.array(texts)).cast(pa.timestamp("us"))
    assert instants.to_pylist() == moments
    seen = seen_dates.Seen()
    seen.see(pa.array([text.encode() for text in texts]))
    assert seen.form == form and not seen.others and not seen.mixed
    span = seen.spans[form]
    assert (span.first_day, span.last_day) == (min(moments).date(), max(moments).date())
    assert len(span.hours) == 24


@pytest.mark.parametrize(
    "text", ["06/07/2021 13 PM", "06/07/2021 0 AM", "06/07/2021 2", "2/3/2021,"]
)
def test_hours_alone_need_a_half_of_the_day(text):
    assert not date_texts.match_form("m/d/y", pa.array([text]))[0].as_py()


# Ways to write each part of a date, a time behind it, and a zone, with the minutes it is ahead.
_OF_DATES = {
    "month": ("%B", "%b", "%b."),
    "yy": ("%y",),
    "y": ("%Y",),
    "m": ("%m",),
    "d": ("%d",),
}
_GAPS, _ORDINALS = (" ", "-", "/", "", ", "), ("", "", "st", "ND", "rd", "Th")
_WHOLE = {"iso": "%Y-%m-%d", "ymd": "%Y%m%d", "clock": ""}
_BEFORE_CLOCKS = (" ", "T", ", ", " at ", ":", "")
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S.%f987", "%I:%M:%S %p", "%I:%M%p", "%I %p")
_COMPACT_CLOCKS = ("%H%M%S", "%H%M", "%H%M%S.%f")
_ZONES = {"": 0, "Z": 0, " +0200": 120, "-03:30": -210, " GMT+0100 (Summer Time)": 60, "+0545": 345}
_FINEST = ("%f", "%S", "%M", "%I")


def _write_day(form, day, draw):
    """Returns a day in a form, with names of months and what stands between chosen by chance."""
    if form in _WHOLE:
        return day.strftime(_WHOLE[form])
    parts = re.split("(month|yy|[ymd])", form)
    if "month" not in form:
        return "".join(day.strftime(_OF_DATES.get(part, (part,))[0]) for part in parts)
    ways = _OF_DATES | {
        " ": _GAPS,
        "d": [f"{d}{end}" for d in ("%d", day.day) for end in _ORDINALS],
    }
    return day.strftime("".join(draw.choice(ways.get(part, (part,))) for part in parts))


def _write_moment(form, moment, draw):
    """Returns a text, the moment it shows without its zone, and the minutes that is ahead."""
    day, zone = _write_day(form, moment, draw), draw.choice(list(_ZONES))
    clock = draw.choice((*_CLOCKS, *_COMPACT_CLOCKS))
    text = f"{day}{draw.choice(_BEFORE_CLOCKS)}{moment.strftime(clock)}{zone}"
    finest = next(mark for mark in _FINEST if mark in clock)
    cut = {"%f": {}, "%S": {"microsecond": 0}, "%M": {"second": 0, "microsecond": 0}}
    shown = moment.replace(**cut.get(finest, {"minute": 0, "second": 0, "microsecond": 0}))
    return text, shown, _ZONES[zone]


def _have_time(form):
    return form not in date_forms.OF_MONTHS


@pytest.mark.parametrize("form", filter(_have_time, date_forms.TEXTS))
def test_every_part_of_what_a_form_takes_is_read(form):
    draw = random.Random(form)
    written = []
    for moment in 2 * _draw(form, 1):
        moment = moment.replace(microsecond=draw.choice((0, 999_999, 250_000)))
        text, shown, ahead = _write_moment(form, moment, draw)
        if re.fullmatch(date_forms.TEXTS[form], text, re.ASCII):
            written.append((text, shown, shown - datetime.timedelta(minutes=ahead)))
    assert len(written) > _ROWS // 10
    texts, moments, instants = zip(*written, strict=True)
    for part, of in PARTS.items():
        found = dates.Date(part=part, form=form).apply(tf.constant(texts)).numpy()
        wanted = [of(moment) for moment in moments]
        wrong = [(t, n, w) for t, n, w in zip(texts, found, wanted, strict=True) if n != w]
        assert not wrong, (part, wrong[:5])
    found = date_texts.parse_instants(form, pa.array(texts)).cast(pa.timestamp("us")).to_pylist()
    wrong = [(t, n, w) for t, n, w in zip(texts, found, instants, strict=True) if n != w]
    assert not wrong, wrong[:5]
