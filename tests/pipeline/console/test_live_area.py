"""Parts at the bottom of a terminal, and the lines above them."""

from __future__ import annotations

import io
import sys

from pipeline.console.live_area import LiveArea
from tests.pipeline import terminals

LOG = """
import sys, threading
from rich.text import Text
from pipeline.console.live_area import LiveArea
area = LiveArea(sys.stdout)
area.show("b", Text("below"))
area.show("a", Text("above"))
area.log("[red]run[/red] :smile: " + "x" * 90)
assert threading.active_count() == 1
area.hide("b")
area.hide("a")
area.log("the end")
"""


def test_parts_are_redrawn_below_lines_and_leave():
    screen = terminals.run([sys.executable, "-c", LOG], columns=80)
    line = "[red]run[/red] :smile: " + "x" * 90
    log = [line[:80], line[80:]]
    assert screen.frames() == [
        ["below"],
        ["above", "below"],
        [*log, "above", "below"],
        [*log, "above", ""],
        [*log, "the end", ""],
    ]
    assert screen.code == 0


def test_other_streams_and_dumb_terminals_get_lines_only():
    stream = io.StringIO()
    area = LiveArea(stream)
    area.show("a", "part")
    area.log("[red]run[/red] :smile: " + "x" * 90)
    area.hide("a")
    assert stream.getvalue() == "[red]run[/red] :smile: " + "x" * 90 + "\n"
    screen = terminals.run([sys.executable, "-c", LOG], columns=0, TERM="dumb")
    assert screen.shown.replace("\r", "") == stream.getvalue() + "the end\n"


BUSY = """
import sys, time
from pipeline.console.progress import Progress
began = time.monotonic()
with Progress("reading", 10**9) as bar:
    while time.monotonic() < began + 0.55:
        bar.advance(1)
"""


def test_a_part_is_redrawn_ten_times_a_second_at_most():
    screen = terminals.run([sys.executable, "-c", BUSY], columns=80)
    assert screen.shown.count("reading") <= 6 + 1  # and when it leaves


NARROWED = """
import fcntl, struct, sys, termios, time
from pipeline.console.progress import Progress
with Progress("reading", 1000) as bar:
    for columns in (120, 50):
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        bar.reach(600, "3 dead letters")
        time.sleep(0.11)
print("done")
"""


def test_a_terminal_may_be_narrowed():
    screen = terminals.run([sys.executable, "-c", NARROWED], columns=120)
    (wide,), (narrow,), *_, end = screen.frames()
    assert 80 < len(wide) < 120 and 40 < len(narrow) < 50
    assert end == ["done", ""]


CLOSED = """
import os, pty, sys, time
from rich.text import Text
from pipeline.console import terminal
from pipeline.console.live_area import LiveArea
master, slave = pty.openpty()
sys.stdout = terminal.Lasting(os.fdopen(slave, "w"), piped=False)
area = LiveArea(sys.stdout)
area.show("a", Text("one"))
os.close(master)
area.log("line")
area.hide("a")
area.log("line")
print("survived", file=sys.stderr)
"""


def test_a_terminal_may_be_closed():
    screen = terminals.run([sys.executable, "-c", CLOSED], columns=80)
    assert (screen.shown, screen.code) == ("survived\r\n", 0)
