"""Signals to the launcher: what is saved, what ends, and what the next start finds."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import sys

import pytest

from tests.pipeline.launching import RUN
from tests.pipeline.process_help import is_alive, wait_until


def test_ctrl_c_saves_and_the_same_command_resumes(launch):
    launch.script(chief_0=["train", "work"], worker_0=["train", "work"])
    process = launch.start()
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    wait_until(lambda: json.loads((launch.folder() / "status/chief-0.json").read_text())["step"])
    process.send_signal(signal.SIGINT)
    out, err = launch.end(process, 75)
    assert err == "stopped by SIGINT, saved at step 7. Run the same command again to resume.\n"
    assert "saving and stopping; Ctrl-C again stops at once" in out
    assert (launch.folder() / "saved-chief-0.json").exists()
    assert launch.record()["status"] == "stopped"
    said = launch.of_run("pipeline.commands.status")
    assert said.startswith(f"run {RUN}: stopped by SIGINT, saved at step 7. Run the same")
    assert not re.search("failed|serving|training", said)
    assert not any(map(is_alive, launch.pids()))

    out, _ = launch.run()
    assert out.startswith(f"resuming run {RUN} ")
    assert (launch.record()["status"], launch.record()["launches"]) == ("done", 2)


def test_sigkill_of_the_launcher_leaves_no_process(launch):
    """No process is left to clean up (docs/tensorflow-pitfalls.md#orphaned-processes)."""
    launch.script(chief_0=["hang"], worker_0=["hang"])
    process = launch.start()
    names = ("chief-0", "worker-0", "ps-0", "evaluator-0")
    launch.wait_for(*(f"status/{name}.json" for name in names))
    pids = launch.pids()
    assert len(pids) == 4 and all(map(is_alive, pids))
    process.kill()
    wait_until(lambda: not any(map(is_alive, pids)))
    process.communicate()
    assert launch.record()["status"] == "running"
    said = launch.of_run("pipeline.commands.status")
    assert f"run {RUN}: died (its launcher (pid {process.pid} on " in said
    assert said.count("gone, was ") == 4
    said = launch.of_run("pipeline.commands.stop", code=64)
    assert said.startswith(f"error: run '{RUN}': is not training (died: its launcher")
    # The lock went with the last process, so the next launcher may start at once.
    launch.script()
    assert launch.run()[0].startswith("resuming")


def test_a_closed_terminal_saves_and_ends_as_sigterm_does(launch):
    launch.script(chief_0=["train"], worker_0=["train"])
    master, slave = pty.openpty()
    process = launch.start(output=slave)
    os.close(slave)
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    os.close(master)  # the kernel sends SIGHUP, and refuses what is written from now on
    launch.end(process, 75)
    assert (launch.folder() / "saved-chief-0.json").exists()
    assert launch.record()["reason"].startswith("stopped by SIGHUP, saved at step 7.")
    assert not any(map(is_alive, launch.pids()))


def test_signals_that_come_together_save_all_the_same(launch):
    """As from `timeout`, which signals make and the launcher below it, or a shell that ends."""
    launch.script(chief_0=["train"], worker_0=["train"])
    process = launch.start()
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    launch.end(process, 75)
    assert (launch.folder() / "saved-chief-0.json").exists()


def test_under_nohup_it_keeps_running(launch):
    launch.script(chief_0=["train", "work"], worker_0=["train", "work"])
    process = launch.start(before=["nohup"])
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    launch.end(process, 75)
    assert launch.record()["reason"].startswith("stopped by SIGTERM, saved at step 7.")


def test_two_launchers_cannot_work_on_one_run(launch):
    launch.script(chief_0=["train"], worker_0=["train"])
    first = launch.start()
    launch.wait_for("environment-chief-0.json")
    _, err = launch.run(code=64)
    assert f"run '{RUN}': another process (pid {first.pid}) is working on it" in err
    first.send_signal(signal.SIGTERM)
    launch.end(first, 75)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_the_wait_for_a_run(launch):
    """Of a launcher that was killed, processes may hold the lock on."""
    launch.script()
    path = launch.folder() / "launcher.lock"
    with path.open("w") as file:
        print(999999999, file=file, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
        process = launch.start()
        wait_until(lambda: holds_open(process.pid, path))
        process.send_signal(signal.SIGINT)
        _, err = launch.end(process, 75)
    assert err == "stopped by SIGINT. Run the same command again.\n"


def holds_open(pid, path):
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if link.samefile(path):
                return True
    return False


def test_preprocessing_can_be_stopped_and_does_not_outlive_the_launcher(launch):
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = launch.start(environment={"PIPELINE_FAKE": "wait"})
        while not (line := process.stdout.readline()).startswith("preprocessing waits"):
            assert line
        pid = int(line.split()[-1])
        process.send_signal(number)
        if number == signal.SIGTERM:
            process.send_signal(signal.SIGINT)  # it ignores the first
        process.communicate(timeout=120)
        assert process.returncode == (75 if number == signal.SIGTERM else -signal.SIGKILL)
        wait_until(lambda pid=pid: not is_alive(pid))


def test_restarts_outlive_a_launcher_that_is_killed(launch):
    launch.script(chief_0=["hang"], worker_0=["die", "hang"])
    process = launch.start()
    launch.wait_for("run.json")
    wait_until(lambda: launch.record()["restarts"])
    process.kill()
    launch.end(process, -signal.SIGKILL)
    launch.script(chief_0=["work"], worker_0=["work"])
    launch.run()
    (restart,) = launch.record()["restarts"]
    assert (restart["role"], launch.record()["launches"]) == ("worker", 2)
