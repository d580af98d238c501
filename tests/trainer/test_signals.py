"""Being asked to stop."""

from __future__ import annotations

import os
import signal

import pytest

from trainer import signals


@pytest.fixture(autouse=True)
def _handlers_restored():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    signals.stop_requested.clear()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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
    for number in (signal.SIGTERM, signal.SIGINT):
        assert signal.getsignal(number) == signal.SIG_DFL
