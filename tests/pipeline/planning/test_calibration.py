"""What a calibration run does to its processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import types

import pytest

from pipeline.console import progress
from pipeline.planning import calibration

_SLEEPS = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"
# Threads begin and end all the time.
_CHANGES = """
import threading, time
def thread():
    time.sleep(0.0005)
    threading.Thread(target=thread).start()
for _ in range(16):
    thread()
print("started", flush=True)
"""


@pytest.fixture
def processes():
    """Processes of two threads, by the task that each stands for."""
    tasks = ("chief-0", "worker-0", "ps-0", "ps-1")
    started = {task: subprocess.Popen([sys.executable, "-c", _SLEEPS]) for task in tasks}
    yield started
    for process in started.values():
        process.kill()
        process.wait()


needs_two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores, and Linux to keep processes on them",
)


@needs_two_cores
def test_servers_have_their_cores_alone(processes):
    statuses = {task: types.SimpleNamespace(pid=one.pid) for task, one in processes.items()}
    calibration.keep_servers_apart(types.SimpleNamespace(statuses=statuses), 1)
    first, *others = sorted(os.sched_getaffinity(0))
    for task, process in processes.items():
        kept = {first} if task.startswith("ps-") else set(others)
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            assert os.sched_getaffinity(int(thread)) == kept, task


@needs_two_cores
def test_threads_may_begin_and_end_meanwhile():
    first = min(os.sched_getaffinity(0))
    process = subprocess.Popen([sys.executable, "-c", _CHANGES], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"started\n"
        for turn in range(200):
            task = "ps-0" if turn % 2 else "worker-0"
            status = types.SimpleNamespace(pid=process.pid)
            calibration.keep_servers_apart(types.SimpleNamespace(statuses={task: status}), 1)
        kept = _allowed(process.pid)
        assert kept and set(kept) == {frozenset({first})}
    finally:
        process.kill()
        process.communicate()


def _allowed(pid):
    """Returns the cores of each thread that does not end while it is looked at."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            found.append(frozenset(os.sched_getaffinity(int(thread))))
    return found


def _load(*, pulled, pushed, rows=0.0):
    return {"rows": rows, "bytes": pulled + pushed, "pulled": pulled}


_SEEN, _HALF_SEEN = _load(pulled=960e3, pushed=961e3), _load(pulled=960e3, pushed=0.0)


@pytest.mark.parametrize(
    ("loads", "counted", "expected"),
    [
        ([[_SEEN], [_SEEN]], 1925e3, (962.5e3, 962.5e3)),
        # As a worker next to a chief once had it.
        ([[_SEEN], [_HALF_SEEN]], 1925e3, (962.5e3, 962.5e3)),
        ([[_HALF_SEEN], [_HALF_SEEN]], 1925e3, (962.5e3, 962.5e3)),
        ([[_load(pulled=0.0, pushed=961e3)], [_HALF_SEEN]], 1925e3, (962.5e3, 962.5e3)),
        ([[_SEEN], [_HALF_SEEN]], None, (960e3, 961e3)),
        # What was seen stays unequal, for instance where servers keep what they update.
        ([[_load(pulled=100e3, pushed=400e3)]], 502e3, (102e3, 400e3)),
        ([[_load(pulled=100e3, pushed=400e3)]], 250e3, (50e3, 200e3)),
        ([[_SEEN, _HALF_SEEN], [_HALF_SEEN, _SEEN]], 3842e3, (1920e3, 1922e3)),
        ([[_SEEN, _SEEN], [_SEEN]], None, (1920e3, 1922e3)),
        ([], 1925e3, (0.0, 0.0)),
    ],
    ids=[
        "all seen", "one lacks pushes", "all lack pushes", "each lacks a half", "not counted",
        "unequal", "more seen than counted", "two servers",
        "one server asked by one", "nothing seen",
    ],
)  # fmt: skip
def test_traces_that_lack_transfers_do_not_turn_directions_around(loads, counted, expected):
    pulled, pushed = calibration.traffic(loads, counted)
    assert (pulled, pushed) == pytest.approx(expected)


def test_the_rate_that_is_shown_leaves_out_the_start_up():
    now = 0.0
    run = types.SimpleNamespace(look=lambda: True)
    with progress.Progress("training", None, unit="steps", clock=lambda: now) as shown:
        for at, step in ((20.0, 0), (21.0, 50), (22.0, 650)):
            now, run.top_step = at, step
            calibration.follow(run, shown)
        assert shown.line() == "training: 650 steps, 600/s"


def snapshot(**staleness):
    """Returns a snapshot whose processes have reported this staleness, by task."""
    statuses = {task: types.SimpleNamespace(staleness=said) for task, said in staleness.items()}
    return types.SimpleNamespace(statuses=statuses)


def test_staleness_is_of_the_updates_while_it_is_measured():
    """Those of the first steps are of a time in which others still start."""
    first = snapshot(chief={"0": 30}, worker={"2": 1}, ps=None)
    last = snapshot(chief={"0": 36, "1": 4}, worker={"2": 6}, ps=None)
    assert calibration.count_staleness(first, last) == pytest.approx((4 * 1 + 5 * 2) / 15)
    assert calibration.count_staleness(first, snapshot(chief={"0": 40}, worker={"2": 1})) == 0.0


def test_staleness_of_few_updates_is_unknown():
    last = snapshot(chief={"0": 9}, worker={"3": 1})
    assert calibration.count_staleness(snapshot(chief={"0": 1}, worker=None), last) is None
    assert calibration.count_staleness(snapshot(ps=None), snapshot(ps=None)) is None
