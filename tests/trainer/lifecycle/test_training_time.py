"""The seconds a run has trained, over all its starts."""

from __future__ import annotations

import pytest

from pipeline.runs.run_folder import RunFolder
from trainer.lifecycle.training_time import TRAINING_TIME, TrainingTime


class Chief:
    """A chief of a run, and the time it sees."""

    def __init__(self, folder):
        self.now = 500.0
        self.time = TrainingTime(RunFolder(str(folder)), clock=lambda: self.now)

    def trains(self, seconds):
        self.now += seconds
        self.time.keep()


def test_nothing_counts_before_the_first_session(tmp_path):
    chief = Chief(tmp_path)
    chief.trains(1000)
    assert chief.time.seconds == 0
    chief.time.begin()
    chief.trains(5)
    chief.time.begin()  # another session, after a server was lost
    chief.trains(5)
    assert chief.time.seconds == 10


def test_chiefs_of_a_run_add_up(tmp_path):
    for start in range(3):
        chief = Chief(tmp_path)
        chief.time.begin()
        assert chief.time.seconds == 7 * start
        chief.trains(7)
        chief.time.keep(now=True)


def test_training_time_is_written_periodically(tmp_path, monkeypatch):
    chief, written = Chief(tmp_path), []
    monkeypatch.setattr(RunFolder, "write", lambda _, name, content: written.append(content))
    chief.time.begin()
    for _ in range(95):
        chief.trains(1)
    assert [one["seconds"] for one in written] == [10 * (n + 1) for n in range(9)]


def test_a_write_that_fails_does_not_end_training(tmp_path):
    chief = Chief(tmp_path)
    chief.time.begin()
    (tmp_path / TRAINING_TIME).mkdir()
    chief.trains(20)
    (tmp_path / TRAINING_TIME).rmdir()
    chief.trains(20)
    assert RunFolder(str(tmp_path)).read(TRAINING_TIME) == {"seconds": pytest.approx(40)}
