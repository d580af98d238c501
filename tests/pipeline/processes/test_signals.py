"""Being asked to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from pipeline.processes import signals

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers_restored():
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    writing = signal.set_wakeup_fd(-1)
    if writing >= 0:
        os.close(writing)  # ends the listener
    for thread in threading.enumerate():
        if thread.name == "signals":
            thread.join(30)
    for number, handler in before.items():
        signal.signal(number, handler)
    signals.stop_requested.clear()
    signals.insisted.clear()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_soft_stop_is_noted_and_no_more(number):
    signals.stop_softly()
    assert not signals.stop_requested.is_set()
    os.kill(os.getpid(), number)
    assert signals.stop_requested.wait(30)
    assert not signals.insisted.is_set()


def test_signals_that_come_while_the_main_thread_uses_the_events_are_noted():
    """Their locks are not reentrant: a handler that takes one would wait for ever."""
    program = """
import os, signal, threading
from pipeline.processes import signals
signals.stop_softly()
for event in (signals.stop_requested, signals.insisted):
    with event._cond:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # handlers are called between these
            pass
    assert event.wait(30)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


def test_ctrl_c_after_a_stop_insists():
    signals.stop_softly()
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.insisted.wait(30)


def test_what_comes_twice_by_itself_does_not_insist():
    """`timeout` signals its child and then the group; a shell passes on what the terminal says."""
    reading, writing = os.pipe()
    os.write(writing, bytes([signal.SIGTERM, signal.SIGTERM, signal.SIGHUP, signal.SIGHUP]))
    os.close(writing)
    signals.listen(reading)
    assert signals.stop_requested.is_set()
    assert not signals.insisted.is_set()


def test_what_was_ignored_stays_ignored():
    """As SIGHUP under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals.stop_softly()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGHUP)
    assert not signals.stop_requested.wait(0.2)
