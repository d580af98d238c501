"""The parts of a run's time add up to the whole, whatever was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.reports import goodput
from pipeline.reports.goodput import Measured

_SECONDS = st.floats(0, 1e6)
_PIECES = st.lists(st.tuples(_SECONDS, st.integers(1, 50)), max_size=5)


def _named(parts):
    return {part.name: part.seconds for part in parts}


def test_a_run_with_a_loss():
    # Two processes for 100 s: 10 s to the first step, 20 s at the end. At best 100 examples/s.
    found = goodput.split(
        Measured(
            total=100,
            start=10,
            end=20,
            processes=2,
            examples=5000,
            best_rate=100,
            lost_examples=500,
            recovering=[(4, 1), (2, 2)],
            saving=[(1.5, 1), (1.5, 1)],
        )
    )
    assert _named(found) == pytest.approx(
        {
            "useful": 100,
            "start-up": 20,
            "end": 40,
            "lost work": 10,
            "recovery": 8,
            "saving": 3,
            "other": 19,
        }
    )
    assert found[0].name == "useful" and found[0].share == pytest.approx(0.5)


def test_what_was_not_measured_is_other():
    found = goodput.split(
        Measured(total=50, start=5, end=5, processes=1, examples=100, best_rate=None)
    )
    assert _named(found)["other"] == 40 and _named(found)["useful"] == 0


@given(
    total=_SECONDS,
    start=_SECONDS,
    end=_SECONDS,
    processes=st.integers(1, 1000),
    examples=st.floats(0, 1e12),
    best_rate=st.none() | st.floats(1e-3, 1e9),
    lost=st.floats(0, 1e9),
    recovering=_PIECES,
    saving=_PIECES,
)
def test_parts_add_up(total, start, end, processes, examples, best_rate, lost, recovering, saving):
    found = goodput.split(
        Measured(total, start, end, processes, examples, best_rate, lost, recovering, saving)
    )
    assert all(part.seconds >= 0 for part in found)
    assert sum(part.seconds for part in found) == pytest.approx(total * processes, rel=1e-9)
    if total:
        assert sum(part.share for part in found) == pytest.approx(1)


def test_a_run_of_no_time_has_no_shares():
    found = goodput.split(Measured(0, 0, 0, 1, 0, None))
    assert all(part.share == 0 for part in found)
