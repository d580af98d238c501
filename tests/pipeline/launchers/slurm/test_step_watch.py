"""Steps whose processes are gone or hang, with stand-ins for Slurm's programs and processes."""

from __future__ import annotations

import types

import pytest

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.launchers.slurm import agent, commands
from pipeline.launchers.slurm.step_watch import StepWatch
from pipeline.runs import fatal, run_folder
from pipeline.runs.run_folder import Status

GANG, ASYNCHRONOUS = "parameter_server_sync", "parameter_server"
ENDED_SRUN = ["TERM", "KILL"]


@pytest.fixture
def step(tmp_path, monkeypatch):
    """Returns a function that makes a step whose srun never ends; its clock is moved by hand."""
    slurm = types.SimpleNamespace(listed="7.batch\n7.0\n", sent=[], srun=[], looks=0, is_away=False)

    def ask(*words):
        if slurm.is_away:
            raise errors.RetryableError("Unable to contact slurm controller")
        if words[0] == "squeue":
            slurm.looks += 1
            return slurm.listed
        slurm.sent.append(words[1].removeprefix("--signal="))
        return ""

    monkeypatch.setattr(commands, "ask", ask)
    srun = types.SimpleNamespace(
        terminate=lambda: slurm.srun.append("TERM"), kill=lambda: slurm.srun.append("KILL")
    )

    def make(strategy=GANG):
        job = jobs.plan(
            "mnist", [f"cluster.strategy={strategy}"], run="r", storage_root=str(tmp_path)
        )
        now = [1000.0]
        watch = StepWatch(job, "7", srun, clock=lambda: now[0])
        job.run.write(agent.CLUSTER, {"step": "7.0.0", "cluster": {}})

        def report(name, **values):
            values = {"state": "training", "step": 5, "loss": 1.0, "seen": now[0], **values}
            status = Status(task=name, pid=9, host="n1", time=1.0, **values)
            run_folder.write_status(job.run, status)

        def follow(seconds, *, alive=(), **values):
            """Looks every 10 s, at each of which those that are `alive` say so."""
            for _ in range(0, seconds, 10):
                now[0] += 10
                for name in alive:
                    report(name, **values)
                watch.look()
                watch.proceed()

        return types.SimpleNamespace(
            watch=watch, run=job.run, slurm=slurm, report=report, follow=follow, now=now
        )

    return make


def test_a_lost_process_of_which_srun_does_not_learn(step):
    """Within `cluster.watchdog_seconds`; Slurm has the first chance to end the step."""
    made = step()
    made.report("worker-0")
    made.run.write(agent.LOST, {"task": "worker-0", "step": "7.0.0"})
    made.follow(20, alive=["chief-0"])
    assert (made.slurm.sent, made.slurm.srun) == ([], [])
    made.follow(110, alive=["chief-0"])
    assert (made.slurm.sent, made.slurm.srun) == (["TERM", "KILL"], ENDED_SRUN)
    assert made.watch.cause is None, "the process has left the cause"


def test_training_that_hangs_in_a_step_that_slurm_does_not_list(step, capsys):
    made = step()
    made.slurm.listed = "7.batch\n"
    for name in ("chief-0", "worker-0"):
        made.report(name)
    made.follow(210, alive=["chief-0", "worker-0"])
    assert made.watch.cause == "no step for 120 s"
    assert (made.slurm.sent, made.slurm.srun) == ([], ENDED_SRUN)
    assert capsys.readouterr().out.splitlines() == [
        "no step for 120 s: killing the processes of the step",
        "srun still waits for the step: terminating srun",
        "srun has not ended: killing it",
    ]


def test_a_gang_does_not_wait_for_a_task_that_is_gone(step):
    """Before the first step, where the watchdog has more patience."""
    made = step()
    for name in ("worker-0", "ps-0"):
        made.report(name, state="starting", step=None, loss=None)
    made.follow(110, alive=["chief-0", "ps-0"], state="starting", step=None, loss=None)
    assert made.watch.cause is None
    made.follow(30, alive=["chief-0", "ps-0"], state="starting", step=None, loss=None)
    assert made.watch.cause == "worker-0: no sign of life for 120 s"
    assert made.slurm.sent == ["KILL"]


@pytest.mark.parametrize(
    ("strategy", "name", "values"),
    [
        (GANG, "worker-0", {"state": "done"}),
        (GANG, "evaluator-0", {"state": "evaluating", "step": None}),
        (ASYNCHRONOUS, "worker-0", {}),
    ],
)
def test_others_may_go_on_without_it(step, strategy, name, values):
    made = step(strategy)
    made.report(name, **values)
    for number in range(13):
        made.follow(10, alive=["chief-0", "worker-1"], step=10 + number)
    assert made.watch.cause is None and made.slurm.sent == []


@pytest.mark.parametrize("state", ["training", "failed", "done"])
def test_a_step_that_slurm_has_seen_the_end_of(step, state):
    made = step()
    for name in ("chief-0", "worker-0"):
        made.report(name, state=state)
    made.follow(40)
    assert made.watch.cause is None and made.slurm.srun == []
    made.slurm.listed = "7.batch\n"
    made.follow(30)
    assert made.watch.cause == "Slurm does not list the step any more, but srun waits for it"
    made.follow(60)
    assert made.slurm.srun == ENDED_SRUN


def test_processes_that_are_gone_while_slurm_lists_their_step(step):
    made = step(ASYNCHRONOUS)
    for name in ("chief-0", "worker-0"):
        made.report(name, state="failed")
    made.slurm.is_away = True
    made.follow(130)
    assert made.watch.cause == "no process has given a sign of life for 120 s"
    made.slurm.is_away = False
    made.follow(10)
    assert made.slurm.sent == ["KILL"]


def test_a_step_that_has_not_begun_is_waited_for(step):
    """Its srun waits for resources: Slurm does not list it yet."""
    made = step()
    made.slurm.listed = "7.batch\n"
    made.run.remove(agent.CLUSTER)
    made.follow(600)
    assert made.watch.cause is None and made.slurm.srun == []


def test_slurm_is_not_asked_about_processes_that_live(step):
    made = step()
    for number in range(60):
        made.follow(10, alive=["chief-0", "worker-0"], step=10 + number)
    assert made.slurm.looks == 0


def test_a_process_that_failed_for_good_ends_the_others(step, monkeypatch):
    monkeypatch.setenv(fatal.SUBMISSION, "s")
    made = step()
    made.run.write(fatal.MARKER, {"submission": "s", "task": "chief-0", "error": "x"})
    made.follow(20, alive=["worker-0"])
    assert made.slurm.sent == ["TERM"]
    made.follow(90, alive=["worker-0"])
    assert (made.slurm.sent, made.slurm.srun) == (["TERM", "KILL"], ENDED_SRUN)


def test_processes_that_are_asked_to_end_may_save(step):
    made = step()
    made.watch.stop()
    work = {"what": run_folder.SAVING, "done": 0, "total": None}
    made.follow(110, alive=["chief-0"], work=work)
    assert made.slurm.sent == ["TERM"]
    made.follow(100, alive=["chief-0"], work=work)
    assert made.slurm.sent == ["TERM", "KILL"]
