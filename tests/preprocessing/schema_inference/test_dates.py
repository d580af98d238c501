"""Forms and spans of dates, judged by Python's calendar."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.schema_inference import dates

FORMATS = {
    "iso": "%Y-%m-%dT%H:%M:%SZ",
    "y/m/d": "%Y/%m/%d",
    "m/d/y": "%m/%d/%Y %I:%M:%S %p",
    "d/m/y": "%d/%m/%Y %H:%M",
    "d.m.y": "%d.%m.%Y",
    "d-m-y": "%d-%m-%Y %H:%M",
    "d month y": "%a, %d %b %Y %H:%M:%S +0000",
    "month d y": "%B %d, %Y",
    "ymd": "%Y%m%dT%H%M",
    "y-m-d": "%Y-%m-%d %H:%M UTC",
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
    assert found.form == form and not found.others and not found.mixed
    span = found.spans[form]
    assert (span.first, span.last) == ((DAYS[0] - EPOCH).days, (DAYS[-1] - EPOCH).days)
    assert span.months == {day.month for day in DAYS} and span.days == {day.day for day in DAYS}
    timed = "%H" in FORMATS[form] or "%I" in FORMATS[form]
    assert len(span.hours) == (len({day.hour for day in DAYS}) if timed else 1)


def test_what_could_be_either_has_the_month_first():
    found = _seen(["1/2/2020", "3/4/2021"])
    assert found.form == "m/d/y" and set(found.forms) == {"m/d/y", "d/m/y"}
    assert found.others == ("d/m/y",)
    assert not _seen(["1/1/2020", "2/2/2020"]).others
    assert _seen(["1/2/2020", "13/4/2021"]).form == "d/m/y"
    assert _seen(["1/2/2020", "13/4/2021", "4/13/2021"]).form is None


def test_the_year_is_where_fewer_years_are():
    texts = ["20/01/05", "20/02/07", "21/03/30"]
    assert _seen(texts).form == "yy/m/d" and _seen(texts).others == ("d/m/yy",)
    reversed_texts = ["/".join(reversed(text.split("/"))) for text in texts]
    assert _seen(reversed_texts).form == "d/m/yy"
    assert _seen(reversed_texts).others == ("yy/m/d",)
    assert _seen(["31/12/99"]).others == ()
    every_day = _seen([f"{day:02}/05/{17 + day % 3}" for day in range(1, 31)])
    assert every_day.form == "d/m/yy" and not every_day.others


def test_two_ways_in_one_column():
    found = _seen(["2020-01-05", "5 Jan 2020", "2020-01-07", "Jan 7, 2020"])
    assert found.form is None and found.mixed == {
        "iso": "2020-01-05",
        "d month y": "5 Jan 2020",
        "month d y": "Jan 7, 2020",
    }
    at_once = dates.Seen()
    at_once.see(pa.array([b"2020-01-05", b"5 Jan 2020"]))
    assert list(at_once.mixed) == ["iso", "d month y"]
    assert not _seen(["2020-01-05", "5 Jan 2020", "soon"]).mixed


def test_seasons_are_no_months():
    assert _seen(["2009-10", "2010-11", "2011-12"]).form is None
    assert _seen(["2009-10", "2010-11", "2011-11"]).form == "y-m"


def test_terms_are_no_months():
    assert _seen(["2000-1", "2000-2", "2001-1"]).form is None
    assert _seen(["1/2000", "2/2000"]).form is None
    assert _seen(["2000-1", "2000-2", "2001-9"]).form == "y-m"
    assert _seen(["01/2000", "02/2000"]).form == "m/y"


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["1960 Jan", "1960 Feb"], "month y"),
        (["1960-01", "1960-02", "1961-01"], "y-m"),
        (["2020Q1", "2020Q4"], "quarter"),
        (["2020-1-5", "2020-10-05"], "y-m-d"),
        (["31/12/99", "5/1/99"], "d/m/yy"),
        (["31-12-99", "05-01-99"], "d-m-yy"),
    ],
)
def test_months_and_quarters(texts, form):
    found = _seen(texts)
    assert found.form == form and not found.others
    assert found.spans[form].days <= {1, 5, 31}


def test_whole_numbers_that_are_days():
    found = dates.Seen()
    found.see_numbers(np.array([20190131, 20180228]))
    assert found.compact and found.compact.last == (datetime.date(2019, 1, 31) - EPOCH.date()).days
    found.see_numbers(np.array([20190230]))
    assert found.compact is None
    found.see_numbers(np.array([20190201]))
    assert found.compact is None
    for other in (20191301, 18990101, 1, -20190101, 201901011):
        found = dates.Seen()
        found.see_numbers(np.array([other]))
        assert found.compact is None


@pytest.mark.parametrize(
    "texts", [[], ["2020"], ["12-30"], ["a"], ["2020-01-01", "x"], ["1.5.20"], ["10.10.10.10"]]
)
def test_no_dates(texts):
    assert _seen(texts).form is None


def test_days_there_are_not():
    assert _seen(["2021-02-31"]).spans["iso"].last == _seen(["2021-03-03"]).spans["iso"].last
