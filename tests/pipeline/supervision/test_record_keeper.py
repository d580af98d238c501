"""run.json follows what a supervisor sees."""

from __future__ import annotations

import dataclasses

import pytest

from pipeline.config import config_file
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import Restart
from pipeline.supervision import pace, record_keeper


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


@pytest.fixture
def job():
    return config_file.load("mnist")


class _Shown:
    def __init__(self):
        self.lines, self.shown = [], []

    def show_line(self, line):
        self.lines.append(line)

    def show(self, statuses):
        self.shown.append(statuses)


def test_the_record_is_kept_up_to_date_while_others_watch(run, job):
    row = {"epoch": 0, "due": 30, "once": 20, "more": 0, "never": 0, "skipped": 0, "left": 10}
    status = run_folder.Status("chief-0", 1, "here", "training", 5.0)
    told = dataclasses.replace(status, input=[row])
    shown = _Shown()
    keeper = record_keeper.Keeper(run_record.begin(job, run), run, shown)
    keeper.show_line("a line")
    keeper.show({"chief-0": status})
    assert run_record.read(run).input is None
    keeper.show({"chief-0": told})
    kept = run_record.read(run)
    assert kept.input == [row]
    assert shown.lines == ["a line"] and len(shown.shown) == 2


@pytest.mark.parametrize(
    ("first_step_at", "trained_at", "ended", "seconds"),
    [
        (12.0, 20.0, 25.0, {"total": 15, "to_first_step": 2, "training": 8, "evaluation": 5}),
        (12.0, None, 25.0, {"total": 15, "to_first_step": 2, "training": 13, "evaluation": 0}),
        (4012.0, 4020.0, 25.0, {"total": 15}),
        (12.0, 5.0, 25.0, {"total": 15}),
        (12.0, 20.0, 3.0, {"total": 0}),
    ],
)
def test_a_clock_that_was_set_back_makes_no_negative_durations(
    run, job, first_step_at, trained_at, ended, seconds
):
    record = run_record.begin(job, run)
    found = pace.Pace(100, newest_step=100, first_step_at=first_step_at, trained_at=trained_at)
    record_keeper.book(record, {}, found, started=10.0, ended=ended)
    assert record.seconds == seconds


def test_restarts_are_written_as_they_happen(run, job):
    def written():
        return [(one.role, one.steps_lost) for one in run_record.read(run).restarts]

    record = run_record.begin(job, run)
    record.restarts.append(Restart(role="ps", index=0, cause="killed", steps_lost=20))
    keeper = record_keeper.Keeper(record, run, _Shown())
    keeper.beat.timer = lambda: 1000.0  # no other sign of life is due
    keeper.show({})
    record.restarts.append(Restart(role="worker", index=1, cause="killed"))
    keeper.show({})
    assert written() == [("ps", 20), ("worker", None)]
    record.restarts[-1].steps_lost = 3
    keeper.show({})
    assert written() == [("ps", 20), ("worker", 3)]
    run.remove("run.json")
    keeper.show({})
    assert run_record.read(run) is None  # without news it is not written


def test_news_that_cannot_be_written_just_now_is_written_later(run, job, tmp_path):
    record = run_record.begin(job, run)
    keeper = record_keeper.Keeper(record, run, _Shown())
    keeper.beat.timer = lambda: 50.0  # no other sign of life is due
    keeper.show({})
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").mkdir()
    record.restarts.append(Restart(role="worker", index=1, cause="killed"))
    keeper.show({})
    (tmp_path / "run.json").rmdir()
    keeper.show({})
    assert [one.role for one in run_record.read(run).restarts] == ["worker"]
