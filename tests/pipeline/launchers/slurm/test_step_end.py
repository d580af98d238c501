"""How a step is ended that may not end by itself, with stand-ins for Slurm's programs."""

from __future__ import annotations

import signal
import subprocess
import sys
import types

import pytest

from pipeline import errors
from pipeline.launchers.slurm import commands, step_end
from pipeline.launchers.slurm.step_end import Action, StepEnd


@pytest.fixture
def asked(monkeypatch):
    """What Slurm's programs are called with; Slurm knows the steps `listed`, unless it is away."""
    slurm = types.SimpleNamespace(calls=[], listed="7.batch\n7.0\n", is_away=False)

    def ask(*words):
        if slurm.is_away:
            raise errors.RetryableError("Unable to contact slurm controller")
        slurm.calls.append(words)
        return slurm.listed if words[0] == "squeue" else ""

    monkeypatch.setattr(commands, "ask", ask)
    return slurm


class Srun:
    """An srun that takes note of signals; `process` is a Popen in its stead."""

    def __init__(self):
        self.signals = []

    def terminate(self):
        self.signals.append("TERM")

    def kill(self):
        self.signals.append("KILL")


@pytest.fixture
def end(asked):
    """The end of a step, its srun, and a clock that stands still."""
    now, srun = [0.0], Srun()
    made = StepEnd(srun, "7", seconds=10.0, clock=lambda: now[0])

    def look(after):
        now[0] += after
        made.look()
        return [words[1] for words in asked.calls if words[0] == "scancel"], srun.signals

    return types.SimpleNamespace(end=made, look=look, srun=srun)


def test_each_action_follows_the_one_before(end, capsys):
    assert end.look(100) == ([], [])
    end.end.begin(Action.WAIT)
    assert end.look(9) == ([], [])
    assert end.look(1) == (["--signal=TERM"], [])
    assert end.look(9) == (["--signal=TERM"], [])
    assert end.look(1) == (["--signal=TERM", "--signal=KILL"], [])
    assert end.look(10)[1] == ["TERM"]
    assert end.look(10)[1] == ["TERM", "KILL"]
    assert end.look(100) == (["--signal=TERM", "--signal=KILL"], ["TERM", "KILL"])
    assert capsys.readouterr().out.splitlines() == [
        "the step has not ended: its processes are asked to end",
        "the step has not ended: killing its processes",
        "srun still waits for the step: terminating srun",
        "srun has not ended: killing it",
    ]


def test_what_was_done_is_not_done_again(end):
    for _ in range(3):
        end.end.begin(Action.KILL, "no step for 120 s")
        end.end.begin(Action.TERM, "asked to end")
    assert end.look(0) == (["--signal=KILL"], [])


def test_processes_that_save_have_time(end):
    end.end.begin(Action.TERM, "asked to end", seconds=50)
    assert end.look(45)[0] == ["--signal=TERM"]
    end.end.postpone()
    assert end.look(9)[0] == ["--signal=TERM"]
    assert end.look(1)[0] == ["--signal=TERM", "--signal=KILL"]
    end.end.postpone()
    assert end.look(10)[1] == ["TERM"]


def test_a_loss_ends_the_time_to_save(end):
    end.end.begin(Action.TERM, "asked to end", seconds=500)
    end.end.begin(Action.WAIT)
    assert end.look(10)[0] == ["--signal=TERM", "--signal=KILL"]


def test_a_controller_that_is_away_is_asked_again(end, asked):
    asked.is_away = True
    end.end.begin(Action.KILL, "no step for 120 s")
    assert end.look(1) == ([], [])
    asked.is_away = False
    assert end.look(1) == (["--signal=KILL"], [])
    assert end.look(1) == (["--signal=KILL"], [])


def test_a_step_that_slurm_does_not_list_ends_with_its_srun(end, asked):
    asked.listed = "7.batch\n"
    end.end.begin(Action.KILL, "no step for 120 s")
    assert end.look(10) == ([], ["TERM"])


def test_an_srun_that_ignores_sigterm_is_killed(asked):
    text = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        made = StepEnd(process, "7", seconds=0.0)
        made.begin(Action.KILL, "no step for 120 s")
        made.look()
        assert process.poll() is None
        made.look()
        assert process.wait() == -signal.SIGKILL


def test_a_signal_is_for_the_steps_alone(monkeypatch):
    """Slurm takes KILL for a job for its cancelling."""
    asked = []

    def ask(*words):
        asked.append(words)
        return "7.batch\n7.0\n7.1\n" if words[0] == "squeue" else ""

    monkeypatch.setattr(commands, "ask", ask)
    step_end.signal_step("7", "KILL")
    assert asked[1:] == [("scancel", "--signal=KILL", "7.0", "7.1")]


def test_a_step_that_is_left_over_is_killed(monkeypatch):
    """Its srun was ended while the controller was away."""
    answers = ["away", "7.batch\n7.0\n", "7.batch\n7.0\n", "7.batch\n"]
    killed, waited = [], []

    def ask(*words):
        if words[0] == "scancel":
            killed.append(words[1:])
            return ""
        said = answers.pop(0)
        if said == "away":
            raise errors.RetryableError("Unable to contact slurm controller")
        return said

    monkeypatch.setattr(commands, "ask", ask)
    step_end.end_left_over("7", wait=waited.append)
    assert killed == [("--signal=KILL", "7.0")] * 2
    assert len(waited) == 3


def test_a_step_that_cannot_be_killed_is_left_to_the_next(monkeypatch):
    monkeypatch.setattr(commands, "ask", lambda *words: "7.0\n")
    waited = []
    step_end.end_left_over("7", wait=waited.append)
    assert sum(waited) == 300
