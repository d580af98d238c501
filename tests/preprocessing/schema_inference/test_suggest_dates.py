"""Features of dates."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from preprocessing.schema_inference import heuristics, profile, suggest_dates
from tests.preprocessing.schema_inference.surveyed import survey_values


def _column(values, name="when"):
    found = profile.ColumnProfile()
    found.see(pa.array(values) if not isinstance(values[0], str) else _raw(values))
    return heuristics.suggest_column(name, found, len(values))


def _raw(values):
    return pa.array([value.encode() for value in values])


def test_american_dates():
    made = _column(["9/30/1990 0:00:00", "11/29/1993 0:00:00", "1/2/1992 0:00:00"])
    day = {"date": {"part": "days", "form": "m/d/y"}}
    edges = [7577, 7721, 7866, 8010, 8155, 8299, 8444, 8588, 8733]
    assert made.parts["when_trend"] == [day, {"piecewise": {"edges": edges}}]
    assert list(made.parts) == ["when_weekday", "when_month", "when_season", "when_trend"]
    assert "dates, m/d/y" in made.notes and not made.steps


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (["9/30/1990 0:00:00", "11/29/1993 0:00:00", "1/2/1992 0:00:00"], {"dates": "m/d/y"}),
        (["2020-01-01", "2020-03-01"], {"dates": "iso"}),
        (["2020-01-01", "2020-02-30"], {}),
        (["2020-01-01", "NULL", "2020-03-01"], {}),
        ([20200101, 20200229, 20200301, 20200401] * 9, {"dates": "ymd"}),
        ([20190101, 20190229, 20190301, 20190401] * 9, {}),
        ([1577836800, 1577923200, 1578009600] * 9, {}),
    ],
)
def test_a_form_that_all_values_have_becomes_a_rule(values, rule):
    made = _column(values, "timestamp")
    assert made.parts
    assert {name: made.rules[name] for name in ("dates",) if name in made.rules} == rule


def test_ambiguous_day_and_month_are_noted():
    notes = _column(["1/2/2020", "3/4/2020", "3/4/2020"]).notes
    assert notes[-1] == "dates, taken for m/d/y; if they are not, form: d/m/y"


def test_whole_numbers_are_unix_times_if_the_column_name_says_so():
    seconds = [1_260_759_144 + 7777 * n for n in range(900)]
    made = _column(seconds, "timestamp")
    assert made.parts["timestamp_hour"] == [
        {"date": {"part": "hour", "form": "seconds"}},
        {"identity": {"ids": 25}},
    ]
    assert "seconds since 1970" in made.notes
    assert _column([1000 * s for s in seconds], "created_at").notes[-1] == "milliseconds since 1970"
    assert _column(seconds, "population").parts == {}


def test_times_of_one_day_have_an_hour_and_no_trend():
    made = _column([f"2020-01-01 {hour:02}:00" for hour in range(20)])
    assert list(made.parts) == ["when_hour"]


def test_only_parts_that_differ_are_features():
    years = [f"{year}-01-01" for year in range(1970, 1982)]
    assert list(_column(years).parts) == ["when_trend"]
    months = [f"2020-{month:02}-01T00:00:00" for month in range(1, 13)]
    assert list(_column(months).parts) == ["when_month", "when_season", "when_trend"]
    days = [f"1/{day}/2020 12:00:00 PM" for day in range(1, 30)]
    assert list(_column(days).parts) == ["when_weekday", "when_trend"]
    halves = [f"1/2/2020 1:00:00 {half}" for half in ("AM", "PM", "PM")]
    assert list(_column(halves).parts) == ["when_hour"]
    made = _column([f"2020-01-01 12:00:{second}" for second in range(10, 20)])
    assert not made.parts and made.notes[-1] == "of one day and hour: no feature"


_FIRST = datetime.datetime(2020, 1, 1)


@pytest.mark.parametrize("minutes", [37, 60])
@pytest.mark.parametrize(
    "form", ["%m/%d/%Y %I:%M %p", "%Y-%m-%dT%H:%M:%S", "%d %b %Y %H:%M", "%Y%m%d%H%M", "unix"]
)
def test_the_minute_of_the_day_is_a_feature_where_minutes_vary(form, minutes):
    """Of hours alone, what happens within one, such as a rush hour, cannot be learned."""
    times = [_FIRST + datetime.timedelta(minutes=minutes * n) for n in range(900)]
    if form == "unix":
        seconds = [int(t.replace(tzinfo=datetime.timezone.utc).timestamp()) for t in times]
        made = _column(seconds, "time")
    else:
        made = _column([t.strftime(form) for t in times], "time")
    assert "time_hour" in made.parts
    assert ("time_time" in made.parts) == (minutes == 37)
    if minutes == 37:
        day, halves = made.parts["time_time"]
        assert day["date"]["part"] == "minute_of_day"
        assert halves == {"piecewise": {"edges": list(range(0, 1441, 30))}}


def _days(count, apart=1):
    first = datetime.date(2001, 1, 1)
    return [str(first + datetime.timedelta(days=apart * n)) for n in range(count)]


def test_days_that_return_each_year_are_a_category():
    made = _column(_days(2200)).parts["when_day"]
    assert made == [{"date": {"part": "calendar_day"}}, {"identity": {"ids": 374}}]
    few_years = _days(1000) * 3
    assert "when_day" not in _column(few_years).parts
    few_rows_of_each = _days(1500, apart=2)
    assert "when_day" not in _column(few_rows_of_each).parts
    with_hours = [f"{day} {n % 24:02}:00" for n, day in enumerate(_days(2200))]
    assert "when_day" not in _column(with_hours).parts


def test_arrow_timestamps():
    made = _column(
        [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=9 * n) for n in range(400)]
    )
    assert {"when_hour", "when_month", "when_trend"} <= set(made.parts)


def _remarks(values, name="when"):
    found = profile.ColumnProfile()
    found.see(pa.array(values) if not isinstance(values[0], str) else _raw(values))
    return suggest_dates.write_remarks(name, found)


def test_doubtful_dates_are_reported():
    assert _remarks(["1/2/2020", "3/4/2020"]) == [
        "'when': dates such as '1/2/2020' are taken for m/d/y, and no value shows that they are "
        "not d/m/y. If they are, write that as form in the config"
    ]
    assert _remarks(["2020-01-05", "5 Jan 2020"]) == [
        "'when' is kept as text: its dates are written in 2 ways, such as '2020-01-05' (iso), "
        "'5 Jan 2020' (d month y). Write all of them in one way"
    ]
    assert _remarks(["1/2/2020", "30/4/2020"]) == []
    assert _remarks([1_600_000_000_000, 1_600_000_009_000], "x") == [
        "'x': whole numbers such as 1600000000000 are taken for milliseconds since 1970. If they "
        "are not, give features.x the step z_score"
    ]
    assert _remarks(["31/12/63", "31/12/12"]) == []
    assert _remarks(["31/12/45", "31/12/44"])[0].startswith("'when': its years have two digits")
    assert _remarks(["31/12/62", "31/12/12"]) == [
        "'when': its years have two digits, and are taken for 1950 to 2049, from 1962 to 2012. "
        "Write four digits if that is wrong"
    ]
    assert _remarks(["2020-01-01", "2020-02-30", "2020-04-31"]) == [
        "'when': '2020-02-30' is no day of the calendar. It counts as -1, and so will any text "
        "that is no date: correct such days, and schema holds later values to the form iso"
    ]
    assert _remarks([20190101, 20190229, 20190301] * 9)[0].startswith("'when': '20190229' is no")
    assert _remarks([1_600_000_000_000, 1_600_000_009_000], "ts") == []
    assert _remarks([1_600_000_000_000, 1_600_000_009_000], "user_id") == []


def test_whole_numbers_of_year_month_day_are_dates():
    days = [20190101 + day for day in range(30)]
    for values in (days, list(map(str, days)), [f"{day}.0" for day in days]):
        made = _column(values, "x")
        assert made.parts["x_weekday"] == [
            {"date": {"part": "weekday", "form": "ymd"}},
            {"identity": {"ids": 8}},
        ]
        assert made.notes[-1] == "dates, ymd"
    assert not _column([*days, 20190132], "x").parts.get("x_weekday")


def test_a_column_has_one_note_on_its_dates():
    assert _column(["05/12/2020", "06/13/2020"]).notes[1:] == ["dates, m/d/y"]
    assert _column(["2017 May", "2018 May"]).notes[1:] == ["dates, month y"]
    assert (
        _column(["6-Aug-09", "7-Aug-10"]).notes[-1] == "dates, d month y, of the years 1950 to 2049"
    )
    mixed = _column(["2020-01-05", "05 Jan 2020"] * 9).notes
    assert mixed[-1:] == ["dates written in 2 ways: kept as text"]


def test_later_days_are_allowed():
    assert _column([f"2020-01-{day:02}" for day in range(10, 20)] * 30).rules == {
        "type": "string",
        "dates": "iso",
    }
    assert _column([20190101 + day for day in range(30)]).rules == {"type": "int64", "dates": "ymd"}


@pytest.mark.parametrize(
    ("odd", "named"),
    [
        (["9999-12-31"] * 40 + ["0001-01-01"] * 20, ["0001-01-01", "9999-12-31"]),
        (["1900-01-01"], ["1900-01-01"]),
    ],
)
def test_days_that_stand_for_no_date_are_no_ends_of_the_trend(odd, named):
    days = [str(datetime.date(2020, 1, 1) + datetime.timedelta(n % 700)) for n in range(1400)]
    found = survey_values([*days, *odd])
    edges = heuristics.suggest_column("until", found, 1400).parts["until_trend"][1]["piecewise"][
        "edges"
    ]
    assert (edges[0], edges[-1]) == (18262, 18262 + 699)
    (said,) = suggest_dates.find_stand_ins("until", found)
    assert said.startswith(
        f"'until' has {len(odd):,} of {1400 + len(odd):,} values such as "
        f"{', '.join(map(repr, named))}, far from the others, which go from 2020-01-01 "
        "to 2021-11-30"
    )


def test_whole_numbers_that_stand_for_no_date():
    days = [f"{20200101 + n % 28}" for n in range(300)]
    found = survey_values([*days, "99991231"])
    assert list(heuristics.suggest_column("until", found, 301).parts)[-1] == "until_trend"
    (said,) = suggest_dates.find_stand_ins("until", found)
    assert said.startswith("'until' has 1 of 301 values such as '99991231', far from the others")


@pytest.mark.parametrize(
    "days",
    [
        ["9999-12-31", "0001-01-01"] * 50,
        [f"{1500 + n}-03-01" for n in range(500)],
        [f"{1200 + n}-03-01" for n in range(480)] + ["1710-01-01"],
        [f"{1960 + n % 60}-01-01" for n in range(600)],
        ["99991231"] * 50,
    ],
)
def test_a_column_of_mostly_dates_is_a_date(days):
    found = survey_values(days)
    assert suggest_dates.find_stand_ins("day", found) == []
    if form := found.as_dates.form:
        assert found.as_dates.spans[form].first_day == datetime.date.fromisoformat(min(days))


@pytest.mark.parametrize("written", ["%H:%M", "%H:%M:%S", "%I:%M %p", "time"])
def test_times_of_day(written):
    """Of 1,094 different ones most occur once: as categories nothing could be learned."""
    times = [
        datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=79 * n) for n in range(1094)
    ]
    values = [t.time() if written == "time" else t.strftime(written) for t in times]
    made = _column(values)
    assert "times of day" in made.notes and made.rules["dates"] == "clock"
    minute = {"date": {"part": "minute_of_day", "form": "clock"}}
    halves = {"piecewise": {"edges": list(range(0, 1441, 30))}}
    assert made.parts["when_time"] == [minute, halves]
    assert list(made.parts) == ["when_hour", "when_time"]


@pytest.mark.parametrize(("written", "digits"), [("%Y%m%d%H%M%S", 14), ("%Y%m%d%H%M", 12)])
def test_digits_of_a_day_and_a_time_are_no_amount(written, digits):
    first = datetime.datetime(2015, 1, 1, 13, 45, 1)
    times = [(first + n * datetime.timedelta(hours=37)).strftime(written) for n in range(300)]
    for values in (times, list(map(int, times))):
        made = _column(values)
        assert made.rules["type"] == "string" and made.rules["dates"] == "ymd"
        assert "when_hour" in made.parts and "when_trend" in made.parts and not made.steps
    other = [str(int("1" + "9" * (digits - 2) + "0") + n) for n in range(300)]
    assert _column(other).rules["type"] == "int64"


def test_days_of_zeros_stand_for_no_date():
    """As MySQL writes what is missing."""
    days = [f"2020-{1 + n % 12:02}-{1 + n % 28:02}" if n % 5 else "0000-00-00" for n in range(400)]
    found = survey_values(days)
    assert found.absent == {"0000-00-00"} and found.as_dates.form == "iso"


def _count_intervals(times):
    edges = _column([t.strftime("%Y-%m-%dT%H:%M:%S") for t in times]).parts["when_trend"]
    return len(edges[1]["piecewise"]["edges"]) - 1


@pytest.mark.parametrize(
    ("hours", "rows", "intervals"),
    [
        (1, 8759, 72),
        (1, 3000, 25),
        (3, 2920, 24),
        (24, 2190, 18),
        (24, 300, 8),
        (0.25, 30_000, 180),
        (24 * 30.44, 240, 8),
    ],
)
def test_the_trend_of_close_rows_has_more_intervals(hours, rows, intervals):
    """Of 8, each longer than a month, no model follows the weather of one year."""
    times = [_FIRST + datetime.timedelta(hours=hours * n) for n in range(rows)]
    assert _count_intervals(times) == intervals


def test_the_trend_of_rows_at_random_times_has_few_intervals():
    times = [_FIRST + datetime.timedelta(minutes=8191 * n * n % 1_000_003) for n in range(6000)]
    assert _count_intervals(times) == 8
    unpaired = [_FIRST + datetime.timedelta(days=n, hours=n * n % 24) for n in range(3000)]
    assert _count_intervals(unpaired) == 8


def test_the_trend_of_close_rows_has_no_more_intervals_than_days():
    times = [_FIRST + datetime.timedelta(minutes=n) for n in range(20 * 1440)]
    assert _count_intervals(times) == 19
