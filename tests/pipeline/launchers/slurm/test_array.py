"""Submitting and following an array of runs, with stand-ins for Slurm's programs."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

import pytest

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.launchers import base
from pipeline.launchers.slurm import commands, elements, launcher, script, waits
from pipeline.runs import run_folder, run_record


@dataclasses.dataclass
class Controller:
    """Arrays by number: `looks` has the states of all jobs at each look, by index, and `ends` what
    a job records when it has ended."""

    looks: list[str] = dataclasses.field(default_factory=list)
    ends: Callable[[int], None] = lambda index: None
    submitted: list[str] = dataclasses.field(default_factory=list)
    cancelled: list[str] = dataclasses.field(default_factory=list)
    found: dict[int, str] = dataclasses.field(default_factory=dict)
    on_look: Callable[[], None] = lambda: None

    def submit(self, text):
        self.submitted.append(text)
        return str(40 + len(self.submitted))

    def states(self, array):
        self.on_look()
        words = self.looks.pop(0).split()
        if words == ["^C"]:
            raise KeyboardInterrupt
        found = {}
        for word in words:
            index, _, state = word.partition(":")
            found[f"{array}_{index}"] = state, ""
            if state in commands.ENDED:
                self.ends(int(index))
        return found


@pytest.fixture
def controller(monkeypatch):
    made = Controller()
    monkeypatch.setattr(commands, "require", lambda: None)
    monkeypatch.setattr(commands, "submit", made.submit)
    monkeypatch.setattr(commands, "states", made.states)
    monkeypatch.setattr(commands, "state", lambda number: ("COMPLETED", ""))
    monkeypatch.setattr(commands, "cancel", made.cancelled.append)
    monkeypatch.setattr(commands, "find_array", lambda comment: made.found)
    monkeypatch.setattr(commands, "exit_of", lambda number: "1:0")
    return made


@pytest.fixture
def wanted(tmp_path):
    return jobs.plan("mnist", ["slurm.array=0-2%2"], run="r", storage_root=str(tmp_path))


def go(wanted, *, cancels=False):
    made = launcher.SlurmLauncher(sleep=lambda seconds: None, wants_to_cancel=lambda what: cancels)
    made.run_array(wanted, started=0.0)


def record_of(wanted, index):
    return run_record.read(elements.folder_of(wanted.run, index))


def closes(wanted, **codes):
    """Returns what jobs do at their ends: they record exit code 0, or another of `codes`."""

    def act(index):
        folder = elements.folder_of(wanted.run, index)
        record = run_record.read(folder)
        code = codes.get(f"run_{index}", 0)
        record.exit_code, record.reason = code, f"code {code}"
        record.status, record.final_step = "failed" if code else "done", 2000
        run_record.write(folder, record)
        if not code:
            folder.write(run_folder.RESULT, {"final_step": 2000})

    return act


def test_all_runs_are_one_submission_and_are_followed_together(controller, wanted, capsys):
    controller.looks = [
        "0:RUNNING 1:RUNNING 2:PENDING",
        "0:COMPLETED 1:RUNNING 2:RUNNING",
        "0:COMPLETED 1:COMPLETED 2:COMPLETED",
    ]
    controller.ends = closes(wanted)
    go(wanted)
    assert len(controller.submitted) == 1 and "#SBATCH --array=0-2%2\n" in controller.submitted[0]
    for index in range(3):
        record = record_of(wanted, index)
        assert (record.status, record.job) == ("done", f"slurm/41_{index}")
    said = capsys.readouterr().out
    assert "Slurm job 41 (r-0 to r-2): Ctrl-C leaves it running\nr-0 to r-1: running\n" in said
    assert said.count("r-2: running") == 1 and "r-2: done: step 2000" in said


def test_the_same_command_submits_the_runs_that_did_not_end_well(controller, wanted, capsys):
    controller.looks = ["0:COMPLETED 1:FAILED 2:FAILED"]
    controller.ends = closes(wanted, run_1=75, run_2=65)
    with pytest.raises(errors.DataError, match=r"^2 of 3 runs .*: r-1 \(75\), r-2 \(65\)\. The"):
        go(wanted)
    assert "r-2: error: code 65" in capsys.readouterr().out
    controller.looks = ["1:COMPLETED 2:COMPLETED"]
    controller.ends = closes(wanted)
    go(wanted)
    assert "#SBATCH --array=1,2%2\n" in controller.submitted[1]
    assert "run r-0 is already finished" in capsys.readouterr().out
    go(wanted)
    assert len(controller.submitted) == 2


def reports(wanted, index, *lines):
    """Returns what a job prints at each look, one line after another."""
    rest = list(lines)

    def act():
        if rest:
            path = pathlib.Path(elements.folder_of(wanted.run, index).log_path(script.LOG))
            with path.open("a") as log:
                log.write(f"{rest.pop(0)}\n")

    return act


LOST = "chief-0: killed by SIGKILL at step 7; starting it again now"


def test_what_a_job_reports_is_shown_once_with_the_name_of_its_run(controller, wanted, capsys):
    controller.looks = ["0:RUNNING 1:RUNNING 2:PENDING"] * 3 + ["^C"]
    controller.on_look = reports(wanted, 1, "job 41_1", LOST)
    with pytest.raises(errors.StoppedError):
        go(wanted)
    shown = capsys.readouterr().out
    assert f"r-0 to r-1: running\nr-2: pending\nr-1: job 41_1\nr-1: {LOST}\n" in shown
    assert shown.count(LOST) == 1


def test_a_command_that_follows_again_shows_what_is_new(controller, wanted, capsys):
    controller.looks = ["0:RUNNING 1:RUNNING 2:RUNNING", "^C"]
    controller.on_look = reports(wanted, 1, "job 41_1")
    with pytest.raises(errors.StoppedError):
        go(wanted)
    assert "r-1: job 41_1\n" in capsys.readouterr().out
    controller.looks = ["0:COMPLETED 1:FAILED 2:COMPLETED"]
    controller.ends = closes(wanted, run_1=75)
    controller.on_look = reports(wanted, 1, LOST)
    with pytest.raises(errors.RetryableError):
        go(wanted)
    shown = capsys.readouterr().out
    assert f"r-1: {LOST}\nr-0: done" in shown and "r-1: job 41_1" not in shown


def test_ctrl_c_leaves_the_runs_and_the_same_command_follows_them(controller, wanted, capsys):
    controller.looks = ["0:RUNNING 1:RUNNING 2:PENDING", "^C"]
    with pytest.raises(errors.StoppedError, match=r"^Slurm job 41 \(r-0 to r-2\) keeps running"):
        go(wanted)
    assert not controller.cancelled
    controller.looks = ["0:COMPLETED 1:COMPLETED 2:COMPLETED"]
    controller.ends = closes(wanted)
    go(wanted)
    assert len(controller.submitted) == 1
    assert "run r-2 has been submitted already; following it" in capsys.readouterr().out


def test_ctrl_c_may_cancel_the_runs(controller, wanted):
    controller.looks = ["^C"]
    with pytest.raises(errors.StoppedError, match=r"is cancelled. The same command continues"):
        go(wanted, cancels=True)
    assert controller.cancelled == ["41_0", "41_1", "41_2"]
    assert {record_of(wanted, index).status for index in range(3)} == {"stopped"}


def test_a_cancelled_run_has_not_failed(controller, wanted):
    controller.looks = ["0:COMPLETED 1:CANCELLED 2:COMPLETED"]
    controller.ends = lambda index: None if index == 1 else closes(wanted)(index)
    with pytest.raises(errors.StoppedError, match=r"^1 of 3 runs .*: r-1 \(75\)"):
        go(wanted)
    assert record_of(wanted, 1).status == "stopped"


def test_a_run_that_never_starts_is_cancelled_and_the_others_are_followed(
    controller, wanted, monkeypatch
):
    def find_prospect(number, word, reason):
        never = errors.UsageError("it can never start")
        return waits.Prospect(word, never if number == "41_1" else None)

    monkeypatch.setattr(waits, "find_prospect", find_prospect)
    controller.looks = ["0:RUNNING 1:PENDING 2:RUNNING", "0:COMPLETED 2:COMPLETED"]
    controller.ends = closes(wanted)
    with pytest.raises(errors.UsageError, match=r"r-1 \(64\)"):
        go(wanted)
    assert controller.cancelled == ["41_1"]
    assert record_of(wanted, 2).status == "done"


def test_jobs_are_found_whose_submission_was_not_recorded(controller, wanted):
    controller.found = {0: "7_0", 1: "7_1", 2: "7_2"}
    controller.looks = ["0:COMPLETED 1:COMPLETED 2:COMPLETED"]
    controller.ends = closes(wanted)
    go(wanted)
    assert not controller.submitted
    assert record_of(wanted, 1).job == "slurm/7_1"


def test_a_refused_array_is_recorded_as_failed(controller, wanted, monkeypatch):
    def refuse(text):
        raise errors.UsageError("sbatch: Invalid job array specification")

    monkeypatch.setattr(commands, "submit", refuse)
    with pytest.raises(errors.UsageError, match="Invalid job array"):
        go(wanted)
    assert {record_of(wanted, index).status for index in range(3)} == {"failed"}


def test_other_jobs_are_no_arrays(wanted, tmp_path):
    assert launcher.SlurmLauncher().is_array(wanted)
    one = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    assert not launcher.SlurmLauncher().is_array(one)
    assert not base.choose("local").is_array(wanted)
