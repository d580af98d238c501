"""Texts that are dates of a form, and days that are not in the calendar."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
import tensorflow as tf

from pipeline.steps import date_forms, dates
from preprocessing.arrow import date_texts


@pytest.mark.parametrize("form", date_forms.TEXTS)
def test_the_example_of_each_form_is_a_day(form):
    texts = pa.array([date_forms.EXAMPLES[form], "garbage", None, "0000-00-00"])
    assert date_texts.find_unreadable(form, texts).tolist() == [False, True, False, True]
    iso = date_texts.rewrite_as_iso(form, texts[:1])[0].as_py().strip()
    others = {"quarter": "2013-01-01", "clock": "1970-01-01 13:45"}
    others |= dict.fromkeys(("y-m", "m/y", "month y"), "2013-01-01")
    assert iso == others.get(form, "2013-01-31")


@pytest.mark.parametrize("form", [f for f in date_forms.TEXTS if "2013" in date_forms.EXAMPLES[f]])
def test_the_calendar_has_no_year_0(form):
    texts = [date_forms.EXAMPLES[form].replace("2013", year) for year in ("0000", "0001", "1000")]
    assert date_texts.find_unreadable(form, pa.array(texts)).tolist() == [True, False, False]
    assert date_texts.parse_instants(form, pa.array(texts)).null_count == 1
    years = dates.Date(part="year", form=form).apply(tf.constant(texts))
    assert years.numpy().tolist() == [-1, 1, 1000]


@pytest.mark.parametrize(
    ("form", "text", "moment"),
    [
        ("m/d/y", "1/2/2020", "2020-01-02T00:00"),
        ("m/d/y", "1/2/2020 12:01 am EST", "2020-01-02T00:01"),
        ("d.m.y", "2.1.2020 3:04:05.25 PM", "2020-01-02T15:04:05.25"),
        ("d month y", "Thu, 31 Jan 2013 23:59:00 +0130", "2013-01-31T22:29"),
        ("month d y", "January 31, 2013", "2013-01-31T00:00"),
        ("ymd", "20130131T2359Z", "2013-01-31T23:59"),
        ("quarter", "2013Q2", "2013-04-01T00:00"),
        ("d/m/yy", "31/12/69", "1969-12-31T00:00"),
        ("y/m/d", "2020/1/2 3:04:05.5", "2020-01-02T03:04:05.5"),
        ("m/d/y", "1/2/2020T3:04", "2020-01-02T03:04"),
        ("d month y", "07/Jun/2021:14:20:42 +0200", "2021-06-07T12:20:42"),
        ("seconds", "1623075642.25", "2021-06-07T14:20:42.25"),
        ("milliseconds", "1.62307564225e+12", "2021-06-07T14:20:42.25"),
        ("microseconds", "1623075642250000", "2021-06-07T14:20:42.25"),
        ("nanoseconds", "1359676799999999999", "2013-01-31T23:59:59.999999"),
        ("seconds", "1359676799.99999999", "2013-01-31T23:59:59.999999"),
        ("milliseconds", "1359676799999.9999999", "2013-01-31T23:59:59.999999"),
    ],
)
def test_texts_of_a_form_are_moments(form, text, moment):
    found = date_texts.parse_instants(form, pa.array([text, None, "x", "0000-00-00"]))
    assert found.cast(pa.timestamp("us"))[0].as_py() == datetime.datetime.fromisoformat(moment)
    assert found.null_count == 3


def test_numbers_of_no_year_are_no_moments():
    found = date_texts.parse_instants("seconds", pa.array(["9e18", "0", "-1.5"]))
    assert found.to_pylist() == [None, 0, -1_500_000]
    assert date_texts.find_unreadable("seconds", pa.array(["soon", "1.5"])).tolist() == [
        True,
        False,
    ]


def test_each_different_text_is_looked_at_once(monkeypatch):
    seen = []
    have = date_texts.match_form
    monkeypatch.setattr(
        date_texts, "match_form", lambda form, texts: seen.append(len(texts)) or have(form, texts)
    )
    texts = pa.array(["2020-01-01", "2020-02-30"] * 1000)
    assert date_texts.find_unreadable("iso", texts).sum() == 1000 and seen == [2]
