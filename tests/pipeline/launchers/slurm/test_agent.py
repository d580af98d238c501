"""One task of a step, with stand-ins for the process that trains."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import time

import pytest

from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.launchers.slurm import agent
from pipeline.processes.fork_client import StopRequest
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from tests.slurm import real

ASYNCHRONOUS, GANG = "parameter_server", "multi_worker_mirrored"


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Returns a function that runs one task; `program` is Python, which counts its starts."""
    run = RunFolder(str(tmp_path / "run"))
    os.makedirs(run.path)
    for name, value in (("NODEID", "0"), ("STEP_TASKS_PER_NODE", "4"), ("JOB_ID", "7")):
        monkeypatch.setenv(f"SLURM_{name}", value)

    def work(
        program: str, *, strategy=ASYNCHRONOUS, role="worker", stopped_by=None, gpus=0, **options
    ):
        settings = [f"cluster.strategy={strategy}", "cluster.ps=null", f"slurm.gpus={gpus}"]
        job = config_file.load("mnist", settings)
        with open(run.config_path, "w") as file:
            file.write(config_file.dump(job))
        count = tmp_path / "starts"
        text = (
            f"import os, pathlib, signal, sys, time\npath = pathlib.Path({str(count)!r})\n"
            "starts = len(path.read_text()) if path.exists() else 0\n"
            f"path.write_text('x' * (starts + 1))\nrun = {run.path!r}\n{program}"
        )
        cluster = {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)}
        with StopRequest().install() as stop:
            made = agent.Agent(
                run,
                str(tmp_path),
                topology.Task(role, 0, cluster),
                stop=stop,
                command=[sys.executable, "-c", text],
                **options,
            )
            if stopped_by is not None:
                stopped_by(count)
            return made.work(), len(count.read_text())

    work.run = run
    return work


def test_a_process_that_does_its_part(task):
    assert task("sys.exit(0)") == (0, 1)
    assert task.run.read(agent.LOST) is None


def test_a_killed_process_is_started_again(task):
    code, starts = task("if not starts: os.kill(os.getpid(), signal.SIGKILL)")
    assert (code, starts) == (0, 2)
    [restart] = task.run.read(f"{agent.RESTARTS}/worker-0.json")["restarts"]
    assert restart["cause"].startswith("killed by SIGKILL")


@pytest.mark.parametrize("role", ["worker", "chief"])
def test_a_gang_is_ended_by_the_loss_of_one(task, role):
    began = time.time()
    assert task("sys.exit(75)", strategy=GANG, role=role) == (75, 1)
    lost = task.run.read(agent.LOST)
    assert lost["task"] == f"{role}-0" and not lost["final"] and lost["step"] == "7.0.0"
    assert began <= lost["time"] <= time.time()


def test_the_exception_that_ended_a_gang_is_known_as_one(task):
    """The job compares it with that of the next step, and ends if it is the same."""
    assert task("raise ValueError('bug')", strategy=GANG) == (75, 1)
    lost = task.run.read(agent.LOST)
    assert (lost["code"], lost["cause"], lost["final"]) == (1, "ValueError: bug", False)


def test_the_evaluator_of_a_gang_is_started_again_alone(task):
    program = "sys.exit(0 if starts else 75)"
    assert task(program, strategy=GANG, role="evaluator") == (0, 2)


@pytest.mark.parametrize("code", [64, 65, 70])
def test_what_fails_for_good_is_not_tried_again(task, code):
    program = f"print('error: it is broken'); sys.exit({code})"
    assert task(program) == (code, 1)
    lost = task.run.read(agent.LOST)
    assert lost["final"] and lost["cause"] == "it is broken"


def test_restarts_without_progress_end(task):
    """A Python error before any step is tried once more only."""
    assert task("raise ValueError('bug')") == (70, 2)
    cause = task.run.read(agent.LOST)["cause"]
    assert cause.startswith("ValueError: bug; the same error twice in a row, before its first step")
    assert task("sys.exit(1)") == (1, 4)


def test_a_taken_port_ends_the_step_for_others(task):
    """A new step has other ports."""
    code, starts = task("print('error: Could not start gRPC server'); sys.exit(1)")
    assert (code, starts) == (75, 1)
    assert not task.run.read(agent.LOST)["final"]


def test_a_parameter_server_that_ends_too_early_is_started_again(task):
    program = f"""
if starts:
    open(run + '/{run_folder.TRAINING_DONE}', 'w').write('{{}}')
"""
    assert task(program, role="ps") == (0, 2)


def test_a_request_to_stop_reaches_the_process(task):
    """The task then ends well, so that Slurm does not kill those that still save."""

    def stop_when_started(count):
        def wait():
            real.wait_for(count.exists, lambda: "never started")
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=wait, daemon=True).start()

    assert task("time.sleep(600)", stopped_by=stop_when_started) == (0, 1)
    assert task.run.read(agent.LOST) is None


def test_a_task_of_an_earlier_start_ends(task, monkeypatch):
    """Its node was lost to Slurm, but not to the run folder."""

    def start_again(count):
        def wait():
            real.wait_for(count.exists, lambda: "never started")
            task.run.write(agent.CURRENT, {"start": "7.1"})

        threading.Thread(target=wait, daemon=True).start()

    assert task("time.sleep(600)", stopped_by=start_again, look_seconds=0) == (0, 1)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert task("sys.exit(0)") == (0, 2)


@pytest.mark.parametrize("strategy", [ASYNCHRONOUS, GANG])
def test_a_task_of_a_step_that_another_has_ended_ends(task, strategy):
    """Slurm may not have learned of it, and would leave this one waiting."""

    def lose_another(count):
        def wait():
            real.wait_for(count.exists, lambda: "never started")
            lost = agent.Lost("7.0.0", "chief-0", -9, "killed", worked=True, final=False, time=1.0)
            task.run.write(agent.LOST, dataclasses.asdict(lost))

        threading.Thread(target=wait, daemon=True).start()

    options = {"strategy": strategy, "stopped_by": lose_another, "look_seconds": 0}
    assert task("time.sleep(600)", **options) == (0, 1)
    assert task.run.read(agent.LOST)["task"] == "chief-0"


def test_steps_have_names_of_their_own():
    first = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1"}
    assert agent.step_of(first) == "7.0.1"
    assert agent.step_of({**first, "SLURM_RESTART_COUNT": "2"}) == "7.2.1"


def test_the_output_of_libraries_is_kept(task):
    task("print('said', flush=True); os.write(2, b'by a library')")
    path = f"{task.run.path}/logs/slurm/worker-0.out"
    with open(path) as file:
        assert file.read() == "said\nby a library"


@pytest.mark.parametrize(("role", "promised"), [("worker", "2"), ("ps", "none")])
def test_a_process_knows_the_gpus_it_was_promised(task, role, promised):
    """A parameter server does not use them."""
    program = f"sys.exit(0 if os.environ.get('PIPELINE_GPUS', 'none') == {promised!r} else 64)"
    task.run.write(run_folder.TRAINING_DONE, {})
    assert task(program, role=role, gpus=2) == (0, 1)


def test_a_worker_that_is_not_wanted_leaves_and_may_come_back(task):
    """The run is asked for no worker, and then for one again; others of the step go on."""
    record = run_record.RunRecord(
        status="running", reason="", config="c", strategy=ASYNCHRONOUS, launcher=None,
        topology={"chief": 1, "worker": 1},
    )  # fmt: skip

    def want(workers):
        record.topology["worker"] = workers
        run_record.write(task.run, record)

    def scale(count):
        def wait():
            real.wait_for(count.exists, lambda: "never started")
            want(0)
            real.wait_for((count.parent / "left").exists, lambda: "never left")
            want(1)

        threading.Thread(target=wait, daemon=True).start()

    program = """
if starts:
    sys.exit(0)
def leave(*_):
    (path.parent / 'left').write_text('x')
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
time.sleep(600)
"""
    assert task(program, stopped_by=scale, look_seconds=0.1) == (0, 2)
    assert task.run.read(f"{agent.RESTARTS}/worker-0.json") is None
    assert task.run.read(agent.LOST) is None
