"""Parts of dates against Python's own calendar."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
import tensorflow as tf

from pipeline.steps import dates

DAYS = [
    "1970-01-01",
    "1999-12-31",
    "2000-02-29",
    "2000-03-01",
    "2013-01-31",
    "2100-03-01",
    "2012-12-31",
    "0001-01-01",
    "9999-12-31",
    "1900-02-28",
    "1904-02-29",
]
OF = {
    "year": lambda d: d.year,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "hour": lambda d: d.hour,
    "minute": lambda d: d.minute,
    "weekday": lambda d: d.weekday(),
    "day_of_year": lambda d: d.timetuple().tm_yday,
    "calendar_day": lambda d: 31 * (d.month - 1) + d.day,
}


def _part(texts, part):
    return dates.Date(part=part).apply(tf.constant(texts)).numpy()


@pytest.mark.parametrize("part", OF)
def test_parts_of_dates(part):
    wanted = [OF[part](datetime.datetime.fromisoformat(day)) for day in DAYS]
    np.testing.assert_array_equal(_part(DAYS, part), wanted)


@pytest.mark.parametrize("part", OF)
@pytest.mark.parametrize("form", ["{}T{}Z", "{} {}", "{}T{}:59", "{}T{}:59.125+02:00"])
def test_parts_of_times_are_those_that_are_written(part, form):
    texts = [form.format(day, f"{n % 24:02}:{n:02}") for n, day in enumerate(DAYS, 20)]
    moments = [datetime.datetime.fromisoformat(text[:16]) for text in texts]
    np.testing.assert_array_equal(_part(texts, part), [OF[part](moment) for moment in moments])


@pytest.mark.parametrize(
    "text",
    ["", "NA", "2013", "2013-13-01", "2013-00-10", "2013-01-32", "31.01.2013", "2013-01-31T25:00"],
)
@pytest.mark.parametrize("part", ["year", "weekday", "minute"])
def test_what_is_no_date_has_the_part_minus_one(text, part):
    np.testing.assert_array_equal(_part([text, "2013-01-31"], part)[0], -1)


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("hour", [5, 0, 0, 23, 24, -1]),
        ("minute", [17, 5, 0, 59, 0, -1]),
        ("minute_of_day", [317, 5, 0, 1439, 1440, -1]),
    ],
)
def test_clock(part, wanted):
    x = tf.constant([517, 5, 0, 2359, 2400, -1], tf.int64)
    found = dates.Clock(part=part).apply(x)
    np.testing.assert_array_equal(found, wanted)


FORMS = {
    "iso": "{0.year:04}-{0:%m-%d %H:%M:%S}",
    "y/m/d": "{0.year:04}/{0.month}/{0.day} {0.hour}:{0:%M}",
    "m/d/y": "{0.month}/{0.day}/{0.year:04} {0.hour}:{0:%M:%S}",
    "d/m/y": "{0:%d/%m}/{0.year:04} {0:%I:%M:%S %p}",
    "d.m.y": "{0.day}.{0.month}.{0.year:04} {0.hour:02}:{0:%M}",
    "y-m-d": "{0.year:04}-{0.month}-{0.day} {0:%H:%M} UTC",
    "m-d-y": "{0.month}-{0.day}-{0.year:04} {0.hour}:{0:%M:%S}",
    "d-m-y": "{0:%d-%m}-{0.year:04} {0:%I:%M:%S%p}",
    "ymd": "{0.year:04}{0:%m%dT%H%M%S}Z",
    "d month y": "{0:%a, %d %b} {0.year:04} {0:%H:%M:%S} +0000",
    "month d y": "{0:%B} {0.day}, {0.year:04} {0:%I:%M %p}",
    "y month d": "{0.year:04}-{0:%b-%d %H:%M}",
}
EPOCH = datetime.datetime(1970, 1, 1)
ALL = {
    **OF,
    "days": lambda d: (d - EPOCH).days,
    "minute_of_day": lambda d: 60 * d.hour + d.minute,
}
MOMENTS = [
    datetime.datetime.fromisoformat(f"{day}T{n % 24:02}:{n:02}:07") for n, day in enumerate(DAYS, 7)
]
NOON_AND_MIDNIGHT = [datetime.datetime(2024, 2, 29, 12, 5), datetime.datetime(2024, 2, 29, 0, 5)]


@pytest.mark.parametrize("part", ALL)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_parts(form, part):
    moments = [*MOMENTS, *NOON_AND_MIDNIGHT]
    texts = [FORMS[form].format(moment) for moment in moments]
    found = dates.Date(part=part, form=form).apply(tf.constant(texts))
    np.testing.assert_array_equal(found, [ALL[part](moment) for moment in moments], texts)


@pytest.mark.parametrize("part", ALL)
@pytest.mark.parametrize(
    ("form", "unit"), [("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6)]
)
def test_numbers_since_1970(form, unit, part):
    moments = [*MOMENTS, *NOON_AND_MIDNIGHT, EPOCH]
    x = [round((moment - EPOCH).total_seconds()) * unit for moment in moments]
    found = dates.Date(part=part, form=form).apply(tf.constant([*x, -1], tf.int64))
    np.testing.assert_array_equal(found, [*(ALL[part](moment) for moment in moments), -1])


@pytest.mark.parametrize(
    ("form", "text"),
    [
        *(("m/d/y", text) for text in ("13/1/2020", "2020-01-01", "1/2/20", "1/2/2020 24:00", "")),
        *(("d.m.y", text) for text in ("1/2/2020", "32.1.2020", "1.2.2020 5", "1.2.2020 15 PM")),
    ],
)
def test_other_forms_are_unknown(form, text):
    np.testing.assert_array_equal(dates.Date(part="day", form=form).apply(tf.constant([text])), -1)


def test_numbers_have_no_form_of_texts():
    wanted = (
        "of integer form must be seconds, milliseconds, microseconds, nanoseconds, ymd, got iso"
    )
    with pytest.raises(ValueError, match=wanted):
        dates.Date(part="day").check("integer", ())
    dates.Date(part="day", form="seconds").check("text", ())


@pytest.mark.parametrize(
    ("form", "text", "wanted"),
    [
        ("d month y", "14 Jan 2020", "2020-01-14"),
        ("d month y", "4-SEP-50", "1950-09-04"),
        ("d month y", "04JAN2020:23:05:01.5", "2020-01-04T23:05"),
        ("d month y", "1st of May", None),
        ("d month y", "3rd Sept. 2020", "2020-09-03"),
        ("d month y", "Tue, 14 Jan 2020 10:00:00 GMT", "2020-01-14T10:00"),
        ("d month y", "Tuesday, 14 January 2020", "2020-01-14"),
        ("d month y", "14 Foo 2020", None),
        ("d month y", "14 Janus 2020", None),
        ("month d y", "January 14, 2020", "2020-01-14"),
        ("month d y", "Jan 4 2020", "2020-01-04"),
        ("month d y", "Dec. 31st, 1999 11:59 pm", "1999-12-31T23:59"),
        ("month d y", "Tue Jan 14 10:05:00 +0000 2020", "2020-01-14T10:05"),
        ("y month d", "2020 Feb 29", "2020-02-29"),
        ("y month d", "2013 Jan 31stT13:45", "2013-01-31T13:45"),
        ("d month y", "31stJan2013", "2013-01-31"),
        ("month d y", "Jan 31st2013", "2013-01-31"),
        ("month d y", "Jan 12013", "2013-01-01"),
        ("m/d/yy", "1/2/20", "2020-01-02"),
        ("d/m/yy", "31/12/20", "2020-12-31"),
        ("d-m-yy", "31-12-49", "2049-12-31"),
        ("d-m-yy", "31-12-50 9:05", "1950-12-31T09:05"),
        ("d.m.yy", "05.12.99", "1999-12-05"),
        ("d.m.yy", "1.5.20", None),
        ("yy/m/d", "20/12/31", "2020-12-31"),
        ("yy-m-d", "70-01-02", "1970-01-02"),
        ("ymd", "20190131", "2019-01-31"),
        ("ymd", "20191331", None),
        ("y-m-d", "2020-1-5", "2020-01-05"),
        ("y-m", "1960-01", "1960-01-01"),
        ("y-m", "1960M1", "1960-01-01"),
        ("m/y", "7/1960", "1960-07-01"),
        ("month y", "1960 Jan", "1960-01-01"),
        ("month y", "Dec-1960", "1960-12-01"),
        ("quarter", "2020Q1", "2020-01-01"),
        ("quarter", "q4 2019", "2019-10-01"),
        ("quarter", "2020-Q3", "2020-07-01"),
        ("quarter", "2020Q5", None),
        ("ymd", "20150101134501", "2015-01-01T13:45"),
        ("clock", "13:45", "1970-01-01T13:45"),
        ("clock", "3:45:01.5", "1970-01-01T03:45"),
        ("clock", "01:45 PM", "1970-01-01T13:45"),
        ("clock", "12:05am", "1970-01-01T00:05"),
        ("clock", "25:10", None),
    ],
)
def test_as_people_write_them(form, text, wanted):
    moment = wanted and datetime.datetime.fromisoformat(wanted)
    for part, of in ALL.items():
        found = int(dates.Date(part=part, form=form).apply(tf.constant([text]))[0])
        assert found == (of(moment) if moment else -1), part


def test_whole_numbers_that_are_days():
    x = tf.constant([20190131, 20200229, -1, 0, 20191301, 19990100, 2**40, 131], tf.int64)
    found = dates.Date(part="days", form="ymd").apply(x).numpy().tolist()
    assert found == [17927, 18321, -1, -1, -1, -1, -1, -1]
    assert dates.Date(part="hour", form="ymd").apply(x).numpy().tolist()[:3] == [0, 0, -1]


@pytest.mark.parametrize("part", ALL)
def test_days_that_are_not_in_the_calendar_are_unknown(part):
    real = ["2020-02-29", "2000-02-29", "2019-12-31", "2019-11-30"]
    not_real = ["2020-02-30", "2019-02-29", "1900-02-29", "2020-04-31", "2019-11-31"]
    found = dates.Date(part=part).apply(tf.constant(real + not_real)).numpy().tolist()
    assert -1 not in found[:4] and found[4:] == [-1] * 5
    x = tf.constant([int(text.replace("-", "")) for text in real + not_real], tf.int64)
    assert dates.Date(part=part, form="ymd").apply(x).numpy().tolist() == found
    american = [f"{text[5:7]}/{text[8:]}/{text[:4]}" for text in real + not_real]
    x = tf.constant(american)
    assert dates.Date(part=part, form="m/d/y").apply(x).numpy().tolist() == found


@pytest.mark.parametrize("part", ALL)
@pytest.mark.parametrize(("form", "unit"), [("seconds", 1), ("milliseconds", 10**3)])
def test_numbers_since_1970_with_decimals_are_text(form, unit, part):
    moments = [*MOMENTS, *NOON_AND_MIDNIGHT, EPOCH]
    texts = [f"{round((moment - EPOCH).total_seconds()) * unit}.75" for moment in moments]
    found = dates.Date(part=part, form=form).apply(tf.constant([*texts, "", "soon", "1e99", "-1"]))
    wanted = [*(ALL[part](moment) for moment in moments[:-1]), ALL[part](EPOCH), -1, -1, -1, -1]
    late = [n for n, moment in enumerate(moments) if moment >= EPOCH]
    np.testing.assert_array_equal(found.numpy()[late], np.array(wanted)[late])
    assert found.numpy()[-4:].tolist() == [-1] * 4
    short = dates.Date(part=part, form="milliseconds").apply(tf.constant(["1.6230000000005e+12"]))
    assert short == ALL[part](datetime.datetime(2021, 6, 6, 17, 20))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("nanoseconds", "1359676799999999999"),
        ("seconds", "1359676799.99999999"),
        ("milliseconds", "1359676799999.9999999"),
        ("seconds", "-0.5"),
        ("nanoseconds", "-0000001.5"),
    ],
)
def test_the_last_moment_of_a_day_is_of_it(form, text):
    days = dates.Date(part="days", form=form).apply(tf.constant([text])).numpy().tolist()
    assert days == [-1 if text[0] == "-" else 15736]
    hours = dates.Date(part="hour", form=form).apply(tf.constant([text, "-1", "-1.0"]))
    assert hours.numpy().tolist() == [23, -1, -1]


def test_nanoseconds():
    x = tf.constant([1_579_000_000_000_000_000, -1], tf.int64)
    assert dates.Date(part="days", form="nanoseconds").apply(x).numpy().tolist() == [18275, -1]
