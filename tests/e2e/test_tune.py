"""Searches whose trials are trained for real: killed and continued, they end like any other."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import pytest

from pipeline.runs import tags
from pipeline.runs.run_folder import RunFolder, find_saved_step
from tests.pipeline.process_help import ROOT, child_environment, wait_until


def command(small_records, storage, *words):
    space = storage / "space.yaml"
    space.write_text("train.optimizer.learning_rate: {low: 1e-2, high: 2, log: true}\n")
    given = [f"--config={small_records.storage / 'small.yaml'}", f"--space={space}"]
    given += [f"--storage={storage}", "--set=train.steps=18", "--set=train.save_steps=18"]
    return [sys.executable, "-m", "pipeline", "tune", *given, "--run=s", *words]


def start(words):
    return subprocess.Popen(
        words, cwd=ROOT, env=child_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finished(words, code=0):
    process = start(words)
    output, _ = process.communicate(timeout=500)
    assert process.returncode == code, output.decode()
    return output.decode()


def assert_best_is_printed(output, found):
    """The command that trains the best trial again is said as it would be typed."""
    (again,) = [line for line in output.splitlines() if line.startswith("again ")]
    assert "estimator-pipeline train --config=" in again
    settings = re.search("'(train.steps=.*?)'", found["best"]["command"])[1].split()
    assert len(settings) > 1 and all(f" --set={setting}" in again for setting in settings)


def test_a_trial_is_trained_and_its_result_written(small_records, tmp_path):
    output = finished(command(small_records, tmp_path, "--trials=1", "--method=full"))
    found = json.loads((tmp_path / "tune" / "s" / "tune.json").read_text())
    assert found["best"]["run"] == "s-000"
    assert found["trials"][0]["rungs"][0]["step"] == 18
    assert_best_is_printed(output, found)
    assert tags.read(RunFolder(str(tmp_path / "runs" / "s-000"))) == ("s",)


@pytest.mark.matrix
@pytest.mark.slow
def test_a_search_that_is_killed_and_interrupted_ends_as_planned(small_records, tmp_path):
    words = command(small_records, tmp_path, "--trials=3", "--parallel=2", "--rungs=2")
    killed = start(words)
    wait_until(
        lambda: find_saved_step(RunFolder(str(tmp_path / "runs" / "s-000"))) is not None, 200
    )
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    interrupted = start(words)
    wait_until(lambda: (tmp_path / "runs" / "s-002" / "config.yaml").exists(), 200)
    interrupted.send_signal(signal.SIGINT)
    output, _ = interrupted.communicate(timeout=200)
    assert interrupted.returncode == 75, output.decode()
    assert b"Run the same command to resume" in output

    finished(words)
    found = json.loads((tmp_path / "tune" / "s" / "tune.json").read_text())
    steps = sorted([rung["step"] for rung in one["rungs"]] for one in found["trials"])
    assert steps == [[6], [6], [6, 18]]
    assert found["examples"] == 18 * 100 + 2 * 6 * 100
    assert [one["counted"] for one in found["records"]] == [3, 1]
    again = finished([*words[:-3], "--trials=3", "--rungs=2"])
    assert_best_is_printed(again, found)
    other = finished([*words, "--seed=2"], code=64)
    assert "the search was begun otherwise (seed: 1 -> 2)" in other
