"""Processes that hold the lifeline end when it is cut, and report errors by it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from preprocessing.runners import lifeline

_HOLD = """\
import sys, time
from preprocessing.runners import lifeline
report = lifeline.attach(sys.argv[1])
print("holds", flush=True)
if sys.argv[2:]:
    report("a row is wrong\\udcc3")
time.sleep(600)
"""


def _start(held: lifeline.Lifeline, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _HOLD, held.folder, *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "holds\n"
    return process


def test_all_end_when_it_is_cut():
    waited = threading.Event()
    with lifeline.Lifeline(lambda _: waited.set()) as held:
        processes = [_start(held), _start(held)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert not waited.is_set() and not os.path.exists(held.folder)
    held.cut()


def test_an_error_of_one_ends_all_after_the_wait():
    waited, go, texts = threading.Event(), threading.Event(), list[str]()

    def wait(text: str) -> None:
        texts.append(text)
        waited.set()
        go.wait()

    with lifeline.Lifeline(wait) as held:
        other, failing = _start(held), _start(held, "fails")
        assert waited.wait(60) and other.poll() is None
        go.set()
        assert [other.wait(60), failing.wait(60)] == [0, 0]
    assert texts == [r"a row is wrong\udcc3"]
