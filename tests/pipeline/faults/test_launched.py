"""Following a run to its end, without one."""

from __future__ import annotations

import types

import pytest

from pipeline.faults import launched, processes
from pipeline.runs import run_folder
from pipeline.runs.run_folder import Status


class Run:
    """Stands for a launched run whose launchers end with the given codes, one after the other."""

    def __init__(self, *codes):
        self.codes, self.launches, self.closed = list(codes), 1, False
        self.run = types.SimpleNamespace(path="/nowhere")

    def look(self):
        return False

    def wait(self):
        return self.codes.pop(0)

    def start(self):
        self.launches += 1

    def close(self):
        self.closed = True

    def read_last_line(self):
        return "error: no"


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    monkeypatch.setattr(processes, "find_survivors", lambda path: {})


def attend(run, expected=()):
    wrong = []
    lost = launched.follow(run, lambda: None, wrong.append, expected=lambda code: code in expected)
    assert run.closed
    return lost, wrong


def test_a_killed_launcher_is_started_again():
    run = Run(-9, -9, 0)
    assert attend(run) == (False, [])
    assert run.launches == 3


def test_an_end_by_itself_is_wrong_and_final_unless_it_may_be_tried_again():
    run = Run(75, 65, 0)
    assert attend(run) == (
        True,
        ["ended by itself with 75: error: no", "ended by itself with 65: error: no"],
    )
    assert run.launches == 2


def test_an_expected_end_is_not_wrong():
    assert attend(Run(65, 75, 0), expected=(65, 75)) == (False, [])


def test_processes_that_outlive_the_launcher_are_wrong(monkeypatch):
    monkeypatch.setattr(processes, "find_survivors", lambda path: {17: "ps-0"})
    assert attend(Run(0)) == (False, ["processes outlive the launcher: [17]"])


def test_each_time_that_the_chief_begins_is_counted_once(tmp_path):
    """Its process may be the same: it begins again when a server is back."""
    run = launched.LaunchedRun(tmp_path, "here", [])
    run._launcher = types.SimpleNamespace(poll=lambda: None)
    for pid, time in ((1, None), (1, 5.0), (1, 5.0), (1, 8.0), (2, None), (2, 9.0)):
        continued = None if time is None else {"step": 10, "time": time}
        said = Status("chief-0", pid, "h", "training", 9.0, step=11, continued=continued)
        run_folder.write_status(run.run, said)
        assert run.look()
    assert run.sessions == 3
