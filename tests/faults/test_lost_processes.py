"""Processes that are killed or stopped while they train: what continues, and what it costs."""

from __future__ import annotations

import json
import re
import socket

import pytest

from pipeline import errors
from pipeline.supervision.ports import Reservation
from tests.faults.conftest import BATCH, EVERY_CHECKPOINT, check_ledger
from tests.support.ending import find_last_steps
from tests.support.sets import matrix, slow

ASYNC = ("cluster.strategy=parameter_server", "train.save_steps=50")
ALL_REDUCE = ("cluster.strategy=multi_worker_mirrored", "train.save_steps=20")


def test_a_killed_worker_chief_and_server_come_back_and_the_others_stay(rig):
    """Each is started again alone, the chief and the server with the parameters of a checkpoint;
    then the step goes back for all (docs/tensorflow-pitfalls.md#lost-worker, #lost-chief,
    #lost-parameter-server)."""
    result = rig.train(
        *ASYNC,
        "train.steps=190",
        faults=(
            {"by": "worker-0", "at": 20, "do": "kill", "target": "worker-0"},
            {"by": "chief-0", "at": 40, "do": "await_return", "target": "worker-0"},
            {"by": "chief-0", "at": 70, "do": "kill", "target": "chief-0"},
            {"by": "chief-0", "at": 120, "do": "kill", "target": "ps-0"},
        ),
        pace=0.005,
    )
    assert result["final_step"] in find_last_steps(190, processes=2)
    assert rig.fired()["step"] >= 20
    assert {name: len(pids) for name, pids in rig.seen.pids.items()} == {
        **{"chief-0": 2, "ps-0": 2, "evaluator-0": 1, "worker-0": 2}
    }
    worker, chief, server = rig.restarts
    assert (worker.role, worker.index, worker.steps_lost) == ("worker", 0, 0)
    assert worker.cause.startswith("killed by SIGKILL")
    assert 0 < worker.seconds_to_next_step < 30
    assert (chief.role, chief.step >= 70, chief.steps_lost > 0) == ("chief", True, True)
    assert (server.role, server.step >= 120, server.steps_lost > 0) == ("ps", True, True)
    assert server.seconds_to_next_step is not None
    check_ledger(result["input"], twice=5 * BATCH)
    rig.check_files()


# In `make test`, tests/faults/test_kept_promises.py kills the same at four other moments.
@pytest.mark.slow
def test_a_killed_worker_of_an_all_reduce_takes_all_with_it(rig):
    """One alone cannot come back (docs/tensorflow-pitfalls.md#lost-worker-of-an-all-reduce)."""
    result = rig.train(
        *ALL_REDUCE,
        "train.steps=80",
        faults=({"by": "worker-0", "at": 50, "do": "kill", "target": "worker-0"},),
        pace=0.005,
    )
    assert result["final_step"] == 80
    assert len(rig.seen.pids["chief-0"]) == len(rig.seen.pids["worker-0"]) == 2
    assert len(rig.seen.pids["evaluator-0"]) == 1
    (restart,) = rig.restarts
    # The last save before step 50 was at 40.
    assert restart.steps_lost <= restart.step - 40
    check_ledger(result["input"])
    rig.check_files()


# In `make test`, tests/pipeline/supervision/test_supervisor.py stops processes without TensorFlow.
@pytest.mark.parametrize(
    ("mode", "stopper", "target", "twice"),
    [
        matrix("multi_worker_mirrored", "worker-0", "worker-0", 0),
        matrix("parameter_server_sync", "worker-0", "worker-0", 0),
        slow("parameter_server", "chief-0", "ps-0", 2 * BATCH),
    ],
)
def test_a_stopped_process_is_found_and_all_start_again(rig, mode, stopper, target, twice):
    """Nothing ends and nothing fails: only the watchdog can tell."""
    result = rig.train(
        f"cluster.strategy={mode}",
        "train.save_steps=20",
        "train.steps=120",
        # An evaluator that starts to compare its first export on busy processors may take half.
        "cluster.watchdog_seconds=20",
        faults=({"by": stopper, "at": 50, "do": "stop", "target": target},),
        pace=0.005,
    )
    assert result["final_step"] in find_last_steps(120, processes=2)
    # On busy processors a worker that waits for the stopped one may be lost before that is found.
    (hung,) = [restart for restart in rig.restarts if restart.role == target.partition("-")[0]]
    # Within a save it is the process itself that is missed, otherwise the steps.
    assert re.match(r"no (step|sign of life) for \d+ s", hung.cause)
    assert f"({target} stopped by a signal)" in hung.cause
    for name in ("chief-0", "worker-0"):
        assert len(rig.seen.pids[name]) >= 2
    assert rig.restarts[0].steps_lost <= rig.restarts[0].step - 40
    check_ledger(result["input"], twice)


# In `make test`, tests/pipeline/supervision/test_supervisor.py loses an evaluator at the end, has a
# taken port, and fails the same way twice, without TensorFlow.
@pytest.mark.slow
def test_an_evaluator_killed_in_the_last_evaluation_comes_back_for_it(rig):
    """See docs/tensorflow-pitfalls.md#final-checkpoint-not-evaluated."""
    model = "model.name=tests.faults.injected:killed_in_last_evaluation"
    result = rig.train(*ASYNC, model, "train.steps=60")
    assert rig.fired("last-evaluation")["pid"] in rig.seen.pids["evaluator-0"]
    assert [restart.role for restart in rig.restarts] == ["evaluator"]
    assert result["final_step"] >= 60
    assert result["metrics"]["test"]["global_step"] == result["final_step"]


@pytest.mark.slow
def test_the_evaluator_survives_checkpoints_deleted_under_it(rig):
    """Two are kept, and it begins to read one only when that has been deleted
    (docs/tensorflow-pitfalls.md#checkpoints-deleted-while-read)."""
    model = "model.name=tests.faults.injected:slow_evaluation"
    result = rig.train(
        *ASYNC,
        model,
        EVERY_CHECKPOINT,
        "train.steps=200",
        "train.save_steps=10",
        "train.keep_checkpoints=2",
        pace=0.01,
    )
    assert list(rig.path.glob("fired-slow-*"))
    assert rig.restarts == []
    assert result["metrics"]["test"]["global_step"] == result["final_step"] >= 200


@pytest.mark.slow
def test_an_occupied_port_gets_all_new_ones(rig):
    """Another program has the parameter server's (docs/tensorflow-pitfalls.md#taken-ports)."""
    given = []
    with socket.socket() as occupant:
        occupant.bind(("", 0))
        occupant.listen()

        def reserve(count):
            reservation = Reservation(count)
            given.append(list(reservation.ports))
            if len(given) == 1:
                reservation.ports[-1] = occupant.getsockname()[1]
            return reservation

        result = rig.train(*ASYNC, "train.steps=60", reserve=reserve)
    assert result["final_step"] >= 60
    assert len(given) == 2 and set(given[0]).isdisjoint(given[1])
    (restart,) = rig.restarts
    assert restart.role == "ps"
    assert json.loads(restart.model_dump_json())["cause"]


ALONE = ("cluster.strategy=none", "train.steps=40", "train.save_steps=20")


@pytest.mark.slow
def test_the_same_exception_twice_in_a_row_ends_the_run(rig):
    with pytest.raises(
        errors.ModelError,
        match=r"^chief-0: KeyError: 'a bug'; the same error twice in a row, without progress "
        r"beyond step 2\d: fix the cause, then run the same command to resume",
    ) as raised:
        rig.train(*ALONE, "train.hooks=[tests.faults.injected:Bug]")
    assert raised.value.exit_code == 70
    assert len(list(rig.path.glob("fired-of-*.json"))) == len(rig.seen.pids["chief-0"]) == 2


@pytest.mark.slow
def test_the_same_error_of_the_network_is_tried_again(rig):
    result = rig.train(*ALONE, "train.hooks=[tests.faults.injected:LostConnection]")
    assert result["final_step"] == 40
    assert [restart.cause for restart in rig.restarts] == [rig.restarts[0].cause] * 2
    assert "Connection reset by peer" in rig.restarts[0].cause
    assert rig.fired(0) and rig.fired(1)
