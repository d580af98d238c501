"""Warnings of texts that look like dates."""

from __future__ import annotations

import pytest

from preprocessing.schema_inference import unread_dates
from tests.preprocessing.schema_inference.surveyed import survey_values

DATES = {
    "EXIF": "2021:06:{0:02} 14:20:42",
    "file": "2021_06_{0:02}",
    "French": "{0} juin 2021",
    "German": "{0}. Mai 2021 um 14:20",
    "Spanish": "{0} de enero de 2021",
    "Portuguese": "seg., {0} de março de 2021",
    "Russian": "{0} июня 2021",
    "Japanese": "2021年6月{0}日",
    "week": "2021-W{0:02}",
    "in brackets": "[{0:02}/Jun/2021:14:20:42 +0000]",
    "no year": "06/{0:02} 14:20",
    "time without a mark": "2021-06-{0:02} 1420",
    "zone by name": "2021-06-{0:02} 14:20 Europe/Berlin",
    "hour": "6/{0}/2021 14h20",
    "spaces": "2021 06 {0:02}",
}
OTHERS = {
    "version": "1.{0}.3",
    "address": "10.0.{0}.2",
    "path": "https://example.org/2021/06/{0:02}/title",
    "file": "IMG_2021-06-{0:02}.jpg",
    "ratio": "{0}/31",
    "section": "12.{0}.1",
    "street": "{0} Main Street",
    "model": "AB-2021-{0}",
    "seat": "{0}F",
    "words": "may {0} people come",
    "score": "{0}-3",
    "year": "class of 2021, group {0}",
    "phone": "030-{0:02}-2021-55",
}


@pytest.mark.parametrize("what", DATES)
def test_what_looks_like_a_date_is_named_with_the_forms_that_are_read(what):
    texts = [DATES[what].format(n % 27 + 1) for n in range(200)]
    (said,) = unread_dates.write_remark("when", survey_values(texts))
    assert said == (
        f"'when' is kept as text: it looks like dates or times, such as {texts[0]!r}, in no form "
        "that is read. Forms that are read: iso, y-m-d, y/m/d, m/d/y, d/m/y, d.m.y, m-d-y, d-m-y, "
        "m/d/yy, d/m/yy, yy/m/d, d.m.yy, m-d-yy, d-m-yy, yy-m-d, ymd, d month y, month d y, "
        "y month d, y-m, m/y, month y, quarter, clock (see the step date). Write all in one, such "
        "as 2013-01-31T23:59:00"
    )


@pytest.mark.parametrize("what", OTHERS)
def test_other_texts_are_not_named(what):
    texts = [OTHERS[what].format(n % 27 + 1) for n in range(200)]
    assert unread_dates.write_remark("when", survey_values(texts)) == []


def test_texts_that_are_read_are_not_named():
    assert unread_dates.write_remark("when", survey_values(["2021-06-07", "2021-06-08"])) == []
    assert unread_dates.write_remark("when", survey_values(["2021-06-07", "7 Jun 2021"])) == []


def test_one_odd_text_among_dates_is_named():
    days = [f"2021-06-{n % 27 + 1:02}" for n in range(100)]
    (said,) = unread_dates.write_remark("when", survey_values([*days, "soon"]))
    assert "such as '2021-06-01', but not 'soon': correct it or leave it empty." in said
    assert unread_dates.write_remark("date_of_birth", survey_values([*days, "soon"])) == []
