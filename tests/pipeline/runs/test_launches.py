"""When a run was running."""

from __future__ import annotations

import pytest

from pipeline.config import config_file
from pipeline.runs import launches, run_record
from pipeline.runs.accounts import Account
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import Launch

CONFIG = config_file.load("mnist")
BEGAN = 10_000.0


def make(tmp_path, *earlier, **values):
    """A record whose newest launch began at BEGAN and took 20 s."""
    made = run_record.begin(CONFIG, RunFolder(str(tmp_path / "r")))
    values = {"started": BEGAN, "ended": BEGAN + 20, "launches": len(earlier) + 1, **values}
    return made.model_copy(update={"earlier": list(earlier), **values})


def launch(began, ended):
    return Launch(started=began, ended=ended, topology={"chief": 1})


def times(record, known=(), now=None):
    return [
        (one.began - BEGAN, one.ended - BEGAN)
        for one in launches.list_launches(record, known, now=now)
    ]


def test_the_time_between_launches_is_not_counted(tmp_path):
    record = make(tmp_path, launch(1000.0, 1070.0), launch(5000.0, 5007.0))
    assert launches.seconds(launches.list_launches(record)) == 70 + 7 + 20


def test_a_command_begins_before_it_takes_hold_of_the_run(tmp_path):
    record = make(tmp_path, seconds={"total": 26.0})
    assert times(record) == [(-6, 20)]
    # Also once it is an earlier launch.
    assert [one.started for one in run_record.launches(record)] == [BEGAN - 6]


def test_what_waited_for_the_launch_before_does_not_count_twice(tmp_path):
    record = make(tmp_path, launch(BEGAN - 50, BEGAN - 2), seconds={"total": 30.0})
    assert times(record) == [(-50, -2), (-2, 20)]


def test_a_run_at_work_has_taken_until_now(tmp_path):
    assert times(make(tmp_path, ended=None), now=BEGAN + 65) == [(0, 65)]


def test_a_launch_that_was_killed_took_until_the_last_sign_of_life(tmp_path):
    record = make(tmp_path, ended=None)
    assert times(record) == [(0, 0)]
    record.launcher.seen = BEGAN + 8
    assert times(record) == [(0, 8)]
    own = Account(task="chief-0", began=BEGAN + 2, until=BEGAN + 9, seconds={"start": 7})
    of_other = own.model_copy(update={"began": BEGAN - 100, "until": BEGAN - 90})
    record.earlier = [launch(BEGAN - 110, None)]
    assert times(record, [own, of_other]) == [(-110, -90), (0, 9)]


@pytest.mark.parametrize("ended", [BEGAN - 5, BEGAN])
def test_a_clock_that_was_set_back_takes_no_time_away(tmp_path, ended):
    assert launches.seconds(launches.list_launches(make(tmp_path, ended=ended))) == 0


def test_a_record_of_an_earlier_version_does_not_say_when(tmp_path):
    record = make(tmp_path, started=None)
    assert launches.list_launches(record) == []
    known = Account(task="chief-0", began=BEGAN + 2, until=BEGAN + 9, seconds={"start": 7})
    assert times(record, [known]) == [(2, 20)]
