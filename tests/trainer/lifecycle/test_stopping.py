"""How processes that wait for others end: roles started by hand, as on hosts of their own."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import types

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision.ports import Reservation
from tests.pipeline.process_help import wait_until
from tests.trainer.commands import error_line, stopped_line
from trainer.lifecycle import stopping

TASK = "trainer.task"
MODULE = "tests.trainer.user_code"
WAITING = "tests.trainer.waiting_role"


@contextlib.contextmanager
def by_hand(commands, task_flags, run, roles, *overrides):
    """Starts roles on parameter servers; yields what each is called among the commands."""
    with Reservation(2) as reserved:
        spec = dict(zip(("chief", "ps"), ([at] for at in reserved.addresses), strict=True))
        flags = task_flags(run, "cluster.strategy=parameter_server", *overrides)
        cluster = f"--cluster_spec={json.dumps(spec)}"
        names = {
            role: commands.start(TASK, *flags, cluster, f"--job_name={role}") for role in roles
        }
        try:
            yield names
        finally:
            for name in names.values():
                commands.signal(name, signal.SIGKILL)


def insisted(commands, name):
    """Presses Ctrl-C; tells whether that has ended the command."""
    commands.signal(name, signal.SIGINT)
    return commands.has_ended(name)


class Stepping:
    """A `StopHook` and the time it sees."""

    def __init__(self, folder, *, is_chief=True, cluster=types.MappingProxyType({}), **options):
        self.now = 1000.0
        options = {"max_seconds": None, **options}
        task = topology.Task("chief" if is_chief else "worker", 0, cluster)
        self.hook = stopping.StopHook(
            RunFolder(str(folder)), task, clock=lambda: self.now, **options
        )

    def stops_at(self, now):
        """Makes a step that ends then."""
        self.now = now
        context = tf.compat.v1.train.SessionRunContext(None, None)
        self.hook.after_run(context, None)
        assert context.stop_requested == (self.hook.reason is not None)
        return context.stop_requested


def test_a_process_of_many_looks_for_the_end_less_often(tmp_path):
    cluster = {"chief": ("h:1",), "worker": ("h:2",) * 118}  # 120 with the evaluator
    stepping = Stepping(tmp_path, is_chief=False, cluster=cluster)
    RunFolder(str(tmp_path)).write(run_folder.TRAINING_DONE, {"reason": "steps"})
    assert not stepping.stops_at(1002.9)
    assert stepping.stops_at(1003.0)


def test_a_deadline_begins_with_the_first_session(tmp_path):
    stepping = Stepping(tmp_path, is_chief=True, max_seconds=90)
    stepping.now = 5000.0  # until now it has waited for others
    stepping.hook.after_create_session(None, None)
    assert not stepping.stops_at(5089.0)
    stepping.hook.after_create_session(None, None)  # the parameter server was lost
    assert not stepping.stops_at(5089.9)
    assert stepping.stops_at(5090.0)
    assert stepping.hook.reason == "deadline: train.max_seconds=90"
    assert stepping.hook.is_final


@pytest.mark.parametrize(
    ("marker", "is_final"),
    [({"reason": "stop requested"}, False), ({"reason": "enough", "final": True}, True)],
)
def test_a_request_to_stop_says_if_it_is_final(tmp_path, marker, is_final):
    RunFolder(str(tmp_path)).write(run_folder.STOP, marker)
    stepping = Stepping(tmp_path, is_chief=True)
    assert stepping.stops_at(1060.0)
    assert (stepping.hook.reason, stepping.hook.is_final) == (marker["reason"], is_final)


def test_a_deadline_counts_the_seconds_of_earlier_chiefs(tmp_path):
    """Killed, without a word; only the seconds since they were written last are lost."""
    first = Stepping(tmp_path, is_chief=True, max_seconds=90)
    first.hook.after_create_session(None, None)
    assert not any(first.stops_at(1000.0 + second) for second in range(65))
    second = Stepping(tmp_path, is_chief=True, max_seconds=90)
    second.hook.after_create_session(None, None)
    assert not second.stops_at(1025.0)
    assert second.stops_at(1030.0)  # 60 and 30
    second.hook.end(None)
    # The same command again has nothing left; one that is given more time has the difference.
    third = Stepping(tmp_path, is_chief=True, max_seconds=90)
    third.hook.after_create_session(None, None)
    assert third.stops_at(1000.1)
    fourth = Stepping(tmp_path, is_chief=True, max_seconds=100)
    fourth.hook.after_create_session(None, None)
    assert not fourth.stops_at(1009.9)
    assert fourth.stops_at(1010.0)


@pytest.mark.parametrize(("is_chief", "max_seconds"), [(True, None), (False, 90)])
def test_only_a_chief_that_was_given_one_has_a_deadline(tmp_path, is_chief, max_seconds):
    stepping = Stepping(tmp_path, is_chief=is_chief, max_seconds=max_seconds)
    stepping.hook.after_create_session(None, None)
    assert not stepping.stops_at(10.0**9)


def test_a_failed_look_for_a_stop_request_does_not_end_training(tmp_path):
    stepping = Stepping(tmp_path, patience=60)
    (tmp_path / "STOP.json").mkdir()
    assert not any(stepping.stops_at(now) for now in (1010.0, 1040.0, 1069.0))
    (tmp_path / "STOP.json").rmdir()
    assert not stepping.stops_at(1080.0)
    (tmp_path / "STOP.json").mkdir()
    assert not any(stepping.stops_at(now) for now in (1090.0, 1149.0))
    (tmp_path / "STOP.json").rmdir()
    (tmp_path / "STOP.json").write_text('{"reason": "make stop"}')
    assert stepping.stops_at(1160.0)
    assert (stepping.hook.reason, stepping.hook.failure) == ("make stop", None)


def test_looks_that_fail_for_long_save_and_end_training(tmp_path):
    stepping = Stepping(tmp_path, patience=60)
    (tmp_path / "STOP.json").mkdir()
    assert not stepping.stops_at(1010.0)
    assert stepping.stops_at(1071.0)
    assert "could not be read or written for 61 s (cannot read" in str(stepping.hook.failure)
    assert stepping.hook.failure.exit_code == 75


@pytest.mark.slow
def test_a_status_that_cannot_be_written_for_long_saves_and_ends_training(
    commands, task_flags, small_records
):
    run = RunFolder(str(small_records.storage / "runs" / "mute"))
    # After the first step nothing but the end saves.
    steps = ("train.steps=1000000", "train.save_steps=1000000")
    name = commands.start(TASK, *task_flags("mute", *steps, "cluster.watchdog_seconds=2"))
    status = pathlib.Path(run.path) / "status"
    wait_until(lambda: (run.read("status/chief-0.json") or {}).get("loss"), seconds=100)
    shutil.move(status, status.with_name("status-before"))
    status.write_text("in the way")
    output = commands.end(name, code=75)
    assert "so training saved a checkpoint and ended. Run the same command" in error_line(output)
    lines = [one for one in output.splitlines() if "trying again" in one]
    assert len(lines) == 1, lines
    assert (run_folder.find_saved_step(run) or 0) > 1


@pytest.fixture
def waiting(commands, tmp_path):
    """Starts a role that waits for others; returns its name, with its run folder."""

    def started(role: str) -> tuple[str, RunFolder]:
        run = RunFolder(str(tmp_path))
        name = commands.start(WAITING, run.path, role)
        wait_until(lambda: run_folder.read_status(run, f"{role}-0"), seconds=60)
        return name, run

    return started


@pytest.mark.parametrize("role", ["worker", "ps"])
def test_a_failed_look_at_the_run_folder_does_not_end_the_watch(commands, waiting, role, tmp_path):
    name, run = waiting(role)
    marker = tmp_path / run_folder.TRAINING_DONE
    marker.mkdir()
    line = f"{role}-0: looking at the run folder failed, trying again: cannot read"
    wait_until(lambda: line in commands.output(name), seconds=30)
    run.remove(f"status/{role}-0.json")  # nothing trains
    marker.rmdir()
    marker.write_text('{"final_step": 1, "reason": "steps"}')
    commands.end(name, code=0)


@pytest.mark.parametrize("role", ["worker", "ps", "evaluator"])
@pytest.mark.parametrize("does_not_answer", [False, True])
def test_signals_are_obeyed_while_the_run_folder_fails(
    commands, waiting, role, does_not_answer, tmp_path
):
    """As one on NFS whose server is away: then each read of it waits for ever."""
    for marker in (run_folder.TRAINING_DONE, "status/chief-0.json"):
        (tmp_path / "status").mkdir(exist_ok=True)
        os.mkfifo(tmp_path / marker) if does_not_answer else (tmp_path / marker).mkdir()
    name, _ = waiting(role)
    commands.signal(name, signal.SIGTERM)
    if role != "evaluator":  # which has nothing to wait for
        # Of two signals that come at the same time, the kernel delivers this one first.
        wait_until(lambda: insisted(commands, name), seconds=60)
    assert stopped_line(commands.end(name, code=75))


@pytest.mark.parametrize("role", ["ps", "evaluator"])
def test_a_role_that_waits_ends_with_the_error_of_the_chief(commands, waiting, role):
    name, run = waiting(role)
    run_folder.write_status(
        run, Status("chief-0", 7, "h", "failed", 1.5, error="the loss is nan", exit_code=70)
    )
    line = error_line(commands.end(name, code=70))
    assert line == "error: the chief failed: the loss is nan"


@pytest.mark.slow
def test_no_process_waits_for_a_chief_that_has_failed_for_good(commands, task_flags):
    model = (f"model.name={MODULE}:nan_model_fn", "eval.metric=hit_rate", "train.steps=40")
    with by_hand(commands, task_flags, "failed", ("ps", "evaluator", "chief"), *model) as names:
        outputs = {role: commands.end(name, code=70) for role, name in names.items()}
    for role in ("ps", "evaluator"):
        assert error_line(outputs[role]).startswith("error: the chief failed: the loss is nan at ")


def test_a_role_without_anything_to_save_reports_that_it_was_stopped(
    commands, task_flags, small_records
):
    """And a chief that waits for one that is gone ends when Ctrl-C comes again."""
    run = RunFolder(str(small_records.storage / "runs" / "told"))
    roles = ("chief", "ps", "evaluator")
    with by_hand(commands, task_flags, "told", roles, "train.steps=1000000") as names:
        wait_until(lambda: (run.read("status/chief-0.json") or {}).get("loss"), seconds=100)
        for role in ("evaluator", "ps"):
            commands.signal(names[role], signal.SIGTERM)
            if role == "ps":  # else it waits for the chief, which may have to save
                commands.signal(names[role], signal.SIGINT)
            line = stopped_line(commands.end(names[role], code=75))
            assert line == "stopped. Run the same command to resume."
            assert run_folder.read_statuses(run)[f"{role}-0"].state == "stopped"
        wait_until(lambda: insisted(commands, names["chief"]), seconds=60)
        assert stopped_line(commands.end(names["chief"], code=75))


def test_a_chief_can_save_when_all_are_stopped_at_once(commands, task_flags, small_records):
    """As by a machine that shuts down. Without its parameter servers it could not."""
    run = RunFolder(str(small_records.storage / "runs" / "at-once"))
    with by_hand(commands, task_flags, "at-once", ("chief", "ps"), "train.steps=1000000") as names:
        wait_until(lambda: (run.read("status/chief-0.json") or {}).get("loss"), seconds=100)
        for role in ("ps", "chief"):
            commands.signal(names[role], signal.SIGTERM)
        lines = {role: stopped_line(commands.end(names[role], code=75)) for role in ("chief", "ps")}
    saved = run_folder.find_saved_step(run)
    assert saved
    assert lines["chief"].startswith(f"stopped, saved at step {saved}.")
    assert lines["ps"] == "stopped. Run the same command to resume."


@pytest.fixture
def waiting_chief(commands, tmp_path):
    """Starts a chief that waits for others and asks it to stop; returns what it is called."""

    def started(*loss: str) -> str:
        run = RunFolder(str(tmp_path))
        name = commands.start(WAITING, run.path, "chief", *loss)
        wait_until(lambda: run_folder.read_statuses(run), seconds=60)
        commands.signal(name, signal.SIGTERM)
        return name

    return started


def test_a_chief_that_has_made_no_step_need_not_wait_for_others(commands, waiting_chief, tmp_path):
    output = commands.end(waiting_chief(), code=75)
    stopped = "stopped while waiting for another process. Run the same command to resume."
    assert stopped_line(output) == stopped
    status = run_folder.read_statuses(RunFolder(str(tmp_path)))["chief-0"]
    assert (status.state, status.error, status.exit_code) == ("stopped", stopped, 75)


def test_a_chief_that_has_made_a_step_waits_to_save_it(commands, waiting_chief):
    name = waiting_chief("0.5")
    assert not commands.has_ended(name)
    commands.signal(name, signal.SIGINT)
    line = stopped_line(commands.end(name, code=75))
    assert line == "stopped at once. Run the same command to resume."


@pytest.mark.parametrize(
    ("code", "kind"), [(70, errors.ModelError), (64, errors.UsageError), (75, None), (1, None)]
)
def test_a_chief_that_may_come_back_is_waited_for(tmp_path, code, kind):
    run = RunFolder(str(tmp_path))
    assert stopping.read_chief_failure(run) is None
    run_folder.write_status(
        run, Status("chief-0", 7, "h", "failed", 1.5, error="so", exit_code=code)
    )
    found = stopping.read_chief_failure(run)
    assert (found and type(found)) == kind
    assert found is None or str(found) == "the chief failed: so"
