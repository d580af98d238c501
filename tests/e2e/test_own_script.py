"""Stock Estimator scripts under `estimator-pipeline run`: the docs' example, and lost processes."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import is_alive
from tests.support import scripts


def example():
    """The script and the command of the page."""
    page, _ = scripts.read_parts()
    [command] = re.findall(r"^```sh\n(estimator-pipeline run .*?)^```$", page, re.M | re.S)
    return scripts.read_script(page), shlex.split(command)


@pytest.mark.slow
def test_the_example_of_the_docs_trains_as_printed(tmp_path):
    script, command = example()
    (tmp_path / "train.py").write_text(script)
    assert command[0] == "estimator-pipeline"
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *command[1:]],
        cwd=tmp_path,
        env=scripts.build_environment(),
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
    assert "training: all 1,000 steps made" in done.stdout


@pytest.mark.matrix
@pytest.mark.slow
def test_a_lost_worker_and_a_lost_server_come_back(tmp_path):
    given = "max_steps=given.steps"
    script = scripts.slow_steps(example()[0], given, f"{given}, hooks=[Slow()]")
    (tmp_path / "train.py").write_text(script)
    run = RunFolder(str(tmp_path / "output" / "runs" / "r"))
    with scripts.start(tmp_path, "--model_dir=model", "--steps=400") as running:
        scripts.wait_for_step(run, 0)
        lost = scripts.kill(run, "worker-0")
        scripts.wait_for_restarts(run, 1)
        scripts.wait_for_step(run, 100)
        lost += scripts.kill(run, "ps-0")
        scripts.wait_for_restarts(run, 2)
        scripts.hurry_steps(tmp_path)
        out, _ = running.communicate(timeout=1800)
    assert running.returncode == 0, out
    record = json.loads(pathlib.Path(run.record_path).read_text())
    assert [one["role"] for one in record["restarts"]][:2] == ["worker", "ps"]
    assert run_folder.find_saved_step(RunFolder(str(tmp_path / "model"))) >= 400
    assert not [pid for pid in lost if is_alive(pid)]
