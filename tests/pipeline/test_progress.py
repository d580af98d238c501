"""What is shown of long work, on a terminal and in a log."""

from __future__ import annotations

import io

import pytest

from pipeline import progress


class Clock:
    """Time that passes when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock():
    return Clock()


def _log(clock, total=1000, **options):
    stream = io.StringIO()
    return stream, progress.Progress("reading", total, stream=stream, clock=clock, **options)


def test_a_log_gets_a_line_every_few_seconds(clock):
    stream, bar = _log(clock)
    for done in range(10, 1010, 10):
        clock.now += 0.11
        bar.reach(done)
    assert stream.getvalue().splitlines() == [
        "reading: 460 of 1,000 records, 91/s, 6 s left",
        "reading: 920 of 1,000 records, 91/s, 1 s left",
    ]


def test_short_work_says_nothing(clock):
    stream, bar = _log(clock)
    with bar:
        clock.now += 4
        bar.advance(1000)
    assert stream.getvalue() == ""


def test_without_a_total_there_is_no_time_left(clock):
    _, bar = _log(clock, None, unit="steps")
    clock.now += 2
    bar.advance(5000)
    bar.advance(1000)
    assert bar.done == 6000
    assert bar.line("loss 0.5") == "reading: 6,000 steps, 3,000/s, loss 0.5"


def test_before_any_time_has_passed(clock):
    _, bar = _log(clock)
    assert bar.line() == "reading: 0 of 1,000 records, 0/s"


def test_what_was_done_before_does_not_count_for_the_rate(clock):
    _, bar = _log(clock)
    bar.begin_at(500)
    clock.now += 1
    bar.advance(100)
    assert bar.line() == "reading: 600 of 1,000 records, 100/s, 4 s left"


def test_a_terminal_gets_a_bar_that_leaves(clock):
    stream = Terminal()
    with progress.Progress("reading", 1000, stream=stream, clock=clock) as bar:
        bar.begin_at(100)
        bar.reach(600, "loss 0.5")
        bar._bar.refresh()
    shown = stream.getvalue()
    assert "reading" in shown and "600/1.00k" in shown and "loss 0.5" in shown
    assert "records/s" in shown
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (11400, "3 h 10 min")],
)
def test_durations(seconds, text):
    assert progress.duration(seconds) == text
