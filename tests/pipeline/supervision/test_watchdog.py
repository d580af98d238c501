"""When silence is taken for a hang, with made-up statuses and times."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess

import pytest

from pipeline.runs.run_folder import SAVING, WAITING, RunFolder, Status
from pipeline.supervision.watchdog import Hang, HangLimits, Watchdog, checkpoint_files, is_stopped
from tests.pipeline.process_help import wait_until

PIDS = {"chief-0": 1, "worker-0": 2}


def said(step, *, state="training", time=0.0, loss=1.0, names=PIDS):
    return {n: Status(n, PIDS[n], "h", state, time, step=step, loss=loss) for n in names}


class Files:
    """What a folder of checkpoints would say."""

    def __init__(self):
        self.state = 0

    def __call__(self):
        return self.state


@pytest.fixture
def files():
    return Files()


@pytest.fixture
def dog(files):
    return Watchdog(HangLimits(step=10, start=100), files)


def test_no_step_for_the_limit_is_a_hang_of_training(dog):
    assert dog.look(said(3), PIDS, 0) is None
    assert dog.look(said(4), PIDS, 9) is None
    assert dog.look(said(4), PIDS, 18.9) is None
    assert dog.look(said(4), PIDS, 19) == Hang(None, "no step for 10 s")


def test_only_the_process_that_others_wait_for_hangs(dog):
    """It alone is started again and reads what it held; nothing returns to a checkpoint."""
    piece = {"what": WAITING, "done": 90, "total": 100}
    statuses = said(4)
    statuses["chief-0"] = dataclasses.replace(statuses["chief-0"], work=piece)
    assert dog.look(statuses, PIDS, 0) is None
    assert dog.look(statuses, PIDS, 9.9) is None
    assert dog.look(statuses, PIDS, 10) == Hang("worker-0", "no step for 10 s, and the others wait")


def test_if_all_wait_training_hangs(dog):
    piece = {"what": WAITING, "done": 90, "total": 100}
    statuses = {n: dataclasses.replace(s, work=piece) for n, s in said(4).items()}
    assert dog.look(statuses, PIDS, 0) is None
    assert dog.look(statuses, PIDS, 10) == Hang(None, "no step for 10 s")


def test_telling_the_same_step_again_is_no_progress(dog):
    dog.look(said(3, time=1), PIDS, 0)
    assert dog.look(said(3, time=9), PIDS, 10) == Hang(None, "no step for 10 s")


def test_a_process_that_was_started_again_has_its_full_time(dog):
    """What its predecessor said is still there, and says nothing of the new process."""
    pids = {name: pid + 10 for name, pid in PIDS.items()}
    assert dog.look(said(3), PIDS, 0) is None
    assert dog.look(said(3), pids, 9) is None
    assert dog.look(said(3), pids, 18.9) is None
    assert dog.look(said(3), pids, 19) == Hang(None, "no step for 10 s")


def test_a_step_backwards_is_progress(dog):
    """The chief came back with an older checkpoint."""
    dog.look(said(30), PIDS, 0)
    assert dog.look(said(20), PIDS, 9) is None
    assert dog.look(said(20), PIDS, 18) is None


def test_the_first_step_may_take_longer(dog):
    assert dog.look({}, PIDS, 0) is None
    assert dog.look(said(0, loss=None), PIDS, 60) is None
    assert dog.look(said(0, loss=None), PIDS, 159) is None
    assert dog.look(said(0, loss=None), PIDS, 160) == Hang(None, "no first step for 100 s")


@pytest.fixture
def patient_dog(files):
    """Where the other processes may take 1000 s to appear."""
    return Watchdog(HangLimits(step=10, start=100, others=1000), files)


@pytest.mark.parametrize("state", ["preparing", "starting", "training"])
def test_others_may_take_longer_to_appear_before_the_first_step(patient_dog, state):
    statuses = said(0, state=state, loss=None)
    assert patient_dog.look({}, PIDS, 0) is None
    assert patient_dog.look(statuses, PIDS, 900) is None
    assert patient_dog.look(statuses, PIDS, 1899) is None
    assert patient_dog.look(statuses, PIDS, 1900) == Hang(None, "no first step for 1000 s")


@pytest.mark.parametrize("loss", [None, 1.0], ids=["first save", "later save"])
def test_a_save_needs_nobody_who_has_yet_to_appear(patient_dog, loss):
    work = {"what": SAVING, "done": 0, "total": None}
    saving = {n: dataclasses.replace(s, work=work) for n, s in said(3, loss=loss).items()}
    assert patient_dog.look(saving, PIDS, 0) is None
    assert patient_dog.look(saving, PIDS, 99) is None
    what = "step" if loss else "first step"
    assert patient_dog.look(saving, PIDS, 100) == Hang(None, f"no {what} for 100 s")


def test_an_export_needs_nobody_who_has_yet_to_appear(patient_dog):
    exports = {"evaluator-0": Status("evaluator-0", 1, "h", "exporting", 0.0)}
    assert patient_dog.look(exports, {"evaluator-0": 1}, 0) is None
    assert patient_dog.look(exports, {"evaluator-0": 1}, 149) is None
    hang = Hang("evaluator-0", "no sign of life for 150 s")
    assert patient_dog.look(exports, {"evaluator-0": 1}, 150) == hang


def test_a_new_process_has_its_own_first_step(dog):
    dog.look(said(3), PIDS, 0)
    again = {"chief-0": 11, "worker-0": 12}
    assert dog.look({}, again, 9) is None
    assert dog.look({}, again, 100) is None


def test_a_process_alone_is_distinguished_from_all(dog):
    for now in range(0, 15):
        words = said(now, names=["chief-0"]) | said(7, names=["worker-0"])
        assert dog.look(words, PIDS, now) is None
    words = said(15, names=["chief-0"]) | said(7, names=["worker-0"])
    assert dog.look(words, PIDS, 15) == Hang("worker-0", "no sign of life for 15 s")


def test_an_evaluation_that_makes_progress_is_not_a_hang(dog):
    for now in range(0, 60, 9):
        assert dog.look(said(3, state="evaluating", time=now), PIDS, now) is None
    assert dog.look(said(3, state="evaluating", time=now), PIDS, now + 10) is not None


def worked(done, *, state="exporting", time=0.0):
    work = {"what": "copying", "done": done, "total": 9}
    return {"chief-0": Status("chief-0", 1, "h", state, time, step=3, loss=1.0, work=work)}


@pytest.mark.parametrize("state", ["preparing", "training", "evaluating", "exporting"])
def test_work_that_is_counted_is_no_hang_however_long_it_takes(dog, state):
    for now in range(0, 400, 9):
        assert dog.look(worked(now + 1, state=state), {"chief-0": 1}, now) is None


def test_work_without_progress_is_a_hang_whatever_else_is_written(dog):
    assert dog.look(worked(4, state="evaluating"), {"chief-0": 1}, 0) is None
    assert dog.look(worked(4, state="evaluating", time=9), {"chief-0": 1}, 10) is not None


def test_the_first_piece_of_work_may_take_longer(dog):
    """The first batch of an evaluation comes after its graph and the checkpoint."""
    assert dog.look(worked(0, state="evaluating"), {"chief-0": 1}, 0) is None
    assert dog.look(worked(0, state="evaluating"), {"chief-0": 1}, 99) is None
    assert dog.look(worked(0, state="evaluating"), {"chief-0": 1}, 100) is not None


def test_workers_may_wait_as_long_as_the_chief_makes_progress(dog):
    """It restores, or writes a large checkpoint to where no part of it can be seen."""
    waiting = said(3, names=["worker-0"])
    for now in (0, 50, 99):
        assert dog.look(worked(0, state="training") | waiting, PIDS, now) is None
    assert dog.look(worked(0, state="training") | waiting, PIDS, 100) is not None


def test_a_checkpoint_that_is_being_written_is_no_hang(dog, files):
    dog.look(said(3), PIDS, 0)
    assert dog.look(said(3), PIDS, 5) is None  # what there is is noted
    files.state += 1
    assert dog.look(said(3), PIDS, 10) is None  # it has changed: all have their time again
    assert dog.look(said(3), PIDS, 15) is None
    assert dog.look(said(3), PIDS, 20) == Hang(None, "no step for 10 s")


def test_a_chief_that_saves_while_others_step_on_does_not_hang(dog, files):
    for now in range(0, 40):
        files.state = now
        words = said(3, names=["chief-0"]) | said(now, names=["worker-0"])
        assert dog.look(words, PIDS, now) is None


def test_a_worker_that_is_silent_while_others_step_on_hangs_though_they_save(dog, files):
    statuses = said(4)
    for now in range(0, 15, 3):
        files.state = now
        statuses |= said(4 + now, names=["chief-0"])
        assert dog.look(statuses, PIDS, now) is None
    statuses |= said(30, names=["chief-0"])
    files.state = 15
    assert dog.look(statuses, PIDS, 15) == Hang("worker-0", "no sign of life for 15 s")


def test_after_a_hang_all_have_their_time_again(dog):
    dog.look(said(3), PIDS, 0)
    dog.look(said(3), PIDS, 5)
    assert dog.look(said(3), PIDS, 10) is not None
    assert dog.look(said(3), PIDS, 11) is None


def test_parameter_servers_and_processes_that_are_gone_are_not_waited_for(dog):
    dog.look(said(3), PIDS, 0)
    assert dog.look(said(3), {}, 1000) is None


def test_files_of_checkpoints_change_while_one_is_written(tmp_path):
    run = RunFolder(str(tmp_path))
    empty = checkpoint_files(run)
    part = tmp_path / "model.ckpt-5_temp" / "part-0"
    part.parent.mkdir()
    (tmp_path / "run.json").write_text("is none of them")
    assert checkpoint_files(run) != empty
    part.write_bytes(b"12")
    begun = checkpoint_files(run)
    assert checkpoint_files(run) == begun
    part.write_bytes(b"123")
    assert checkpoint_files(run) != begun


def test_a_stopped_process_is_known():
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_stopped(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(process.pid))
        process.kill()
    assert not is_stopped(process.pid)
