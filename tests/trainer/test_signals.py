"""Being asked to stop."""

from __future__ import annotations

import os
import signal

import pytest

from trainer import signals

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers_restored():
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    signals.stop_requested.clear()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_soft_stop_is_noted_and_no_more(number):
    signals.stop_softly()
    assert not signals.stop_requested.is_set()
    os.kill(os.getpid(), number)
    assert signals.stop_requested.is_set()
    signals.stop_softly()
    assert not signals.stop_requested.is_set()


def test_what_has_nothing_to_save_ends_at_once():
    signals.stop_softly()
    signals.stop_at_once()
    for number in NUMBERS:
        assert signal.getsignal(number) == signal.SIG_DFL


def test_what_was_ignored_stays_ignored():
    """As SIGHUP under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for handle in (signals.stop_softly, signals.stop_at_once):
        handle()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGHUP)
    assert not signals.stop_requested.is_set()
