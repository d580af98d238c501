"""What `make plan` refuses before it trains, and a small calibration that really trains."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.pipeline.process_help import ROOT, child_environment


def run(tmp_path, *words):
    command = [sys.executable, "-m", "pipeline", "plan", f"--storage={tmp_path / 'out'}", *words]
    return subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--config=... is missing"),
        (("--config=mnst",), "mnst"),
        (("--config=mnist", "--workers=0"), "--workers=0: must be whole numbers from 1, with"),
        (("--config=mnist", "--workers=2,x"), "--workers=2,x: must be whole numbers from 1"),
        (("--config=mnist", "--workers=64"), "--workers=64: 64 is more than four times what is"),
        (("--config=mnist", "--ps=8"), "at most 4, or give --calibrate_ps=2"),
        (("--config=mnist", "--strategy=none"), "--strategy=none: must be among multi_worker_"),
        (
            ("--config=mnist", "--strategy=parameter_servr"),
            "(did you mean 'parameter_server'?)",
        ),
        (("--config=mnist", "--target=speed=9"), "--target='speed=9': must be one of examples_per"),
        (("--config=mnist", "--target=hours=0"), "'0' must be a number above 0"),
        (("--config=mnist", "--machine=n1-standard"), "--machine=n1-standard: must be among n1-"),
        (("--config=mnist", "--seconds=1"), "--seconds=1"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, message):
    done = run(tmp_path, *words)
    assert done.returncode == 64
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_bucket_is_refused():
    command = [sys.executable, "-m", "pipeline", "plan", "--config=mnist", "--storage=gs://b/x"]
    done = subprocess.run(
        command, cwd=ROOT, env=child_environment(), capture_output=True, text=True
    )
    assert done.returncode == 64
    assert "calibration runs here; give a local folder" in done.stderr


def test_make_takes_no_config_for_granted():
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    made = subprocess.run(
        ["make", "--silent", "plan"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert made.stdout == ""
    assert made.stderr.startswith("error: name the job to plan: make plan CONFIG=")


@pytest.mark.slow
def test_a_job_that_cannot_train_ends_with_its_own_line(tmp_path):
    done = run(tmp_path, "--config=mnist_mlp", "--set=model.name=nowhere:model", "--workers=1")
    assert done.returncode == 64
    assert "error: the job cannot be calibrated: " in done.stderr
    assert "nowhere" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_plan_is_made(tmp_path):
    words = ("--workers=1,2,4", "--ps=1,2", "--seconds=4", "--machine=n1-standard-4")
    done = run(tmp_path, "--config=mnist_mlp", *words, "--target=hours=0.000001")
    assert done.returncode == 64, done.stderr
    assert "none of the 6 topologies is sure to reach it; the fastest" in done.stderr
    [folder] = (tmp_path / "out" / "plan").iterdir()
    plan = json.loads((folder / "plan.json").read_text())
    assert len(plan["topologies"]) == 6
    [found] = plan["calibration"]
    for one in found["runs"]:
        # 784 x 100 and 100 x 10 numbers with their biases, of 4 bytes, in either direction. Steps
        # are known to a second or so, of the four in which bytes are counted.
        assert one["pulled"] == pytest.approx(318_040, rel=0.4)
        assert one["pushed"] == pytest.approx(318_040, rel=0.4)
        assert 0 < one["worker_cpu"] < 1
        assert 0 < one["server_cpu"] < one["worker_cpu"]
        assert one["checkpoint_bytes"] >= 318_040
    assert "Throughput" in (folder / "plan.html").read_text()
