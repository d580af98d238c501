"""Numbers since 1970, among others that are as large."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.schema_inference import heuristics, profile, suggest_dates, unix_times
from tests.preprocessing.schema_inference.surveyed import survey_values

EPOCH = datetime.datetime(1970, 1, 1)
_A_DAY, _ROWS = 86400, 2000
_YEAR_2021 = 1_609_459_200


@pytest.mark.parametrize(
    ("least", "greatest", "form"),
    [
        (789652009, 1476640644, "seconds"),
        (1_600_000_000_000, 1_700_000_000_000, "milliseconds"),
        (0, 1476640644, None),
        (1_600_000_000, 1_600_000_000_000, None),
        (20130101, 20131231, None),
        (None, None, None),
        (1_600_000_000_000_000, 1_700_000_000_000_000, "microseconds"),
        (1_600_000_000_000_000_000, 1_700_000_000_000_000_000, "nanoseconds"),
    ],
)
def test_numbers_since_1970(least, greatest, form):
    found = unix_times.detect(least, greatest)
    assert (found and found[0]) == form
    if found and form == "seconds":
        span = found[1]
        assert EPOCH + datetime.timedelta(days=span.first) == datetime.datetime(1995, 1, 9)


def test_numbers_that_are_not_called_times():
    assert unix_times.detect(1_600_000_000_000, 1_700_000_000_000, called=False)
    assert not unix_times.detect(1_600_000_000_000, 2_900_000_000_000, called=False)
    assert not unix_times.detect(1_600_000_000, 1_700_000_000, called=False)


def _draw(seed=7):
    return np.random.default_rng(seed)


def _follow_days(rows=_ROWS):
    """Returns seconds of 2021, of which three quarters are between 7 and 19 o'clock."""
    draw = _draw()
    days, by_day = draw.integers(0, 365, rows), draw.random(rows) < 0.75
    hours = np.where(by_day, draw.uniform(7, 19, rows), draw.uniform(-5, 7, rows))
    return _YEAR_2021 + days * _A_DAY + (hours * 3600).astype(np.int64)


STAMPS = _YEAR_2021 + _draw().integers(0, 365 * _A_DAY, _ROWS)


@pytest.mark.parametrize(
    "name", ["stamp", "ts", "time", "tstamp", "dt", "event_time", "logged", "utc"]
)
@pytest.mark.parametrize("decimals", ["", ".5", ".123456"])
def test_numbers_of_columns_that_are_called_times(name, decimals):
    found = survey_values([f"{n}{decimals}" for n in STAMPS.tolist()])
    made = heuristics.suggest_column(name, found, _ROWS)
    assert made.parts[f"{name}_hour"][0] == {"date": {"part": "hour", "form": "seconds"}}
    assert {f"{name}_weekday", f"{name}_time", f"{name}_trend"} < set(made.parts)
    assert made.rules == ({"type": "string", "dates": "seconds"} if decimals else {"type": "int64"})
    assert not any("float32" in note for note in made.notes)
    assert suggest_dates.write_remarks(name, found) == []


def test_floats_of_files_with_types():
    found = profile.ColumnProfile()
    found.see(pa.array([*(STAMPS + 0.25).tolist(), None]))
    made = heuristics.suggest_column("ts", found, _ROWS + 1)
    assert made.rules == {"type": "string", "dates": "seconds", "missing": "allow"}
    assert "ts_hour" in made.parts and not made.steps
    small = profile.ColumnProfile(kinds=("float32",))
    small.see(pa.array(STAMPS + 0.25, pa.float32()))
    assert heuristics.suggest_column("ts", small, _ROWS).rules["type"] == "float32"


@pytest.mark.parametrize("decimals", ["", ".5"])
@pytest.mark.parametrize("unit", [1, 1000])
def test_numbers_that_follow_days_are_times_whatever_they_are_called(unit, decimals):
    found = survey_values([f"{n * unit}{decimals}" for n in _follow_days().tolist()])
    made = heuristics.suggest_column("x", found, _ROWS)
    form = {1: "seconds", 1000: "milliseconds"}[unit]
    assert made.parts["x_hour"][0] == {"date": {"part": "hour", "form": form}}
    (said,) = suggest_dates.write_remarks("x", found)
    assert f"are taken for {form} since 1970. If they are not, " in said
    assert ("write type: float32" in said) == bool(decimals)


@pytest.mark.parametrize("step", [60, 300, 900, 3600, _A_DAY, 7 * _A_DAY])
def test_numbers_in_even_steps_are_times(step):
    found = survey_values(
        (1_000_000_007 + step * _draw().choice(1400, 400, replace=False)).tolist()
    )
    made = heuristics.suggest_column("x", found, 400)
    assert made.parts["x_trend"][0] == {"date": {"part": "days", "form": "seconds"}}
    assert ("x_hour" in made.parts) == (step < _A_DAY)


OTHERS = {
    "numbers of ten digits": lambda draw: draw.integers(1_000_000_000, 2_000_000_000, _ROWS),
    "phone numbers": lambda draw: (
        1_000_000_000
        + 10**6 * draw.choice(999, 30)[draw.integers(0, 30, _ROWS)]
        + draw.integers(0, 10**6, _ROWS)
    ),
    "counted through": lambda draw: 1_500_000_000 + np.arange(_ROWS),
    "counted through, with gaps": lambda draw: (
        1_500_000_000 + np.flatnonzero(draw.random(3000) < 0.7)
    ),
    "rounded amounts": lambda draw: 10**6 * draw.integers(1000, 2000, _ROWS),
    "large amounts": lambda draw: np.exp(draw.normal(20.5, 1, _ROWS)).astype(np.int64),
    "a few": lambda draw: 1_500_000_000 + draw.integers(0, 10**8, 12),
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_large_numbers_are_no_times_and_draw_no_warning(what):
    for seed in range(20):
        found = survey_values(OTHERS[what](_draw(seed)).tolist())
        assert unix_times.find("x", found) is None
        assert suggest_dates.write_remarks("x", found) == []


@pytest.mark.parametrize("blocks", [3, 10, 100])
def test_numbers_in_clusters_follow_no_days(blocks):
    """Those of identifiers, such as areas of phone numbers, have a rhythm of any length."""
    for seed in range(20):
        draw = _draw(seed)
        starts = draw.integers(1_400_000_000, 1_700_000_000, blocks)
        numbers = starts[draw.integers(0, blocks, _ROWS)] + draw.integers(0, 9000, _ROWS)
        assert not unix_times.shows_days(np.unique(numbers).astype(float))


@pytest.mark.parametrize("decimals", ["", ".5"])
def test_numbers_that_may_be_times_are_named(decimals):
    found = survey_values([f"{n}{decimals}" for n in STAMPS.tolist()])
    assert unix_times.find("x", found) is None
    (said,) = suggest_dates.write_remarks("x", found)
    assert said == (
        f"'x': numbers such as {STAMPS[0]}{decimals} are taken for amounts, and may be seconds "
        "since 1970, from 2021-01-01 to 2021-12-31. If they are, call the column x_time, or make "
        "features of it with the step date, form: seconds"
    )
    assert suggest_dates.write_remarks("phone", found) == []
    assert decimals or suggest_dates.write_remarks("x_id", found) == []
