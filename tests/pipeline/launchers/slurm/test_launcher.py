"""Submitting, following and finding a job, with stand-ins for Slurm's programs."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from pipeline import errors
from pipeline.jobs import display
from pipeline.jobs import job as jobs
from pipeline.launchers.slurm import commands, launcher, waits
from pipeline.runs import run_lock, run_record


@dataclasses.dataclass
class Controller:
    """Jobs by number: one goes through `states`, and `on_state` does what its processes would."""

    states: list[str] = dataclasses.field(default_factory=list)
    on_state: object = lambda state: None
    submitted: list[str] = dataclasses.field(default_factory=list)
    cancelled: list[str] = dataclasses.field(default_factory=list)
    found: str | None = None
    exit_code: str = "1:0"

    def state(self, number):
        word = self.states.pop(0)
        if word == "^C":
            raise KeyboardInterrupt
        if word == "?":
            raise errors.RetryableError("squeue: Unable to contact slurm controller")
        self.on_state(word)
        return word, ""

    def submit(self, text):
        self.submitted.append(text)
        return str(40 + len(self.submitted))


@pytest.fixture
def controller(monkeypatch):
    made = Controller()
    monkeypatch.setattr(commands, "require", lambda: None)
    monkeypatch.setattr(commands, "state", made.state)
    monkeypatch.setattr(commands, "submit", made.submit)
    monkeypatch.setattr(commands, "cancel", made.cancelled.append)
    monkeypatch.setattr(commands, "find", lambda comment: made.found)
    monkeypatch.setattr(commands, "exit_of", lambda number: made.exit_code)
    return made


@pytest.fixture
def wanted(tmp_path):
    return jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))


def go(wanted, *, cancels=False):
    made = launcher.SlurmLauncher(sleep=lambda seconds: None, wants_to_cancel=lambda what: cancels)
    return made.run(wanted, started=0.0)


def closes(wanted, status, **values):
    """Returns what the job does at a state: it records the end of the run."""

    def act(state):
        if state in commands.ENDED:
            record = run_record.read(wanted.run)
            record.status = status
            for name, value in values.items():
                setattr(record, name, value)
            run_record.write(wanted.run, record)

    return act


def test_a_job_is_submitted_and_followed_to_its_end(controller, wanted, capsys):
    controller.states = ["PENDING", "PENDING", "?", "RUNNING", "COMPLETED"]
    controller.on_state = closes(wanted, "done", exit_code=0)
    record = go(wanted)
    assert record.status == "done" and record.job == "slurm/41"
    said = capsys.readouterr().out
    assert said.count("Slurm: pending") == 1 and "Slurm: completed" in said


def test_steps_are_not_shown_while_a_job_that_was_put_back_waits(controller, wanted, monkeypatch):
    """No process makes them then: a rate and the time left would mislead."""
    seen, shown = [], []
    controller.states = ["RUNNING", "COMPLETING", "PENDING", "RUNNING", "COMPLETED"]
    end = closes(wanted, "done", exit_code=0)
    controller.on_state = lambda state: (seen.append(state), end(state))
    monkeypatch.setattr(display.Display, "show", lambda self, statuses: shown.append(seen[-1]))
    go(wanted)
    assert shown == ["RUNNING", "RUNNING", "COMPLETED"]


def test_the_error_of_the_job_is_that_of_the_command(controller, wanted):
    controller.states = ["FAILED"]
    controller.on_state = closes(wanted, "failed", exit_code=70, reason="chief-0: nan")
    with pytest.raises(errors.ModelError, match=r"^chief-0: nan$"):
        go(wanted)


def test_a_job_that_was_asked_to_stop_has_not_failed(controller, wanted):
    said = "stopped by SIGTERM, saved at step 7. Run the same command again to resume."
    controller.states = ["FAILED"]
    controller.on_state = closes(wanted, "stopped", exit_code=75, reason=said)
    with pytest.raises(errors.StoppedError, match=f"^{said}$"):
        go(wanted)


@pytest.mark.parametrize("last", ["error: chief-0: nan", "stopped by SIGTERM, saved at step 7."])
def test_the_last_word_of_a_job_is_left_to_the_command(wanted, last):
    path = pathlib.Path(wanted.run.log_path("slurm"))
    path.parent.mkdir(parents=True)
    path.write_text(f"job 41\n{last}\n")
    assert launcher.SlurmLauncher().open_output(wanted)() == ["job 41"]


@pytest.mark.parametrize(
    ("state", "code", "kind", "words"),
    [
        ("TIMEOUT", "0:0", errors.RetryableError, "^Slurm job 41 ended as timeout. make logs"),
        ("FAILED", "0:53", errors.UsageError, "could not write to .*. Use a STORAGE= that all"),
    ],
)
def test_a_job_that_recorded_no_end(controller, wanted, state, code, kind, words):
    controller.states, controller.exit_code = [state], code
    with pytest.raises(kind, match=words):
        go(wanted)
    assert run_record.read(wanted.run).status == "failed"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("job 41\nerror: node n1: its Python is 3.9\n", "^node n1: its Python is 3.9$"),
        ("job 41\n", "^Slurm job 41 failed: see make logs ROLE=slurm$"),
        (None, "^Slurm job 41 failed: see make logs ROLE=slurm$"),
    ],
)
def test_a_job_that_fails_for_good_before_it_records_that(controller, wanted, log, words):
    def writes(state):
        if log is not None:
            pathlib.Path(wanted.run.log_path("slurm")).write_text(log)

    controller.states, controller.exit_code, controller.on_state = ["FAILED"], "64:0", writes
    with pytest.raises(errors.UsageError, match=words):
        go(wanted)
    assert run_record.read(wanted.run).exit_code == 64


def test_ctrl_c_leaves_the_job_and_the_same_command_follows_it(controller, wanted, capsys):
    controller.states = ["RUNNING", "^C"]
    with pytest.raises(
        errors.StoppedError, match=r"keeps running as Slurm job 41. The same command"
    ):
        go(wanted)
    assert not controller.cancelled and run_record.read(wanted.run).status == "running"
    controller.states = ["COMPLETED"]
    controller.on_state = closes(wanted, "done", exit_code=0)
    with run_lock.hold(wanted.run):  # by the chief, on a file system that shares locks
        assert go(wanted).status == "done"
    assert len(controller.submitted) == 1
    assert "run r has been submitted already; following it" in capsys.readouterr().out


def test_ctrl_c_may_cancel_the_job(controller, wanted):
    controller.states = ["^C"]
    with pytest.raises(errors.StoppedError, match=r"is cancelled. The same command continues"):
        go(wanted, cancels=True)
    assert controller.cancelled == ["41"]
    assert run_record.read(wanted.run).status == "stopped"


def test_a_job_that_never_starts_is_cancelled(controller, wanted, monkeypatch):
    def find_prospect(number, word, reason):
        never = errors.UsageError(f"Slurm job {number} can never start")
        return waits.Prospect(word, never)

    monkeypatch.setattr(waits, "find_prospect", find_prospect)
    controller.states = ["PENDING"]
    with pytest.raises(errors.UsageError, match=r"^Slurm job 41 can never start$"):
        go(wanted)
    assert controller.cancelled == ["41"]
    record = run_record.read(wanted.run)
    assert (record.status, record.exit_code) == ("failed", 64)


def test_a_job_is_found_whose_submission_was_not_recorded(controller, wanted):
    controller.found, controller.states = "7", ["RUNNING", "^C"]
    with pytest.raises(errors.StoppedError, match="keeps running as Slurm job 7"):
        go(wanted)
    assert run_record.read(wanted.run).job == "slurm/7"
    assert not controller.submitted


def test_a_refused_job_is_recorded_as_failed(controller, wanted, monkeypatch):
    def refuse(text):
        raise errors.UsageError("sbatch: invalid partition specified: x")

    monkeypatch.setattr(commands, "submit", refuse)
    with pytest.raises(errors.UsageError, match="invalid partition"):
        go(wanted)
    assert run_record.read(wanted.run).status == "failed"
