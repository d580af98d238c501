import dataclasses
import functools
import itertools
import json
import os
import re
import signal
import socket

import pytest

from pipeline import errors
from pipeline.cluster.gpus import share
from pipeline.processes import memory
from pipeline.runs import run_folder, run_record
from pipeline.supervision.ports import Reservation
from pipeline.supervision.watchdog import HangLimits
from tests.pipeline.supervision.stage import IMPATIENT, QUICK, SINGLE

pytestmark = pytest.mark.heavy


def test_a_cluster_runs_to_its_end_and_the_parameter_server_is_ended(stage):
    stage.run()
    assert {name: len(stage.attempts(name)) for name in stage.names()} == {
        "chief-0": 1,
        "worker-0": 1,
        "ps-0": 1,
        "evaluator-0": 1,
    }
    clusters = {name: json.loads(stage.attempts(name)[0][1]) for name in stage.names()}
    cluster = clusters.pop("chief-0")
    assert set(cluster) == {"chief", "worker", "ps"}
    assert all(other == cluster for other in clusters.values())
    assert stage.boss.restarts == []
    assert (stage.boss.pace.start_step, stage.boss.pace.newest_step) == (0, 20)
    assert stage.boss.pace.first_step_at <= stage.boss.pace.trained_at


def test_each_process_sees_its_own_gpus(stage):
    gpus = functools.partial(share, there=["4", "5", "6", "7", "8"], each=2)
    stage.run(gpus=gpus)
    seen = {}
    for name in stage.names():
        variables = json.loads((stage.path / f"environment-{name}.json").read_text())
        seen[name] = variables["CUDA_VISIBLE_DEVICES"]
    assert seen == {"chief-0": "4,5", "worker-0": "6,7", "evaluator-0": "8", "ps-0": ""}


def test_a_note_that_the_ports_are_open_is_printed_once(stage):
    stage.run()
    (note,) = [line for line in stage.notes.lines if line.startswith("note: ")]
    assert "let in anyone who reaches their ports" in note
    for addresses in stage.boss.cluster.values():
        assert addresses[0].rpartition(":")[2] in note


def test_a_single_process_gets_no_cluster_and_no_ports(stage):
    stage.run(SINGLE)
    assert [json.loads(c) for _, c in stage.attempts("chief-0")] == [{}]
    assert stage.notes.lines == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [(64, errors.UsageError), (65, errors.DataError), (70, errors.ModelError)],
)
def test_a_final_error_ends_everything_at_once_with_its_code(stage, code, kind):
    with pytest.raises(kind, match=r"^worker-0: it went wrong\. Log: .*worker-0\.log$"):
        stage.run(worker_0=[f"fail:{code}:it went wrong"], chief_0=["train"], ps_0=["hang"])
    assert len(stage.attempts("worker-0")) == 1
    # What a broken model would save could overwrite what is good.
    assert not (stage.path / "saved-chief-0.json").exists()


def test_a_killed_worker_alone_is_started_again(stage):
    stage.run(chief_0=["work_when_worker_is_back"], worker_0=["die", "work"])
    assert {name: len(stage.attempts(name)) for name in stage.names()} == {
        "chief-0": 1,
        "worker-0": 2,
        "ps-0": 1,
        "evaluator-0": 1,
    }
    first, second = (json.loads(cluster) for _, cluster in stage.attempts("worker-0"))
    assert first == second
    (restart,) = stage.boss.restarts
    assert (restart.role, restart.index, restart.step) == ("worker", 0, 5)
    assert restart.cause.startswith("killed by SIGKILL from outside (by a person, ")
    assert restart.steps_lost == 0
    assert 0 < restart.seconds_to_next_step < 10


def test_what_the_kernel_may_have_killed_is_said_to_have_lacked_memory(stage, monkeypatch):
    kills = itertools.count()
    monkeypatch.setattr(memory, "count_kills", lambda: next(kills))
    stage.run(worker_0=["die", "work"])
    assert stage.boss.restarts[0].cause.startswith("killed by SIGKILL (probably by the kernel ")


def test_restarts_are_recorded_with_those_of_earlier_launches(stage):
    earlier = run_record.Restart(role="ps", index=0, cause="killed", steps_lost=20)
    stage.options["restarts"] = known = [earlier]
    seen = []
    stage.notes.react = lambda statuses: seen.append(len(known))
    stage.run(worker_0=["die", "work"])
    assert [restart.role for restart in known] == ["ps", "worker"]
    assert (seen[0], earlier.steps_lost) == (1, 20)


@pytest.mark.parametrize("role", ["chief", "ps", "evaluator"])
def test_other_roles_too_are_started_again_in_place(stage, role):
    stage.run(**{f"{role}_0": ["die", "work"]}, **({} if role == "chief" else LATE_CHIEF))
    counts = {name: len(stage.attempts(name)) for name in stage.names()}
    assert counts.pop(f"{role}-0") == 2
    assert set(counts.values()) == {1}
    first, second = (cluster for _, cluster in stage.attempts(f"{role}-0"))
    assert first == second, "a restarted process keeps its address"


LATE_CHIEF = {"chief_0": ["work_late"]}


def test_synchronous_strategies_start_all_that_train_again_on_new_ports(stage):
    stage.run(unit="gang", chief_0=["train", "work"], worker_0=["die_among_all", "work"])
    assert {name: len(stage.attempts(name)) for name in stage.names()} == {
        "chief-0": 2,
        "worker-0": 2,
        "ps-0": 2,
        "evaluator-0": 1,
    }
    first, second = (json.loads(cluster) for _, cluster in stage.attempts("chief-0"))
    assert {*first["chief"], *first["ps"]}.isdisjoint({*second["chief"], *second["ps"]})


def test_a_save_without_the_process_that_was_lost_is_not_waited_for(stage):
    """It may never end: of a chief that saved when its parameter server was killed, say."""

    def react(statuses):
        looks.extend([1] if any("again" in line for line in stage.notes.lines) else [])
        if len(looks) > 9:
            (stage.path / "go").touch()

    looks: list[int] = []
    stage.notes.react = react
    stage.run(unit="gang", chief_0=["save_slowly", "work"], ps_0=["die_among_all", "work"])
    assert not (stage.path / "checkpoint").exists()


def test_restarts_are_bounded(stage):
    with pytest.raises(errors.RetryableError, match=r"^worker-0: killed by SIGKILL.*Run the same"):
        stage.run(worker_0=["die"], chief_0=["train"])
    assert len(stage.attempts("worker-0")) == 1 + 3
    assert (stage.path / "saved-chief-0.json").exists(), "the chief could save before the end"


def test_a_bug_is_tried_once_more_and_shown_with_its_traceback(stage):
    twice = r"^worker-0: KeyError: 'a bug'; the same error twice in a row, before its first step: "
    with pytest.raises(errors.ModelError, match=twice):
        stage.run(worker_0=["crash"], chief_0=["train"])
    assert (stage.path / "saved-chief-0.json").exists(), "the chief could save before the end"
    assert len(stage.attempts("worker-0")) == 2
    assert "worker-0 | KeyError: 'a bug'" in stage.notes.lines


def test_a_chief_that_fails_the_same_way_at_the_same_step_ends_the_run(stage):
    twice = r"^chief-0: KeyError: 'a bug'; the same error twice in a row, without progress beyond "
    twice += "step 17: fix the cause"
    with pytest.raises(errors.ModelError, match=twice):
        stage.run(chief_0=["crash_at:17"])
    assert len(stage.attempts("chief-0")) == 2


def test_a_taken_port_gets_the_whole_cluster_new_ports(stage):
    reservations = []
    with socket.socket() as occupant:
        occupant.bind(("", 0))
        taken = occupant.getsockname()[1]

        def reserve(count):
            reservation = Reservation(count)
            if not reservations:
                reservation.ports[-1] = taken  # that of the parameter server
            reservations.append(list(reservation.ports))
            return reservation

        stage.options = {"reserve": reserve}
        stage.run(chief_0=["train", "bind"], worker_0=["train", "bind"], ps_0=["bind"])
    assert len(reservations) == 2
    assert set(reservations[0]).isdisjoint(reservations[1])
    assert stage.boss.restarts[0].cause.startswith("RuntimeError: Could not start gRPC server")


def test_training_that_hangs_is_started_again_as_a_whole(stage):
    """In asynchronous strategies too: a stopped parameter server stops everyone."""
    stage.run(
        chief_0=["freeze", "work"],
        worker_0=["hang", "work"],
        ps_0=["freeze_at_once", "work"],
        patience=IMPATIENT,
    )
    assert {name: len(stage.attempts(name)) for name in stage.names()} == {
        "chief-0": 2,
        "worker-0": 2,
        "ps-0": 2,
        "evaluator-0": 1,
    }
    (restart,) = stage.boss.restarts
    assert re.fullmatch(r"no step for 1 s \(chief-0, ps-0 stopped by a signal\)", restart.cause), (
        restart.cause
    )


def test_a_hanging_worker_alone_is_started_again_alone(stage):
    stage.run(chief_0=["step_on"], worker_0=["freeze", "work"], patience=IMPATIENT)
    assert len(stage.attempts("worker-0")) == 2
    assert len(stage.attempts("chief-0")) == 1
    (restart,) = stage.boss.restarts
    assert restart.role == "worker"
    assert re.fullmatch(
        r"no sign of life for 2 s \(worker-0 stopped by a signal\)", restart.cause
    ), restart.cause


def test_training_that_never_makes_a_first_step_is_started_again(stage):
    stage.run(SINGLE, chief_0=["freeze_at_once", "work"], patience=HangLimits(step=1.0, start=8.0))
    # On a busy machine it takes seconds until the first one freezes; the next may be late, too.
    restart, *_ = stage.boss.restarts
    assert restart.cause.startswith("no first step for 8 s (chief-0 stopped")


def test_an_evaluator_that_hangs_is_started_again(stage):
    stage.run(evaluator_0=["freeze_at_once", "work"], patience=HangLimits(step=5.0, start=2.0))
    # On a busy machine others may be late, too.
    restart, *_ = [found for found in stage.boss.restarts if found.role == "evaluator"]
    told = r"no sign of life for \d s \(evaluator-0 stopped by a signal\)"
    assert re.fullmatch(told, restart.cause), restart.cause


@pytest.mark.parametrize(
    ("plays", "text"),
    [
        ({"chief_0": ["silent"]}, r"^chief-0: ended without writing TRAINING_DONE\.json"),
        ({"evaluator_0": ["silent"]}, r"^evaluator-0: ended without writing RESULT\.json"),
        ({"chief_0": ["work:12"]}, r"^training ended at step 12 of 20"),
    ],
)
def test_ending_well_is_not_enough_without_what_it_should_leave(stage, plays, text):
    with pytest.raises(errors.PipelineError, match=text):
        stage.run(**plays)


def test_the_chief_may_find_that_epochs_are_fewer_steps(stage):
    """As where damaged blocks are left out."""
    stage.run(chief_0=["find_fewer_steps:12"])
    assert stage.boss.reason == "steps"


def test_training_may_end_before_its_last_step_for_a_reason(stage):
    stage.run(chief_0=["end_early:early stopping"])
    assert stage.boss.reason == "early stopping"


@pytest.mark.parametrize(
    "plays",
    [
        {"ps_0": ["leave_after_training"]},
        {"chief_0": ["die_after_its_work"]},
    ],
)
def test_a_process_that_ends_after_training_is_not_missed(stage, plays):
    stage.run(**plays)
    assert stage.boss.restarts == []


def test_an_evaluator_lost_while_servers_are_ended_is_started_again(stage):
    stage.run(
        graces=dataclasses.replace(QUICK, ps=30.0),
        chief_0=["work_when_all_are_there"],
        ps_0=["end_after_the_evaluator"],
        evaluator_0=["die_while_servers_end", "work"],
    )
    assert [restart.role for restart in stage.boss.restarts] == ["evaluator"]


def test_workers_that_hang_after_the_end_of_training_are_ended(stage):
    stage.run(worker_0=["hang"])
    assert "worker-0: still there after the end of training; ending it" in stage.notes.lines


def test_a_worker_lost_after_the_end_of_training_is_not_missed(stage):
    stage.run(worker_0=["die_after_training"])
    assert len(stage.attempts("worker-0")) == 1


def kill_server(stage, when, *, times=1):
    """Has the fork server killed when something is seen in the statuses."""
    killed = []

    def react(statuses):
        if when(statuses) and stage.server.pid not in killed and len(killed) < times:
            killed.append(stage.server.pid)
            os.kill(stage.server.pid, signal.SIGKILL)

    stage.notes.react = react
    return killed


@pytest.mark.parametrize("unit", ["task", "gang"])
def test_a_lost_fork_server_is_started_again_with_all_processes(stage, unit):
    kill_server(
        stage, lambda statuses: {"chief-0", "worker-0"} <= {*statuses} and len(stage.names()) == 4
    )
    stage.run(unit=unit, chief_0=["train", "work"], worker_0=["train", "work"])
    assert {name: len(stage.attempts(name)) for name in stage.names()} == {
        **dict.fromkeys(("chief-0", "worker-0", "ps-0", "evaluator-0"), 2)
    }
    (restart,) = stage.boss.restarts
    assert (restart.role, restart.step) == ("fork-server", 7)
    assert restart.cause == (
        "the fork server, which starts all processes, was lost: killed by SIGKILL"
    )
    assert restart.seconds_to_next_step > 0


def test_after_training_only_the_evaluator_is_started_again_with_the_fork_server(stage):
    kill_server(stage, lambda statuses: stage.run_folder.read(run_folder.TRAINING_DONE))
    stage.run(evaluator_0=["hang", "work"])
    assert {name: len(stage.attempts(name)) for name in ("chief-0", "evaluator-0")} == {
        "chief-0": 1,
        "evaluator-0": 2,
    }


def test_a_fork_server_that_is_lost_without_progress_ends_the_run(stage):
    killed = kill_server(stage, lambda statuses: "chief-0" in statuses, times=99)
    with pytest.raises(
        errors.RetryableError, match="fork server, which starts all processes, is lost"
    ):
        stage.run(chief_0=["train"], worker_0=["train"])
    assert len(killed) == 1 + 3


def test_what_earlier_processes_said_is_no_news(stage):
    old = run_folder.Status("chief-0", 1, "h", "training", 1.0, step=999, loss=1.0)
    run_folder.write_status(stage.run_folder, old)
    stage.run(SINGLE)
    assert stage.boss.pace.newest_step == 20
