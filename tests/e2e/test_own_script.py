"""Stock Estimator scripts under `estimator-pipeline run`: the docs' example, and lost processes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys

import pytest

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import ROOT, child_environment, is_alive, wait_until

# A hook that makes each step take a while, so that there is time for a kill.
SLOW = """
import time

class Slow(tf.estimator.SessionRunHook):
    def after_run(self, context, values):
        time.sleep(0.05)

"""


def example():
    """The script and the command of the page."""
    page = (ROOT / "docs" / "own-script.md").read_text().partition("\n## With ")[0]
    [script] = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    [command] = re.findall(r"^```sh\n(estimator-pipeline run .*?)^```$", page, re.M | re.S)
    return script, shlex.split(command)


@pytest.mark.slow
def test_the_example_of_the_docs_trains_as_printed(tmp_path):
    script, command = example()
    (tmp_path / "train.py").write_text(script)
    bin_ = pathlib.Path(sys.executable).parent
    assert command[0] == "estimator-pipeline"
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *command[1:]],
        cwd=tmp_path,
        env={**child_environment(), "PATH": f"{bin_}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    [run] = (tmp_path / "output" / "runs").iterdir()
    record = json.loads((run / "run.json").read_text())
    # An asynchronous last step may be beyond by one for each process that trains.
    assert 1000 <= record["final_step"] <= 1002
    assert (record["topology"], record["restarts"]) == (
        {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1},
        [],
    )
    assert record["metrics"]["eval"]["average_loss"] < 0.1
    assert record["reason"] == "the chief ended well"  # the evaluator has ended by itself
    assert "training: 1,000 steps made" in done.stdout


@pytest.mark.slow
def test_a_lost_worker_and_a_lost_server_come_back(tmp_path):
    script = example()[0].replace("\ndef rows", f"{SLOW}\ndef rows")
    script = script.replace("max_steps=given.steps", "max_steps=given.steps, hooks=[Slow()]")
    assert script.count("Slow") == 2
    (tmp_path / "train.py").write_text(script)
    options = ["--workers=1", "--ps=1", "--run=r", f"--storage={tmp_path}/output"]
    command = ["run", *options, "--", sys.executable, "train.py", "--model_dir=model"]
    run = RunFolder(str(tmp_path / "output" / "runs" / "r"))
    with subprocess.Popen(
        [sys.executable, "-m", "pipeline", *command, "--steps=1500"],
        cwd=tmp_path,
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        _after_step(run, 0)
        lost = _kill(run, "worker-0")
        _restarted(run, 1)
        _after_step(run, 300)
        lost += _kill(run, "ps-0")
        out, _ = running.communicate(timeout=1800)
    assert running.returncode == 0, out
    record = json.loads(pathlib.Path(run.record_path).read_text())
    assert [one["role"] for one in record["restarts"]][:2] == ["worker", "ps"]
    assert run_folder.saved_step(RunFolder(str(tmp_path / "model"))) >= 1500
    assert not [pid for pid in lost if is_alive(pid)]


def _after_step(run, step):
    def made():
        status = run_folder.read_status(run, "chief-0")
        return status is not None and status.has_stepped and status.step > step

    wait_until(made, 900)


def _restarted(run, count):
    path = pathlib.Path(run.record_path)
    wait_until(lambda: len(json.loads(path.read_text())["restarts"]) >= count, 300)


def _kill(run, name):
    """Kills the script's own process in a role, from outside; returns it and what starts it."""
    pid = run_folder.read_status(run, name).pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [child] = map(int, children)
    os.kill(child, signal.SIGKILL)
    return [pid, child]
