"""The rule `dates` of a column and the steps that read it."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import date_rules
from tests.pipeline.feature_tables import make


def _read(form=None, of="day"):
    about = {"part": "weekday"} | ({"form": form} if form else {})
    return {"of": of, "steps": [{"date": about}, {"identity": {"ids": 8}}]}


@pytest.mark.parametrize(("rule", "form"), [("d/m/y", None), ("m/d/y", "d/m/y"), ("iso", "y-m-d")])
def test_a_rule_and_a_step_that_contradict_each_other_are_refused(rule, form):
    said = (
        rf"features\.x: date: form is {form or 'iso'}, and data\.columns\.day\.dates is {rule}: "
        "every date would be -1"
    )
    with pytest.raises(errors.UsageError, match=said):
        make({"x": _read(form)}, columns={"day": {"type": "string", "dates": rule}})


def test_columns_without_a_rule_are_found():
    features = {
        "x": _read(),
        "y": _read("m/d/y"),
        "z": _read("ymd", "time"),
        "ruled": _read("d/m/y", "tail"),
        "unix": _read("seconds", "seats"),
        "other": {"of": "carrier", "steps": ["vocabulary"]},
    }
    ruled = {"type": "string", "missing": "allow", "dates": "d/m/y"}
    job = make(features, columns={"tail": ruled})
    found = date_rules.find_unruled(job.features, job.data.columns)
    assert found == {"day": ("iso", "m/d/y"), "time": ("ymd",)}
