"""Lines of processes on a real terminal."""

from __future__ import annotations

import io
import sys

import pytest

from pipeline.console.live_area import LiveArea
from pipeline.jobs.role_lines import RoleLines
from pipeline.runs.run_folder import Status
from tests.pipeline import terminals

PROGRAM = """
import sys
from pipeline.jobs.display import Display
from pipeline.runs.run_folder import Status
from time import time

def status(task, state, ago=0.0, **values):
    return Status(task, 1, "h", state, time() - ago, **values)

def cluster(step, workers):
    roles = [status("chief-0", "training", step=step, examples_per_second=1574.3)]
    roles += [status(f"worker-{n}", "training", 30.0, step=9) for n in range(workers)]
    roles += [status("ps-0", "serving")] * (workers > 0)
    return {one.task: one for one in roles}

with Display(1500) as shown:
    for step in (1000, 1500):
        shown.show(cluster(step, int(sys.argv[1])))
    shown.show_line("evaluation at step 1500")
"""


def _frames(workers: int, **size: int) -> list[list[str]]:
    screen = terminals.run([sys.executable, "-c", PROGRAM, str(workers)], **size)
    assert screen.code == 0
    return screen.frames()


def test_there_is_a_line_a_process_below_the_bar():
    frames = _frames(1, columns=100)
    bar, *lines = frames[1]
    assert bar.startswith("training  67% ")
    assert lines == [
        "  chief-0   training  step 1,000  1,574 examples/s",
        "  ps-0      serving",
        "  worker-0  training      step 9                    no news for 30 s",
    ]
    said = [
        "training: all 1,500 steps made; final evaluation and export",
        "evaluation at step 1500",
    ]
    assert frames[-2][:3] == [*said, "  chief-0   training  step 1,500  1,574 examples/s"]
    assert frames[-1] == [*said, "", "", ""]


def test_many_are_cut_and_so_are_long_lines():
    lines = max(_frames(20, columns=40), key=len)
    assert "  and 15 more: make status" in lines
    assert max(map(len, lines)) < 40


@pytest.mark.parametrize(("workers", "rows"), [(1, 5), (0, 24)])
def test_without_room_or_peers_there_are_none(workers, rows):
    frames = _frames(workers, columns=100, rows=rows)
    assert frames[0][0].startswith("training  67% ")
    assert not [line for frame in frames for line in frame if "chief-0" in line]


def test_what_is_no_terminal_gets_none():
    stream = io.StringIO()
    lines = RoleLines(LiveArea(stream))
    lines.show({name: Status(name, 1, "h", "training", 1.0) for name in ("chief-0", "worker-0")})
    lines.close()
    assert stream.getvalue() == ""
