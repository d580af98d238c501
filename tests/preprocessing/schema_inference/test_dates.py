"""Forms and spans of dates, judged by Python's calendar."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from preprocessing.schema_inference import dates

FORMATS = {
    "iso": "%Y-%m-%dT%H:%M:%SZ",
    "y/m/d": "%Y/%m/%d",
    "m/d/y": "%m/%d/%Y %I:%M:%S %p",
    "d/m/y": "%d/%m/%Y %H:%M",
    "d.m.y": "%d.%m.%Y",
}
EPOCH = datetime.datetime(1970, 1, 1)
DAYS = [EPOCH + datetime.timedelta(days=-700 + 211 * n, hours=n) for n in range(40)]


def _seen(texts):
    found = dates.Seen()
    for text in texts:  # in any batches
        found.see(pa.array([text.encode()]))
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_forms(form):
    found = _seen([day.strftime(FORMATS[form]) for day in DAYS])
    assert found.form == form and found.forms == (form,)
    span = found.spans[form]
    assert (span.first, span.last) == ((DAYS[0] - EPOCH).days, (DAYS[-1] - EPOCH).days)
    assert span.months == {day.month for day in DAYS} and span.days == {day.day for day in DAYS}
    timed = "%H" in FORMATS[form] or "%I" in FORMATS[form]
    assert len(span.hours) == (len({day.hour for day in DAYS}) if timed else 1)


def test_what_could_be_either_has_the_month_first():
    found = _seen(["1/2/2020", "3/4/2021"])
    assert found.form == "m/d/y" and set(found.forms) == {"m/d/y", "d/m/y"}
    assert _seen(["1/2/2020", "13/4/2021"]).form == "d/m/y"
    assert _seen(["1/2/2020", "13/4/2021", "4/13/2021"]).form is None


@pytest.mark.parametrize(
    "texts", [[], ["2020"], ["12-30"], ["a"], ["2020-01-01", "x"], ["1.5.20"], ["10.10.10.10"]]
)
def test_no_dates(texts):
    assert _seen(texts).form is None


def test_days_there_are_not():
    assert _seen(["2021-02-31"]).spans["iso"].last == _seen(["2021-03-03"]).spans["iso"].last


@pytest.mark.parametrize(
    ("least", "greatest", "form"),
    [
        (789652009, 1476640644, "seconds"),
        (1_600_000_000_000, 1_700_000_000_000, "milliseconds"),
        (0, 1476640644, None),
        (1_600_000_000, 1_600_000_000_000, None),
        (20130101, 20131231, None),
        (None, None, None),
    ],
)
def test_numbers_since_1970(least, greatest, form):
    found = dates.of_numbers(least, greatest)
    assert (found and found[0]) == form
    if found and form == "seconds":
        span = found[1]
        assert EPOCH + datetime.timedelta(days=span.first) == datetime.datetime(1995, 1, 9)
