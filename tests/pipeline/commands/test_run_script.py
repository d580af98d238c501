"""`estimator-pipeline run` as people type it, with a script that needs no TensorFlow."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from tests.pipeline.process_help import ROOT, child_environment, is_alive, wait_until
from tests.support.sets import slow

PLAYED = str(ROOT / "tests" / "pipeline" / "scripts" / "played.py")


class Stage:
    """A storage, and the processes that were started with it."""

    def __init__(self, folder):
        self.storage, self.notes = folder / "output", folder / "notes"
        self.notes.mkdir()
        self.folder = folder
        self.started = []

    def command(self, *words):
        return [sys.executable, "-m", "pipeline", *words]

    @property
    def environment(self):
        return {**child_environment(), "NOTES": str(self.notes), "OWN_SECRET_FOR": "the script"}

    def type(self, *words):
        """Runs a command to its end."""
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def begin(self, *words):
        process = subprocess.Popen(
            self.command("run", f"--storage={self.storage}", "--run=r", *words),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def attempts(self, name):
        """The process ids and TF_CONFIGs of the attempts of a process."""
        path = self.notes / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            (int(pid), json.loads(text)) for pid, text in (line.split(" ", 1) for line in lines)
        ]

    def began(self, *names, times=1):
        wait_until(lambda: all(len(self.attempts(n)) >= times for n in names), 300)

    def record(self):
        return json.loads((self.storage / "runs" / "r" / "run.json").read_text())

    def alive(self):
        pids = [pid for path in self.notes.glob("*-*") for pid, _ in self.attempts(path.name)]
        return [pid for pid in pids if is_alive(pid)]


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    for process in stage.started:
        process.kill()
        process.communicate()
    wait_until(lambda: not stage.alive())


def test_a_script_is_run_in_every_role_and_what_never_ends_is_ended(stage):
    running = stage.begin(
        "--workers=1",
        "--ps=1",
        "--evaluator",
        "--evaluator_seconds=1",
        "--steps=500",
        "--",
        sys.executable,
        PLAYED,
        "chief-0=steps:evaluator-0:1",  # all are there before it ends
        "worker-0=steps:ps-0:1",
        "--api_key=abcdefgh12345678",
    )
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, ""), out
    assert not stage.alive()
    assert "evaluator-0: training has ended; 1 s to evaluate (--evaluator_seconds)" in out
    assert "training: all 500 steps made; the script does the rest" in out
    assert "\nresult   step 500, the chief ended well; evaluator-0 was ended 1 s after" in out
    configs = {n: stage.attempts(f"{n}-0")[0][1] for n in ("chief", "worker", "ps", "evaluator")}
    assert {name: config["task"]["type"] for name, config in configs.items()} == {
        name: name for name in configs
    }
    record = stage.record()
    assert configs["chief"]["cluster"] == configs["ps"]["cluster"] == record["cluster"]
    assert (record["status"], record["exit_code"], record["final_step"]) == ("done", 0, 500)
    assert record["metrics"] == {"eval": {"accuracy": 0.75}}
    assert "abcdefgh" not in out + json.dumps(record) + str(record["command"])
    _looks(stage)


def _looks(stage):
    """What other commands show of the run that has ended."""
    where = f"--storage={stage.storage}"
    status = stage.type("status", where).stdout
    assert status.startswith("run r: done (the chief ended well") and "\nworker-0 " in status
    assert "r    played  done     500" in stage.type("runs", where).stdout
    logs = stage.type("logs", where, "--role=worker").stdout
    assert logs.startswith("worker-0 | INFO:tensorflow:loss = 1.0000, step = 0 (0.1 sec)\n")
    ledger = stage.type("ledger", where, "--run=r")
    assert ledger.returncode == 64
    assert "run 'r': runs a script and has no config; only status" in ledger.stderr
    train = stage.type("train", "--config=mnist", where, "--run=r")
    assert (train.returncode, train.stderr) == (
        64,
        "error: run 'r' runs a script: use another --run= for this one\n",
    )


def test_lost_processes_are_started_again_one_by_one_with_parameter_servers(stage):
    until = "steps:ps-0:2"
    running = stage.begin(
        "--workers=1",
        "--ps=1",
        "--",
        sys.executable,
        PLAYED,
        f"chief-0={until}",
        f"worker-0={until}",
    )
    stage.began("chief-0", "worker-0", "ps-0")
    os.kill(stage.attempts("worker-0")[0][0], signal.SIGKILL)
    stage.began("worker-0", times=2)
    os.kill(stage.attempts("ps-0")[0][0], signal.SIGKILL)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, ""), out
    assert "worker-0: killed by SIGKILL from outside (by a person, a scheduler, or the " in out
    assert [len(stage.attempts(f"{n}-0")) for n in ("chief", "worker", "ps")] == [1, 2, 2]
    servers = [config["cluster"]["ps"] for _, config in stage.attempts("ps-0")]
    assert servers[0] == servers[1]  # the others know it by its address
    told = [(one["role"], one["gang"]) for one in stage.record()["restarts"]]
    assert told == [("worker", False), ("ps", False)]


def test_without_parameter_servers_all_that_train_are_started_again(stage):
    until = "steps:worker-0:2"
    running = stage.begin(
        "--workers=1", "--", sys.executable, PLAYED, f"chief-0={until}", f"worker-0={until}"
    )
    stage.began("chief-0", "worker-0")
    os.kill(stage.attempts("worker-0")[0][0], signal.SIGKILL)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (0, ""), out
    first, second = [config["cluster"] for _, config in stage.attempts("chief-0")]
    assert first != second
    assert stage.record()["restarts"][0]["gang"]


def test_ctrl_c_gives_the_script_time_and_ends_what_ignores_it(stage):
    running = stage.begin(
        "--workers=1",
        "--ps=1",
        "--stop_seconds=2",
        "--",
        sys.executable,
        PLAYED,
        "chief-0=save",
        "worker-0=deaf",
    )
    stage.began("chief-0", "worker-0", "ps-0")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, stage.alive()) == (75, [])
    assert "stopping; each process gets SIGTERM; Ctrl-C again stops at once" in out
    assert err == (
        "stopped by SIGINT. Run the same command again; the script decides where it continues.\n"
    )
    assert (stage.notes / "saved").exists()
    assert stage.record()["status"] == "stopped"


def test_stop_asks_the_launcher(stage):
    running = stage.begin("--", sys.executable, PLAYED, "chief-0=save")
    stage.began("chief-0")
    stopped = stage.type("stop", f"--storage={stage.storage}")
    assert stopped.stdout == "run r: asked to stop; its processes get SIGTERM\n", stopped.stderr
    running.communicate(timeout=300)
    assert running.returncode == 75 and (stage.notes / "saved").exists()
    again = stage.type("stop", f"--storage={stage.storage}")
    assert again.returncode == 64 and "is not training (stopped" in again.stderr


def test_nothing_outlives_a_killed_launcher(stage):
    running = stage.begin("--workers=1", "--ps=1", "--", sys.executable, PLAYED, "chief-0=wait")
    stage.began("chief-0", "worker-0", "ps-0")
    running.kill()
    wait_until(lambda: not stage.alive())
    status = stage.type("status", f"--storage={stage.storage}").stdout
    assert status.startswith("run r: died (its launcher (pid ")


@pytest.mark.parametrize("code", [3, slow(70)])
def test_a_script_that_fails_at_once_ends_the_run_with_its_code(stage, code):
    running = stage.begin(
        "--workers=1", "--ps=1", "--", sys.executable, PLAYED, f"chief-0=exit:{code}"
    )
    _, err = running.communicate(timeout=300)
    assert (running.returncode, stage.alive()) == (code, [])
    log = pathlib.Path(stage.storage, "runs", "r", "logs", "chief-0.log")
    assert err == f"error: chief-0: exit code {code}: cannot go on: {code}. Log: {log}\n"
    # 64, 65 and 70 would come again; others may not.
    assert len(stage.attempts("chief-0")) == (1 if code == 70 else 2)


MISSING = (
    "the command to run is missing; it follows --, as in: estimator-pipeline run --workers=2 "
    "--ps=1 -- python train.py\n"
)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["python", "train.py"], MISSING),
        (["--wrokers=1", "--", "python"], "--wrokers does not exist (did you mean '--workers'?);"),
        (["--", "nonesuch-command"], "cannot run 'nonesuch-command': there is no such command\n"),
        (
            ["--cluster=slurm", "--", "python", "x.py"],
            "--cluster=slurm: run supervises a script on this machine only. On others, train a "
            "config that names your input_fn and model (docs/own-input.md): estimator-pipeline "
            "train --cluster=",
        ),
        (["--storage=gs://b/x", "--", "sh"], "--storage=gs://b/x: logs of a script are kept on"),
    ],
)
def test_what_is_wrong_is_one_line_with_code_64(stage, words, text):
    done = stage.type("run", *words)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith(f"error: {text}") and done.stderr.count("\n") == 1
    assert not (stage.folder / "output").exists()


@pytest.mark.slow
def test_a_run_of_a_config_is_no_run_of_a_script(stage):
    folder = stage.storage / "runs" / "r"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "configs" / "mnist.yaml", folder / "config.yaml")
    done = stage.type("run", f"--storage={stage.storage}", "--run=r", "--", "true")
    assert (done.returncode, done.stderr) == (
        64,
        "error: run 'r': is of a config; use another --run= for this script\n",
    )


@pytest.mark.slow
def test_help_after_the_dashes_is_the_script_s(stage):
    command = [sys.executable, "-c", "import sys; print(sys.argv)", "--help", "--", "CONFIG=x"]
    done = stage.type("run", f"--storage={stage.storage}", "--run=r", "--", *command)
    assert done.returncode == 0, done.stderr
    log = pathlib.Path(stage.storage, "runs", "r", "logs", "chief-0.log")
    assert log.read_text() == "['-c', '--help', '--', 'CONFIG=x']\n"
