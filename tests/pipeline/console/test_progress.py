"""What is shown of long work, on a terminal and in a log."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

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


def test_what_has_not_changed_is_said_once_a_minute(clock):
    stream, bar = _log(clock, 1600)
    for seconds in range(1, 131):
        clock.now += 1
        bar.reach(0, "3 dead letters" if seconds > 10 else "")
    bar.reach(800, "3 dead letters")
    clock.now += 5
    bar.reach(800, "3 dead letters")
    assert stream.getvalue().splitlines() == [
        "reading: 0 of 1,600 records",
        "reading: 0 of 1,600 records, 3 dead letters",
        "reading: 0 of 1,600 records, 3 dead letters",
        "reading: 800 of 1,600 records, 6.2/s, 2 min 10 s left, 3 dead letters",
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
    assert bar.line() == "reading: 0 of 1,000 records"


def test_what_was_done_before_does_not_count_for_the_rate(clock):
    _, bar = _log(clock)
    clock.now += 9
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


def test_bytes_are_reported_in_megabytes(clock):
    _, bar = _log(clock, 2_000_000_000, unit="bytes")
    clock.now += 1
    bar.advance(500_000_000)
    assert bar.line() == "reading: 500.0 of 2,000.0 MB, 500.0 MB/s, 3 s left"


NOTES = ("loss 0.1234", "1,574 examples/s")


def _drawn(bar, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(bar)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (39, "training  45% 680/1,500, 1 min 5 s left"),
        (50, "training  45% ━━━━╸      680/1,500, 1 min 5 s left"),
        (60, "training  45% ━━━     680/1,500, 1 min 5 s left, loss 0.1234"),
        (
            79,
            "training  45% ━━━╸     680/1,500, 1 min 5 s left, loss 0.1234, 1,574 examples/s",
        ),
        (
            119,
            "training  45% ━━━━━━━━━━━━━╸                 680/1,500, 1 min 5 s left, "
            "loss 0.1234, 1,574 examples/s, 13 steps/s",
        ),
    ],
)
def test_a_bar_has_what_there_is_room_for(clock, width, text):
    bar = progress.Progress("training", 1500, unit="steps", stream=io.StringIO(), clock=clock)
    clock.now += 54
    bar.reach(680, *NOTES)
    assert _drawn(bar, width) == [text]


@example(label="読み込み", total=1_000_000_000, done=1)
@example(label="reading", total=None, done=123_456_789)
@example(label="reading", total=0, done=123_456_789)
@example(label="reading", total=7, done=7)
@given(
    label=st.sampled_from(["reading", "the undisturbed run of this trial", "読み込み"]),
    total=st.none() | st.integers(0, 10**10),
    done=st.integers(0, 10**10),
)
def test_it_fits_terminals_of_any_width(label, total, done):
    clock = Clock()
    bar = progress.Progress(label, total, stream=io.StringIO(), clock=clock)
    clock.now += 54
    bar.reach(done, *NOTES)
    for width in range(39, 200, 8):
        (text,) = _drawn(bar, width)
        assert cell_len(text) <= width
        assert text.startswith(label[:7])


@pytest.mark.parametrize(
    ("total", "unit", "text"),
    [
        (None, "rows", "reading: 5,000 rows, 3 dead letters, 2,500 rows/s"),
        (2_000_000_000, "bytes", "500.0/2,000.0 MB, 6 s left, 3 dead letters, 250.0 MB/s"),
    ],
)
def test_units_are_shown(clock, total, unit, text):
    bar = progress.Progress("reading", total, unit=unit, stream=io.StringIO(), clock=clock)
    clock.now += 2
    bar.reach(5000 if total is None else 500_000_000, "3 dead letters")
    (shown,) = _drawn(bar, 100)
    assert shown.endswith(text) and (total is not None or shown == text)


PROGRAM = """
from pipeline.console import progress
with progress.Progress("reading", 1000) as bar:
    bar.reach(600, "3 dead letters")
print("done")
"""


@pytest.mark.parametrize(("columns", "width"), [(0, 80), (40, 40), (80, 80), (120, 120)])
def test_on_a_real_terminal_it_is_one_line_that_leaves(columns, width):
    screen = terminals.run([sys.executable, "-c", PROGRAM], columns=columns)
    (bar,), *_, end = screen.frames()
    assert bar.startswith("reading  60% ━") and "600/1,000" in bar
    assert len(bar) < width and ("3 dead letters" in bar) == (width > 40)
    assert end == ["done", ""]
    assert screen.code == 0


def test_columns_goes_before_what_the_terminal_reports():
    screen = terminals.run([sys.executable, "-c", PROGRAM], columns=120, COLUMNS="50")
    (bar,), *_ = screen.frames()
    assert 40 < len(bar) < 50


def test_an_ascii_terminal_gets_an_ascii_bar():
    screen = terminals.run([sys.executable, "-c", PROGRAM], columns=80, PYTHONIOENCODING="ascii")
    (bar,), *_, end = screen.frames()
    assert bar.startswith("reading  60% ---") and end == ["done", ""]


def test_without_colours_the_bar_is_blank_where_work_is_left():
    screen = terminals.run([sys.executable, "-c", PROGRAM], columns=80, NO_COLOR="1")
    assert re.search(r"60% ━+╸? +600/1,000", screen.frames()[0][0])
    assert not re.search(r"\x1b\[[\d;]*3\dm", screen.shown)


LOG = """
from pipeline.console.progress import Progress
with Progress("reading", 1000, every=0.0) as bar:
    bar.reach(0, "[red]1[/red] :smile:")
"""


def test_a_dumb_terminal_gets_plain_lines():
    screen = terminals.run([sys.executable, "-c", LOG], columns=40, TERM="dumb")
    line = "reading: 0 of 1,000 records, [red]1[/red] :smile:"
    assert screen.shown.replace("\r", "") == f"{line}\n"


def test_notes_are_no_markup():
    screen = terminals.run([sys.executable, "-c", LOG], columns=80)
    assert "[red]1[/red] :smile:" in screen.frames()[0][0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (11400, "3 h 10 min")],
)
def test_durations(seconds, text):
    assert progress.duration(seconds) == text
