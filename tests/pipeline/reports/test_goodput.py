"""How the time of a run is divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.reports import goodput
from pipeline.reports.goodput import LaunchPeriod
from pipeline.runs import accounts
from pipeline.runs.accounts import Account


def _account(
    task="chief-0",
    began=0.0,
    *,
    examples=0,
    timed=None,
    late=0.0,
    best=None,
    ended=True,
    **spent,
):
    return Account(
        task=task,
        began=began,
        until=began + sum(spent.values()),
        seconds=spent,
        examples=examples,
        timed=examples if timed is None else timed,
        late=late,
        best=best,
        ended=ended,
    )


def _split(launches, known, survived=1e9, *, synchronous=False, alone=False):
    parts = goodput.split(launches, known, survived=survived, synchronous=synchronous, alone=alone)
    assert [part.name for part in parts] == list(goodput.WHAT)
    return {part.name: part.seconds for part in parts if part.seconds}


def _launch(began, ended, *tasks):
    return LaunchPeriod(began, ended, tasks or ("chief-0",))


def test_time_of_steps_is_useful_at_the_best_pace():
    known = [_account(start=10.0, step=60.0, between=20.0, examples=100, best=0.5)]
    found = _split([_launch(0, 100)], known)
    assert found == {"useful": 50, "start-up": 10, "slower steps": 30, "end": 10}


def test_states_of_a_process_are_causes():
    known = [
        _account(
            **{"start": 5.0, "step": 50.0, "input": 10.0, "exchange": 5.0, "saving": 8.0},
            **{"evaluation": 7.0, "waiting": 3.0, "recovery": 2.0, "end": 10.0, "examples": 100},
        )
    ]
    assert _split([_launch(0, 100)], known) == {
        **{"useful": 50, "start-up": 5, "input": 10, "exchange": 5, "saving": 8},
        **{"evaluation": 7, "waiting for others": 3, "recovery": 2, "end": 10},
    }


def test_input_that_is_starved_all_the_time_is_no_worse_pace():
    known = [_account(step=10.0, input=90.0, examples=100, best=0.1)]
    assert _split([_launch(0, 100)], known) == {"useful": 10, "input": 90}


def test_examples_that_no_checkpoint_has_are_lost_work():
    known = [_account(step=100.0, examples=100, best=1.0)]
    assert _split([_launch(0, 100)], known, 60) == {"useful": 60, "lost work": 40}


def test_the_first_step_is_as_useful_as_others():
    known = [_account(start=20.0, step=80.0, examples=100, timed=80, best=0.5)]
    assert _split([_launch(0, 100)], known) == pytest.approx(
        {"useful": 50, "start-up": 10, "slower steps": 40}
    )


def test_from_a_loss_to_the_next_step_is_recovery():
    known = [
        _account(began=5.0, start=5.0, step=20.0, examples=20, best=1.0, ended=False),
        _account(began=40.0, start=10.0, step=40.0, examples=40, best=1.0),
    ]
    assert _split([_launch(0, 100)], known) == {
        **{"useful": 60, "start-up": 10, "recovery": 20, "end": 10}
    }


def test_a_process_that_never_came_back_is_recovery():
    known = [_account(start=10.0, step=20.0, examples=20, best=1.0, ended=False)]
    lost = LaunchPeriod(0, 100, ("chief-0",), lost=True)
    assert _split([lost], known) == {"useful": 20, "start-up": 10, "recovery": 70}


def test_a_launch_that_failed_without_a_loss_has_an_end():
    known = [_account(start=10.0, step=20.0, examples=20, best=1.0, ended=False)]
    assert _split([_launch(0, 100)], known) == {"useful": 20, "start-up": 10, "end": 70}


def test_a_launch_without_steps_is_start_up():
    assert _split([_launch(0, 100, "chief-0", "worker-0")], []) == {"start-up": 200}


def test_a_worker_of_a_later_launch_alone_has_its_work_there():
    known = [
        _account(step=100.0, examples=100, best=1.0),
        _account(began=200.0, step=100.0, examples=100, best=1.0),
        _account("worker-0", 200.0, step=100.0, examples=100, best=1.0),
    ]
    launches = [_launch(0, 100), _launch(200, 300, "chief-0", "worker-0")]
    assert _split(launches, known) == {"useful": 300}


def test_time_between_two_launches_is_not_counted():
    known = [
        _account(start=10.0, step=90.0, examples=90, best=1.0, ended=False),
        _account(began=80000.0, start=20.0, step=70.0, end=10.0, examples=70, best=1.0),
    ]
    found = _split([_launch(0, 110), _launch(80000, 80100)], known, 130)
    assert found == pytest.approx({"useful": 130, "lost work": 30, "start-up": 30, "end": 20})


def test_the_best_pace_is_that_of_the_fastest_process():
    known = [
        _account(step=100.0, examples=100, best=1.0),
        _account("worker-0", step=100.0, examples=50, best=2.0),
    ]
    found = _split([_launch(0, 100, "chief-0", "worker-0")], known)
    assert found == {"useful": 150, "slower steps": 50}


def test_exchange_beyond_that_of_the_slowest_process_is_waiting():
    known = [
        _account(step=20.0, exchange=80.0, examples=100, best=0.2),
        _account("worker-0", step=90.0, exchange=10.0, examples=100, best=0.9),
    ]
    launches = [_launch(0, 100, "chief-0", "worker-0")]
    found = _split(launches, known, synchronous=True)
    assert found == pytest.approx(
        {"useful": 40, "exchange": 20, "waiting for others": 70, "slower steps": 70}
    )
    assert "waiting for others" not in _split(launches, known)


def test_what_is_late_of_the_own_input_is_not_waiting():
    """The one whose batches come first waits for the other, and meanwhile for its own next one."""
    launches = [_launch(0, 100, "chief-0", "worker-0")]

    def split(late):
        known = [
            _account(step=20.0, input=20.0, exchange=60.0, examples=100, late=late, best=0.2),
            _account("worker-0", step=20.0, input=75.0, exchange=5.0, examples=100),
        ]
        return _split(launches, known, synchronous=True)

    assert split(55) == pytest.approx({"useful": 40, "input": 150, "exchange": 10})
    assert split(15) == pytest.approx(
        {"useful": 40, "input": 110, "exchange": 10, "waiting for others": 40}
    )
    assert split(1000)["input"] == pytest.approx(155)


def test_a_process_that_is_stopped_is_waited_for_by_those_that_step_together():
    known = [
        _account(step=80.0, exchange=8.0, stalled=12.0, examples=100, best=0.8),
        _account("worker-0", step=80.0, exchange=8.0, stopped=12.0, examples=100),
    ]
    found = _split([_launch(0, 100, "chief-0", "worker-0")], known, synchronous=True)
    expected = {"useful": 160, "exchange": 16, "stopped": 12, "waiting for others": 12}
    assert found == pytest.approx(expected)


def test_a_step_that_stalls_waits_for_a_server_if_there_is_one():
    known = [_account(step=88.0, stalled=12.0, examples=100, best=0.8)]
    assert _split([_launch(0, 100)], known) == pytest.approx(
        {"useful": 80, "exchange": 12, "slower steps": 8}
    )
    assert _split([_launch(0, 100)], known, alone=True) == pytest.approx(
        {"useful": 80, "slower steps": 20}
    )


def test_a_save_is_one_of_all_that_step_together():
    known = [
        _account(step=50.0, saving=50.0, examples=100, best=0.5),
        _account("worker-0", step=90.0, exchange=10.0, examples=100),
    ]
    found = _split([_launch(0, 100, "chief-0", "worker-0")], known, synchronous=True)
    assert found == pytest.approx({"useful": 100, "saving": 100})


def test_a_step_stalls_while_others_save():
    """It was slower by other things."""
    known = [
        _account(step=50.0, exchange=40.0, saving=10.0, examples=100, best=0.5),
        _account("worker-0", step=60.0, exchange=30.0, stalled=10.0, examples=100),
    ]
    found = _split([_launch(0, 100, "chief-0", "worker-0")], known, synchronous=True)
    expected = {"useful": 100, "saving": 20, "exchange": 60, "slower steps": 10}
    assert found == pytest.approx(expected | {"waiting for others": 10})


def test_nobody_waits_in_a_step_for_a_save_before_the_first_one():
    known = [
        _account(**{"first save": 50.0, "step": 50.0, "examples": 100, "best": 0.5}),
        _account("worker-0", start=50.0, step=50.0, exchange=10.0, examples=100),
    ]
    found = _split([_launch(0, 110, "chief-0", "worker-0")], known, synchronous=True)
    expected = {"useful": 100, "start-up": 50, "saving": 50, "waiting for others": 10, "end": 10}
    assert found == pytest.approx(expected)


def test_no_pace_is_below_zero():
    """Earlier versions wrote accounts with such a pace after a stall."""
    known = [
        _account(step=100.0, examples=100, best=-0.5),
        _account("worker-0", step=100.0, examples=100, best=0.8),
    ]
    found = _split([_launch(0, 100, "chief-0", "worker-0")], known, synchronous=True)
    assert found == pytest.approx({"useful": 160, "slower steps": 40})


def test_of_no_time_nothing_has_a_share():
    assert all(p.share == 0 for p in goodput.split([], [], survived=0, synchronous=False))


_seconds = st.floats(0, 1e5)
_accounts = st.builds(
    lambda task, began, spent, examples, first, late, best, ended: _account(
        task,
        began,
        examples=examples,
        timed=examples // first,
        late=late,
        best=best,
        ended=ended,
        **spent,
    ),
    task=st.sampled_from(["chief-0", "worker-0", "worker-1"]),
    began=_seconds,
    spent=st.dictionaries(st.sampled_from(accounts.STATES), st.floats(-1e3, 1e5)),
    examples=st.integers(0, 10**6),
    first=st.integers(1, 3),
    late=st.floats(-1e3, 1e5),
    best=st.none() | st.floats(-1e3, 1e3),
    ended=st.booleans(),
)


@given(
    st.lists(st.tuples(_seconds, _seconds), max_size=4),
    st.lists(_accounts, max_size=8),
    st.floats(0, 1e9),
    st.booleans(),
)
def test_parts_add_up_to_wall_time_times_processes(spans, known, survived, synchronous):
    """Whatever clocks say: accounts may overlap, lie outside of a launch, or be of no time."""
    tasks = ("chief-0", "worker-0")
    launches = [LaunchPeriod(began, began + seconds, tasks) for began, seconds in sorted(spans)]
    parts = goodput.split(launches, known, survived=survived, synchronous=synchronous)
    assert sum(part.seconds for part in parts) == pytest.approx(
        2 * sum(one.ended - one.began for one in launches), abs=1e-3
    )
    assert all(part.seconds >= -1e-6 and -1e-6 <= part.share <= 1 + 1e-6 for part in parts)
