"""What is shown of long work, on a terminal and in a log."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.console import progress
from tests.pipeline import terminals


class Clock:
    """Time that passes when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


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


def test_the_longer_it_takes_the_rarer_the_lines(clock):
    stream, bar = _log(clock, 10_000)
    for done in range(10_000):
        clock.now += 1.0
        bar.reach(done)
    lines = stream.getvalue().splitlines()
    assert 150 < len(lines) < 300


def test_slow_work_has_a_rate_too(clock):
    _, bar = _log(clock, 100, unit="steps")
    clock.now += 10
    bar.advance(4)
    assert bar.line() == "reading: 4 of 100 steps, 0.4/s, 4 min 0 s left"


def test_bytes_are_told_in_megabytes(clock):
    _, bar = _log(clock, 2_000_000_000, unit="bytes")
    clock.now += 1
    bar.advance(500_000_000)
    assert bar.line() == "reading: 500.0 of 2,000.0 MB, 500.0 MB/s, 3 s left"


NOTES = ("loss 0.1234", "1,574 examples/s")


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (40, "training  45% 680/1,500, 01:05 left"),
        (50, "training  45% |#####       | 680/1,500, 01:05 left"),
        (60, "training  45% |####     | 680/1,500, 01:05 left, loss 0.1234"),
        (
            79,
            "training  45% |####      | 680/1,500, 01:05 left, loss 0.1234, 1,574 examples/s",
        ),
        (
            120,
            "training  45% |#############                 | 680/1,500 steps, 13/s, 01:05 left, "
            "loss 0.1234, 1,574 examples/s",
        ),
    ],
)
def test_a_bar_has_what_there_is_room_for(clock, width, text):
    bar = progress.Progress("training", 1500, unit="steps", stream=io.StringIO(), clock=clock)
    clock.now += 54
    bar.reach(680)
    assert bar.fitted(width, *NOTES) == text


@example(total=None, done=123_456_789)
@example(total=0, done=123_456_789)
@example(total=7, done=7)
@example(total=1500, done=1500)
@example(total=1_000_000_000, done=1_000_000_000)
@given(total=st.none() | st.integers(0, 10**10), done=st.integers(0, 10**10))
def test_it_fits_terminals_of_any_width(total, done):
    clock = Clock()
    bar = progress.Progress("reading", total, stream=io.StringIO(), clock=clock)
    clock.now += 54
    bar.reach(done)
    for width in range(40, 201):
        text = bar.fitted(width, *NOTES)
        assert len(text) <= width and "\n" not in text
        assert text.startswith("reading")


def test_without_a_total_there_is_no_bar(clock):
    bar = progress.Progress("reading", None, unit="rows", stream=io.StringIO(), clock=clock)
    clock.now += 2
    bar.reach(5000)
    assert bar.fitted(80, "3 dead letters") == "reading: 5,000 rows, 2,500/s, 3 dead letters"


PROGRAM = """
import sys
from pipeline.console import progress
from pipeline.jobs.display import Display
with progress.Progress("reading", 1000) as bar:
    bar.reach(600, "3 dead letters")
print("done")
"""


@pytest.mark.parametrize(("columns", "width"), [(0, 80), (40, 40), (80, 80), (120, 120)])
def test_on_a_real_terminal_it_is_one_line_that_leaves(columns, width):
    screen = terminals.run([sys.executable, "-c", PROGRAM], columns=columns)
    bar, blank, *rest = screen.shown.lstrip("\r").split("\r")
    assert bar.startswith("reading  60% ") and "600/1,000" in bar
    assert len(bar) < width and ("█" in bar) == (width > 40)
    assert blank.strip() == "" and len(bar) <= len(blank) < width
    assert rest == ["done", "\n"]
    assert screen.code == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (11400, "3 h 10 min")],
)
def test_durations(seconds, text):
    assert progress.duration(seconds) == text
