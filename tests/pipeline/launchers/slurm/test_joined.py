"""A worker that joins from a job of its own, with stand-ins for the process that trains."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time

import pytest

from pipeline.config import config_file
from pipeline.launchers.slurm import agent, commands, joined, steps
from pipeline.processes.fork_client import StopRequest
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from tests.slurm import real

CLUSTER = {"chief": ["a:1"], "worker": ["a:2", "a:5"], "ps": ["a:3"]}


@dataclasses.dataclass
class Stage:
    """The run that the worker joins; its process appends its address to the file `starts`."""

    run: RunFolder
    folder: object
    record: run_record.RunRecord
    result: list[int] = dataclasses.field(default_factory=list)
    thread: threading.Thread | None = None

    def want(self, workers, status="running"):
        self.record.topology["worker"], self.record.status = workers, status
        run_record.write(self.run, self.record)

    def step(self, name):
        self.run.write(agent.CLUSTER, {"step": name, "cluster": CLUSTER})

    def starts(self):
        path = self.folder / "starts"
        return path.read_text().splitlines() if path.exists() else []

    def await_starts(self, count):
        real.wait_for(lambda: len(self.starts()) >= count, lambda: str(self.starts()))


@pytest.fixture
def stage(tmp_path, monkeypatch):
    run = RunFolder(str(tmp_path / "run"))
    os.makedirs(run.path)
    job = config_file.load("mnist", ["cluster.max_workers=2", "cluster.stop_seconds=1"])
    with open(run.config_path, "w") as file:
        file.write(config_file.dump(job))
    record = run_record.begin(job, run)
    record.job = "slurm/7"
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    monkeypatch.setattr(steps, "nodes_of", lambda variables: [steps.Node("n2", "10.0.0.2")])
    monkeypatch.setattr(commands, "state", lambda job: ("RUNNING", ""))
    monkeypatch.setattr(joined, "LOOK", 0.1)
    return Stage(run, tmp_path, record)


def join(stage, program, *events):
    """Runs the worker to its end; each of `events` happens after another start of its process."""
    said = f"open({str(stage.folder / 'starts')!r}, 'a').write('x\\n')"
    command = [sys.executable, "-c", f"import os, signal, sys, time\n{said}\n{program}"]

    def happen():
        for number, event in enumerate(events):
            stage.await_starts(number + 1)
            event()

    thread = threading.Thread(target=happen, daemon=True)
    thread.start()
    with StopRequest().install() as stop:
        joined.Joined(stage.run, str(stage.folder), 1, stop=stop, command=command).work()
    thread.join(30)
    assert not thread.is_alive()


FOR_EVER = "time.sleep(600)"
LEAVING = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\ntime.sleep(600)"


def test_it_waits_for_the_others_and_leaves_when_it_is_not_wanted(stage):
    stage.want(1)  # the request is on its way
    threading.Timer(0.5, lambda: (stage.want(2), stage.step("7.0.1"))).start()
    join(stage, LEAVING, lambda: stage.want(1))
    assert len(stage.starts()) == 1
    assert stage.run.read(joined.path_of(1)) is None


def test_its_address_is_known_while_it_takes_part(stage):
    stage.want(2)
    stage.step("7.0.1")
    seen = []

    def look():
        seen.append(joined.place_of(stage.run, 1))
        stage.want(1)

    join(stage, LEAVING, look)
    [(host, port)] = seen
    assert host == "10.0.0.2" and 10240 <= port <= 32767


def test_it_begins_again_when_the_others_do(stage):
    stage.want(2)
    stage.step("7.0.1")
    join(stage, FOR_EVER, lambda: stage.step("7.0.2"), lambda: stage.step("7.1.0"), lambda: (
        stage.want(2, "done")
    ))  # fmt: skip
    assert len(stage.starts()) == 3


def test_between_two_steps_of_the_others_it_waits(stage):
    stage.want(2)
    stage.step("7.0.1")

    def requeue():
        stage.run.remove(agent.CLUSTER)
        time.sleep(0.5)
        assert len(stage.starts()) == 1
        stage.step("7.1.0")

    join(stage, FOR_EVER, requeue, lambda: stage.want(2, "stopped"))
    assert len(stage.starts()) == 2


def test_a_lost_process_is_started_again(stage):
    stage.want(2)
    stage.step("7.0.1")
    lost = f"'x' * 2 > ''.join(open({str(stage.folder / 'starts')!r}).read().split())"
    program = f"if {lost}: os.kill(os.getpid(), signal.SIGKILL)\n{LEAVING}"
    join(stage, program, lambda: None, lambda: stage.want(1))
    [restart] = stage.run.read(f"{agent.RESTARTS}/worker-1.json")["restarts"]
    assert restart["cause"].startswith("killed by SIGKILL")
    assert stage.run.read(agent.LOST) is None


def test_one_that_hangs_is_killed_and_said_to_hang(stage):
    """Not to have been killed from outside."""
    job = stage.run.read_config()
    cluster = job.cluster.model_copy(update={"watchdog_start_seconds": 0.5})
    with open(stage.run.config_path, "w") as file:
        file.write(config_file.dump(job.model_copy(update={"cluster": cluster})))
    stage.want(2)
    stage.step("7.0.1")
    status = run_folder.Status("worker-1", 7, "h", "training", 1.5)
    run_folder.write_status(stage.run, status)
    join(stage, LEAVING, lambda: None, lambda: stage.want(1))
    restarts = stage.run.read(f"{agent.RESTARTS}/worker-1.json")["restarts"]
    # The second may hang for 0.5 s as well before it is seen that it is not wanted.
    assert restarts and all(r["cause"].startswith("no first step for ") for r in restarts), restarts


def test_one_that_does_not_end_is_killed(stage):
    stage.want(2)
    stage.step("7.0.1")
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    join(stage, deaf, lambda: stage.want(1))
    assert len(stage.starts()) == 1


def test_it_ends_with_training(stage):
    stage.want(2)
    stage.step("7.0.1")
    done = {"final_step": 7, "reason": "steps"}
    path = os.path.join(stage.run.path, run_folder.TRAINING_DONE)
    join(stage, f"open({path!r}, 'w').write({json.dumps(done)!r})")
    assert len(stage.starts()) == 1


def test_a_job_that_has_ended_without_a_word_is_found(stage, monkeypatch):
    stage.want(2)
    stage.step("7.0.1")
    monkeypatch.setattr(joined, "ASK_SLURM", 0.2)
    join(stage, LEAVING, lambda: monkeypatch.setattr(commands, "state", lambda job: ("FAILED", "")))
    assert len(stage.starts()) == 1
