"""Processes that end by themselves when they hang, because nobody else watches them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import threading

import pytest

from pipeline import errors
from pipeline.cluster import topology
from pipeline.processes import exits
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.supervision import watchdog
from pipeline.supervision.ports import Reservation
from tests.pipeline.process_help import wait_until
from tests.trainer import user_code
from tests.trainer.commands import error_line
from trainer.lifecycle import leaving
from trainer.lifecycle.own_watchdog import OwnWatchdog
from trainer.monitoring.status_reporter import Reporter

TASK = "trainer.task"
CLUSTER = {"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",), "ps": ("127.0.0.1:3",)}
LIMITS = watchdog.HangLimits(step=120.0, start=900.0)


class Watched:
    """A process under its own watchdog, and the errors it was to end with."""

    def __init__(self, folder, role, limits):
        self.run, self.errors = RunFolder(str(folder)), []
        task = topology.Task(role, 0, CLUSTER)
        self.reporter = Reporter(self.run, task.name, 100)
        self.dog = OwnWatchdog(
            self.run,
            task,
            self.reporter,
            limits=limits,
            leave=lambda reporter, error: self.errors.append(error),
        )

    def steps(self, step):
        self.reporter.report("training", step=step, loss=0.5)

    def wait(self, seconds, each=lambda: None):
        """Lets time pass, in looks of 15 s; returns how much had passed when it was to end."""
        for now in range(15, seconds + 1, 15):
            each()
            self.dog.look(15.0)
            if self.errors:
                return now
        return None


@pytest.fixture
def watched(tmp_path):
    return lambda role, limits=LIMITS: Watched(tmp_path, role, limits)


def test_a_process_without_a_step_ends_with_75(watched):
    chief = watched("chief")
    chief.steps(7)
    assert chief.wait(300) == 135  # the first look is the one that sees the step
    (error,) = chief.errors
    assert isinstance(error, errors.RetryableError)
    assert str(error).startswith("no step for 120 s, which cluster.watchdog_seconds, watchdog_")


def test_a_peer_that_cannot_be_reached_is_named(watched):
    chief = watched("chief")
    chief.steps(7)
    chief.wait(300)
    (error,) = chief.errors
    said = "ps-0 cannot be reached at 127.0.0.1:3: Connection refused. Start it there, or give"
    assert said in str(error)


def test_before_its_first_step_it_has_longer(watched):
    chief = watched("chief")
    chief.reporter.report("starting")
    assert chief.wait(1200) == 915


def test_a_save_has_the_limit_of_a_start_but_waits_for_no_machine_to_appear(watched):
    chief = watched("chief", dataclasses.replace(LIMITS, others=3600.0))
    chief.reporter.report("starting")
    assert chief.wait(1800) is None
    chief.steps(7)
    chief.reporter.report_progress(run_folder.SAVING)
    assert chief.wait(1800) == 915
    assert str(chief.errors.pop()).startswith("no step for 900 s")


def test_steps_work_and_the_heartbeat_are_distinguished(watched):
    chief = watched("chief")
    count = iter(range(10**6))
    assert chief.wait(600, each=lambda: chief.steps(next(count))) is None
    assert (
        chief.wait(600, each=lambda: chief.reporter.report_progress("copying", next(count))) is None
    )
    assert chief.wait(1800, each=lambda: chief.reporter.note(seen=next(count))) == 120


def test_what_has_ended_is_left_alone(watched):
    chief = watched("chief")
    chief.reporter.report("done", exit_code=0)
    assert chief.wait(3000) is None


def test_the_time_in_which_it_was_suspended_does_not_count(watched):
    chief = watched("chief")
    chief.steps(7)
    chief.dog.look(15.0)
    chief.dog.look(7200.0)
    assert not chief.errors
    assert chief.wait(300) == 105


def test_a_worker_has_the_time_of_a_chief_that_saves(watched):
    worker = watched("worker")
    worker.steps(7)
    work = {"what": run_folder.SAVING, "done": 0, "total": None}
    chief = Status("chief-0", 1, "h", "training", 1.0, step=7, loss=0.5, work=work)
    run_folder.write_status(worker.run, chief)
    assert worker.wait(1200) == 915


def test_a_worker_alone_that_hangs_ends_and_one_whose_chief_hangs_waits(watched):
    worker = watched("worker")
    worker.steps(7)
    steps = iter(range(10**6))

    def chief_steps():
        status = Status("chief-0", 1, "h", "training", 1.0, step=next(steps), loss=0.5)
        run_folder.write_status(worker.run, status)

    assert worker.wait(600, each=chief_steps) == 195
    assert str(worker.errors.pop()).startswith("no sign of life for 180 s")
    # The chief ends by its own watchdog; this process says that it waits for it.
    worker.reporter.report_progress(run_folder.WAITING, 1, 100)
    assert worker.wait(150) is None


def test_a_look_that_fails_is_made_again(watched, monkeypatch, capsys):
    worker = watched("worker", watchdog.HangLimits(step=0.08, start=0.08))
    worker.steps(7)
    answers = iter([ValueError("of another version")])

    def read_status(run, task):
        for error in answers:
            raise error

    monkeypatch.setattr(run_folder, "read_status", read_status)
    worker.dog.start()
    wait_until(lambda: worker.errors)
    said = "worker-0: looking for a hang failed, trying again: of another version"
    assert said in capsys.readouterr().err
    worker.reporter.report("failed")


class Left(BaseException):
    """The process would have ended."""


@pytest.fixture
def left(monkeypatch):
    """Collects the exit codes with which this process would have ended."""
    codes = []

    def end(code):
        codes.append(code)
        raise Left

    monkeypatch.setattr(exits, "exit_at_once", end)
    monkeypatch.setattr(leaving, "_leaving", threading.Lock())
    return codes


def test_a_process_that_cannot_have_a_thread_leaves_without_a_word(watched, left, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(Left):
        leaving.leave(watched("chief").reporter, errors.RetryableError("hangs"))
    assert left == [75]


@pytest.fixture
def cluster(commands, task_flags, small_records):
    """Starts a chief and a parameter server by hand, with a name for their run and settings."""
    training = ("train.steps=1000000", "train.save_steps=20", "cluster.watchdog_seconds=3")
    with contextlib.ExitStack() as stack:

        def start(name, *settings):
            reserved = stack.enter_context(Reservation(2))
            spec = dict(zip(("chief", "ps"), ([at] for at in reserved.addresses), strict=True))
            mode = ("cluster.strategy=parameter_server", *training, *settings)
            flags = (*task_flags(name, *mode), f"--cluster_spec={json.dumps(spec)}")
            server = commands.start(TASK, *flags, "--job_name=ps")
            stack.callback(commands.signal, server, signal.SIGKILL)
            variables = {user_code.SERVER: str(commands.find_pid(server))}
            chief = commands.start(TASK, *flags, "--job_name=chief", variables=variables)
            stack.callback(commands.signal, chief, signal.SIGKILL)
            return RunFolder(str(small_records.storage / "runs" / name)), chief, server

        yield start


def find_silence(commands, run, chief):
    """Returns the seconds without a step that the error line of the chief names."""
    found = re.match(r"error: no step for (\d+) s, which", error_line(commands.end(chief, code=75)))
    status = run_folder.read_statuses(run)["chief-0"]
    assert (status.state, status.exit_code) == ("failed", 75)
    assert (run.read("run.json") or {})["status"] != "running"
    return int(found[1])


@pytest.mark.slow
def test_a_chief_whose_parameter_server_hangs_ends_with_75(commands, cluster):
    """By hand: the same commands continue the run. If it is stopped while the chief begins to save,
    the limit is that of the start."""
    run, chief, server = cluster("stalled", "cluster.watchdog_start_seconds=60")
    wait_until(lambda: run_folder.find_saved_step(run) or 0, seconds=120)
    commands.signal(server, signal.SIGSTOP)
    assert find_silence(commands, run, chief) >= 3


@pytest.mark.slow
def test_a_chief_whose_parameter_server_hangs_in_a_save_ends_with_75(commands, cluster):
    """However long a chief may wait for servers to appear before its first step."""
    run, chief, _ = cluster(
        "stalled-save",
        "train.hooks=[tests.trainer.user_code:StopServerHook]",
        "cluster.watchdog_start_seconds=20",
        "cluster.start_wait_seconds=100000",
    )
    assert find_silence(commands, run, chief) >= 20


def test_a_process_that_hangs_ends_by_itself(commands, tmp_path):
    name = commands.start("tests.trainer.waiting_role", str(tmp_path), "worker", "0.5", "1")
    line = error_line(commands.end(name, code=75))
    assert line.startswith("error: no step for 1 s, which cluster.watchdog_seconds, watchdog_")
    status = run_folder.read_statuses(RunFolder(str(tmp_path)))["worker-0"]
    assert (status.state, status.exit_code) == ("failed", 75)
    assert status.pid != os.getpid()
