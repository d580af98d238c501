"""Texts that are dates of a form, and days that are not in the calendar."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline.steps import date_forms
from preprocessing.arrow import date_texts


@pytest.mark.parametrize("form", date_forms.TEXTS)
def test_the_example_of_each_form_is_a_day(form):
    texts = pa.array([date_forms.EXAMPLES[form], "garbage", None, "0000-00-00"])
    assert date_texts.unreadable(form, texts).tolist() == [False, True, False, True]
    iso = date_texts.as_iso(form, texts[:1])[0].as_py().strip()
    of_months = {"quarter": "2013-01-01"} | dict.fromkeys(("y-m", "m/y", "month y"), "2013-01-01")
    assert iso == of_months.get(form, "2013-01-31")


def test_each_different_text_is_looked_at_once(monkeypatch):
    seen = []
    have = date_texts.have
    monkeypatch.setattr(
        date_texts, "have", lambda form, texts: seen.append(len(texts)) or have(form, texts)
    )
    texts = pa.array(["2020-01-01", "2020-02-30"] * 1000)
    assert date_texts.unreadable("iso", texts).sum() == 1000 and seen == [2]
