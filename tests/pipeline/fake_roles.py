"""Roles without TensorFlow, for tests of what starts and ends them: real processes, no training.

`play` does what `script.json` in the run folder says for its task: a list of behaviours, one per
attempt, of which the last one is repeated. Without a script every role does its job at once.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from pipeline import errors
from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from tests.pipeline.process_help import wait_until

ENTRY = f"{__name__}:play"


def play(run_path: str, records: str, task: topology.Task) -> None:
    """Is the entry function that a supervisor calls in place of the trainer's."""
    run = RunFolder(run_path)
    folder = pathlib.Path(run_path)
    notes = folder / f"attempts-{task.name}"
    attempt = len(notes.read_text().splitlines()) if notes.exists() else 0
    with notes.open("a") as file:
        file.write(f"{os.getpid()} {json.dumps(task.cluster)}\n")
    (folder / f"environment-{task.name}.json").write_text(json.dumps(dict(os.environ)))
    behaviours = (run.read("script.json") or {}).get(task.name, ["work"])
    name, *arguments = behaviours[min(attempt, len(behaviours) - 1)].split(":")
    print(f"{task.name} plays {name}", flush=True)
    globals()[f"_{name}"](run, task, *arguments)


def say(run: RunFolder, task: topology.Task, state: str, **values) -> None:
    status = Status(task.name, os.getpid(), socket.gethostname(), state, time.time(), **values)
    run_folder.write_status(run, status)


def _work(run, task, steps="20"):
    """Makes its steps and ends well, as the real role would."""
    if task.job_name == topology.PS:
        say(run, task, "serving")
        wait_until(lambda: False)
    if task.job_name == topology.EVALUATOR:
        say(run, task, "waiting")
        wait_until(lambda: run.read(run_folder.TRAINING_DONE))
        say(run, task, "evaluating", evaluation={"step": 20, "accuracy": 0.5})
        _write_result(run, run.read(run_folder.TRAINING_DONE)["final_step"])
        return
    say(run, task, "training", step=0)
    time.sleep(0.15)
    say(run, task, "training", step=int(steps), loss=0.25, examples_per_second=100.0)
    if task.is_chief:
        run.write(run_folder.TRAINING_DONE, {"final_step": int(steps), "reason": "steps"})
        if not task.cluster:
            _write_result(run, int(steps))
    say(run, task, "done", step=int(steps), loss=0.25)


def _end_early(run, task, reason):
    """A chief that ends before its last step, for a reason."""
    say(run, task, "training", step=7, loss=0.5)
    run.write(run_folder.TRAINING_DONE, {"final_step": 7, "reason": reason})


def _find_fewer_steps(run, task, steps):
    """A chief that finds that its epochs come to fewer steps than was planned."""
    say(run, task, "training", step=0, max_steps=int(steps))
    time.sleep(0.15)
    say(run, task, "training", step=int(steps), loss=0.25, max_steps=int(steps))
    run.write(run_folder.TRAINING_DONE, {"final_step": int(steps), "reason": "steps"})


def _leave_after_training(run, task):
    """A parameter server that ends by itself, as one started by hand must."""
    wait_until(lambda: run.read(run_folder.TRAINING_DONE))


def _die_after_its_work(run, task):
    _work(run, task)
    os.kill(os.getpid(), signal.SIGKILL)


def _write_result(run, step):
    metrics = {split: {"accuracy": 0.5, "loss": 1.0} for split in ("eval", "test")}
    run.write(run_folder.RESULT, {"final_step": step, "metrics": metrics})


def _train(run, task):
    """Trains until it is asked to stop, then saves."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    say(run, task, "training", step=7, loss=0.5)
    wait_until(lambda: asked)
    run.write(f"saved-{task.name}.json", {"step": 7})
    if task.is_chief:
        pathlib.Path(run.path, "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    say(run, task, "stopped", step=7, error="stopped, saved at step 7", exit_code=75)
    raise errors.RetryableError("stopped, saved at step 7")


def _train_and_save_late(run, task):
    """Trains until it is asked to stop, and takes several looks of a supervisor to save."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    say(run, task, "training", step=7, loss=0.5)
    wait_until(lambda: asked)
    time.sleep(0.5)
    run.write(f"saved-{task.name}.json", {"step": 7})
    say(run, task, "stopped", step=7, error="stopped, saved at step 7", exit_code=75)
    raise errors.RetryableError("stopped, saved at step 7")


def _train_and_ignore(run, task):
    """Trains, and does not react to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(run, task, "training", step=7, loss=0.5)
    wait_until(lambda: False)


def _save_slowly(run, task):
    """Is at work on a save when it is asked to stop, until the file `go` is there."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    work = {"what": run_folder.SAVING, "done": 0, "total": None}
    say(run, task, "training", step=7, loss=0.5, work=work)
    wait_until(lambda: pathlib.Path(run.path, "go").exists())
    pathlib.Path(run.path, "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    raise errors.RetryableError("stopped, saved at step 7")


def _work_on_go(run, task):
    """Trains until the file `go` is there, and is then done."""
    say(run, task, "training", step=7, loss=0.5)
    wait_until(lambda: pathlib.Path(run.path, "go").exists())
    _work(run, task)


def _hang(run, task):
    """Does not react to SIGTERM, like a session that waits for a lost peer."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(run, task, "training", step=3)
    wait_until(lambda: False)


def _die_among_all(run, task):
    """Is killed when every other role is running: one that is not has left no trace yet."""
    wait_until(lambda: _attempts(run) >= 4)
    _die(run, task)


def _freeze(run, task):
    """Is stopped by a signal after some steps: alive, and without any more progress."""
    say(run, task, "training", step=5, loss=1.0)
    os.kill(os.getpid(), signal.SIGSTOP)


def _freeze_at_once(run, task):
    os.kill(os.getpid(), signal.SIGSTOP)


def _step_on(run, task):
    """Makes steps until the worker is there again and has ended well."""
    step = 0
    while True:
        worker = run_folder.read_statuses(run).get("worker-0")
        if worker is not None and worker.state == "done":
            break
        step += 1
        say(run, task, "training", step=step, loss=0.5)
        time.sleep(0.05)
    _work(run, task)


def _fail(run, task, code, text):
    """Ends as the trainer does: the last word in the status, and an error with its exit code."""
    error = errors.build_from_exit_code(int(code), text)
    say(run, task, "failed", error=text, exit_code=int(code))
    raise error


def _crash(run, task):
    raise KeyError("a bug")


def _crash_at(run, task, step):
    """Fails by an exception of its own code, after some steps."""
    say(run, task, "training", step=int(step), loss=1.0)
    say(run, task, "failed", step=int(step), loss=1.0, error="KeyError: 'a bug'", exit_code=1)
    raise KeyError("a bug")


def _die(run, task, step="5"):
    """Is killed after some steps."""
    say(run, task, "training", step=int(step), loss=1.0)
    os.kill(os.getpid(), signal.SIGKILL)


def _silent(run, task):
    """Ends well without having done anything."""


def _bind(run, task):
    """Needs its port, like a TensorFlow server."""
    port = int(task.cluster[task.job_name][task.task_index].rpartition(":")[2])
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            raise RuntimeError(f"Could not start gRPC server: {error}") from None
        _work(run, task)


def _breed(run, task):
    """Starts a process of its own, which must not outlive it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    run.write("bred.json", {"pid": child.pid})
    _train(run, task)


def _work_late(run, task):
    """Is done only when every other role that is to die has done so and is back."""
    say(run, task, "training", step=0)
    wait_until(lambda: _attempts(run) > 4)
    for step in range(1, 20):
        say(run, task, "training", step=step, loss=0.5)
        time.sleep(0.02)
    _work(run, task)


def _work_when_worker_is_back(run, task):
    say(run, task, "training", step=0)
    wait_until(lambda: _attempts(run) > 4)
    wait_until(lambda: run_folder.read_statuses(run)["worker-0"].state == "done")
    time.sleep(0.2)
    _work(run, task)


def _die_after_training(run, task):
    wait_until(lambda: run.read(run_folder.TRAINING_DONE))
    time.sleep(0.3)
    _die(run, task)


def _work_when_all_are_there(run, task):
    wait_until(lambda: run_folder.read_statuses(run).keys() >= {"ps-0", "evaluator-0"})
    _work(run, task)


def _end_after_the_evaluator(run, task):
    """A parameter server that is still ending when the evaluator is lost."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    say(run, task, "serving")
    wait_until(lambda: asked)
    evaluator = run_folder.read_statuses(run)["evaluator-0"].pid
    run.write("ending.json", {"by": task.name})
    wait_until(lambda: not pathlib.Path(f"/proc/{evaluator}").exists())


def _die_while_servers_end(run, task):
    say(run, task, "waiting")
    wait_until(lambda: run.read("ending.json"))
    os.kill(os.getpid(), signal.SIGKILL)


def _attempts(run):
    notes = pathlib.Path(run.path).glob("attempts-*")
    return sum(len(path.read_text().splitlines()) for path in notes)
