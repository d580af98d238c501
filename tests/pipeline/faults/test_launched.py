"""Following a run to its end, without one."""

from __future__ import annotations

import types

import pytest

from pipeline.faults import launched, processes


class Run:
    """Stands for a launched run whose launchers end with the given codes, one after the other."""

    def __init__(self, *codes):
        self.codes, self.launches, self.closed = list(codes), 1, False
        self.run = types.SimpleNamespace(path="/nowhere")

    def look(self):
        return False

    def ended(self):
        return self.codes.pop(0)

    def start(self):
        self.launches += 1

    def close(self):
        self.closed = True

    def last_line(self):
        return "error: no"


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    monkeypatch.setattr(processes, "left", lambda path: {})


def attend(run, expected=()):
    wrong = []
    lost = launched.attend(run, lambda: None, wrong.append, expected=lambda code: code in expected)
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
    monkeypatch.setattr(processes, "left", lambda path: {17: "ps-0"})
    assert attend(Run(0)) == (False, ["processes outlive the launcher: [17]"])
