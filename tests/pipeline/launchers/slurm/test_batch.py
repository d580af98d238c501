"""The program on the first node of a job, with stand-ins for Slurm's programs and its steps."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import sys
import time
import types

import pytest

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.launchers.slurm import agent, batch, commands
from pipeline.processes.fork_client import StopRequest
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import Status

SHOWN = "JobId=7 JobState={} Reason=None Requeue=1 Restarts={} BatchFlag=1"


@pytest.fixture
def attempt(tmp_path):
    """Returns a start of a job whose step has ended."""
    job = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    record = run_record.begin(job.config, job.run)
    return batch.JobAttempt(job, record, "7", stop=StopRequest())


@pytest.mark.parametrize(
    ("code", "kind"), [(64, errors.UsageError), (65, errors.DataError), (70, errors.ModelError)]
)
def test_a_task_that_fails_for_good_before_it_records_that_ends_the_job(attempt, code, kind):
    words = f"its Slurm step ended with exit code {code}: "
    with pytest.raises(kind, match=f"^{words}see make logs ROLE=slurm$"):
        attempt._start_again(None, code)
    log = pathlib.Path(attempt._run.log_path("slurm"))
    log.parent.mkdir(parents=True)
    log.write_text("job 7\nerror: PIPELINE_SLURM: not a step of a job of ours\nsrun: error: n1\n")
    with pytest.raises(kind, match=f"^{words}PIPELINE_SLURM: not a step of a job of ours$"):
        attempt._start_again(None, code)


def test_a_step_that_was_lost_is_started_again(attempt, monkeypatch):
    monkeypatch.setattr(StopRequest, "wait", lambda self, seconds: None)
    attempt._start_again(None, 137)
    assert [one.cause for one in attempt._record.restarts] == [
        "its Slurm step ended with exit code 137"
    ]


def report(attempt, *, step, time, continued):
    """Has the chief of a step report, whose process is known by when it continued, and a worker."""
    continued = {"step": 0, "time": continued}
    for name in ("chief-0", "worker-0"):
        status = Status(name, int(continued["time"]), "n1", "training", time, step=step, loss=1.0)
        run_folder.write_status(attempt._run, dataclasses.replace(status, continued=continued))


def test_a_gang_restart_costs_the_steps_since_the_checkpoint(attempt, monkeypatch):
    """Its record is of the loss, not of when Slurm was there again to start another step."""
    monkeypatch.setattr(StopRequest, "wait", lambda self, seconds: None)
    pathlib.Path(attempt._run.path).mkdir(parents=True)
    pathlib.Path(attempt._run.path, "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-0"\n'
    )
    attempt._places = types.SimpleNamespace(names=())
    report(attempt, step=58, time=1058.0, continued=1000.0)
    lost = agent.Lost("7.0.0", "ps-0", -9, "killed by SIGKILL", worked=True, final=False, time=1060)
    attempt._start_again(dataclasses.asdict(lost), 137)
    attempt._run.remove("status")
    attempt._observe()
    report(attempt, step=0, time=1090.0, continued=1090.0)
    attempt._observe()
    report(attempt, step=3, time=1100.0, continued=1090.0)
    attempt._observe()
    [restart] = run_record.read(attempt._run).restarts
    assert restart == run_record.Restart(
        role="ps",
        index=0,
        cause="killed by SIGKILL",
        step=58,
        steps_lost=58,
        seconds_to_next_step=40.0,
        time=1060.0,
        gang=True,
    )


def test_a_gang_that_is_lost_before_it_reports_continues_from_the_checkpoint(attempt, monkeypatch):
    monkeypatch.setattr(StopRequest, "wait", lambda self, seconds: None)
    pathlib.Path(attempt._run.path).mkdir(parents=True)
    pathlib.Path(attempt._run.path, "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-20"\n'
    )
    attempt._start_again(None, 137)
    [restart] = attempt._record.restarts
    assert restart.step == 20 and restart.gang and restart.time is not None


def test_a_restart_of_one_process_has_the_time_of_its_loss(attempt):
    one = {"role": "worker", "index": 0, "cause": "killed by SIGKILL", "step": 58, "time": 1060.0}
    attempt._note_restart(one | {"delay": 0.0}, "worker-0")
    assert attempt._record.restarts == [run_record.Restart(**one)]


def run_step(attempt, command=("true",)):
    """Runs a step whose srun is a command: one that ends with 0, as when Slurm ends the job."""
    attempt._places = types.SimpleNamespace(
        names=(), open=lambda first: contextlib.nullcontext(), look=lambda: None
    )
    allocation = types.SimpleNamespace(
        command=lambda gpus: [*command], variables=lambda first: dict(os.environ)
    )
    return attempt._run_step(allocation, 9000)


@pytest.mark.parametrize(
    ("state", "restarts", "kind", "words"),
    [
        ("RUNNING", 0, errors.PipelineError, "^all processes exited with 0, but there is no RESUL"),
        ("PENDING", 1, errors.StoppedError, "^Slurm has ended this job, or put it into the queue"),
        ("COMPLETING", 0, errors.StoppedError, "^Slurm has ended this job, or put it into"),
        ("RUNNING", 1, errors.StoppedError, "^Slurm has ended this job, or put it into the queue"),
    ],
)
def test_a_step_without_a_result(attempt, monkeypatch, state, restarts, kind, words):
    monkeypatch.setattr(commands, "ask", lambda *words: SHOWN.format(state, restarts))
    with pytest.raises(kind, match=words):
        run_step(attempt)
    assert attempt._record.restarts == []


def test_a_step_whose_srun_never_ends_is_lost(tmp_path, monkeypatch, capsys):
    """Slurm does not list it any more, and the message that a task has ended was lost."""
    options = ["cluster.strategy=parameter_server_sync", "cluster.watchdog_seconds=0.2"]
    job = jobs.plan("mnist", options, run="r", storage_root=str(tmp_path))
    record = run_record.begin(job.config, job.run)
    attempt = batch.JobAttempt(job, record, "7", stop=StopRequest())
    lost = agent.Lost(
        "7.0.0", "worker-0", -9, "killed by SIGKILL", worked=True, final=False, time=1.0
    )
    looks = []

    def wait(self, seconds):
        looks.append(seconds)
        assert len(looks) < 500, "it is followed for ever"
        job.run.write(agent.LOST, dataclasses.asdict(lost))
        time.sleep(0.02)

    monkeypatch.setattr(StopRequest, "wait", wait)

    def ask(*words):
        return "7.batch\n" if words[0] == "squeue" else SHOWN.format("RUNNING", 0)

    monkeypatch.setattr(commands, "ask", ask)
    assert not run_step(attempt, [sys.executable, "-c", "import time; time.sleep(600)"])
    assert [one.cause for one in record.restarts] == ["killed by SIGKILL"]
    said = capsys.readouterr().out.splitlines()
    assert "srun still waits for the step: terminating srun" in said
    assert said[-1] == "worker-0: killed by SIGKILL; starting all processes again"


@pytest.mark.parametrize(
    ("state", "restarts", "status"),
    [("RUNNING", 0, "failed"), ("PENDING", 1, "running"), ("RUNNING", 1, "running")],
)
def test_a_job_that_was_put_back_has_not_ended(tmp_path, monkeypatch, state, restarts, status):
    """The program goes on where the daemon of its node is lost."""
    job = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    record = run_record.begin(job.config, job.run)
    record.job = "slurm/7"
    run_record.write(job.run, record)
    pathlib.Path(job.run.config_path).write_text("{}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(batch, "_plan", lambda *given, **others: job)
    monkeypatch.setattr(commands, "ask", lambda *words: SHOWN.format(state, restarts))

    def fail(self):
        raise errors.PipelineError("all processes exited with 0")

    monkeypatch.setattr(batch.JobAttempt, "work", fail)
    with pytest.raises(errors.PipelineError, match=r"^all processes exited with 0$"):
        batch.run_part(job.run, str(tmp_path))
    found = run_record.read(job.run)
    assert found is not None and found.status == status
