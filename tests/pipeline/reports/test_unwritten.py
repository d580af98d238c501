"""What a lost process did after its last account."""

from __future__ import annotations

import pytest

from pipeline.reports import unwritten
from pipeline.runs.accounts import Account
from pipeline.runs.run_record import Restart

SECONDS = {"start": 10.0, "step": 6.0, "exchange": 2.0, "between": 2.0}


def _account(task="chief-0", began=100.0, state="between", **values):
    return Account(
        task=task,
        began=began,
        until=began + 20,
        seconds=SECONDS,
        **{"examples": 440, "timed": 400, "late": 1.0, "state": state, **values},
    )


def _loss(time, role="chief"):
    return Restart(role=role, index=0, cause="killed", time=time)


def _extend(*accounts, losses):
    return unwritten.extend(accounts, losses, longest=5.0)


def test_a_lost_process_has_made_steps_until_its_loss():
    [found] = _extend(_account(), losses=[_loss(121.0)])
    assert found.seconds == pytest.approx(
        {"start": 10.0, "step": 6.6, "exchange": 2.2, "between": 2.2}
    )
    assert (found.until, found.examples, found.timed) == (121.0, 480, 440)
    assert found.late == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("account", "loss"),
    [
        pytest.param(_account(), _loss(119.0), id="lost before"),
        pytest.param(_account(), _loss(126.0), id="silent for too long"),
        pytest.param(_account(), _loss(121.0, "worker"), id="another process"),
        pytest.param(_account(), _loss(None), id="of an earlier version"),
        pytest.param(_account(state="saving"), _loss(121.0), id="at something else"),
        pytest.param(_account(state=None), _loss(121.0), id="of an earlier version"),
        pytest.param(_account(ended=True), _loss(121.0), id="ended"),
    ],
)
def test_of_all_others_nothing_is_known(account, loss):
    assert _extend(account, losses=[loss]) == [account]


def test_a_loss_is_of_the_process_that_ran_then():
    first, second = _account(), _account(began=120.5)
    assert _extend(first, second, losses=[_loss(122.0)]) == [first, second]
