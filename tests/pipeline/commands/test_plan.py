"""What `make plan` refuses before it trains, and a small calibration that really trains."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pipeline.processes import isolation
from tests.pipeline.process_help import ROOT, child_environment
from tests.support import commands

MOST_1 = ("--set=cluster.workers=1", "--set=cluster.max_workers=1")


def run(tmp_path, *words):
    return commands.run("pipeline", "plan", f"--storage={tmp_path / 'out'}", *words)


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
        (
            (
                "--config=mnist",
                "--strategy=parameter_server_sync",
                "--set=cluster.strategy=parameter_server_sync",
                "--set=cluster.backup_workers=1",
                "--workers=64",
            ),
            "--strategy=parameter_server_sync: steps that do not wait for all processes are not "
            "predicted; plan with cluster.backup_workers=0",
        ),
        (
            ("--config=mnist", "--set=train.optimizer.average=0.99", "--workers=2", "--ps=2"),
            "--workers=2 --ps=2: train.optimizer.average: 2 parameter servers share large",
        ),
        (
            ("--config=mnist", "--set=cluster.strategy=parameter_server", *MOST_1, "--workers=2,3"),
            "--workers=2: cluster.max_workers: 1 is less than the 2 workers that",
        ),
        (
            ("--config=mnist", "--set=cluster.strategy=parameter_server", *MOST_1, "--workers=1"),
            "--calibrate_workers=2 --calibrate_ps=1: cluster.max_workers: 1 is less than the 2 wor",
        ),
        (("--config=mnist", "--target=speed=9"), "--target='speed=9': must be one of examples_per"),
        (("--config=mnist", "--target=hours=0"), "'0' must be a number above 0"),
        (("--config=mnist", "--machine=n1-standard"), "--machine=n1-standard: must be among n1-"),
        (("--config=mnist", "--seconds=1"), "--seconds=1"),
        (("--config=mnist", "--disk=nan"), "--disk=nan: must be a finite number"),
        (("--config=mnist", "--preemptions=inf"), "--preemptions=inf: must be a finite number"),
        (("--config=mnist", "--cores=0"), "--cores=0: must be a number >= 0.1"),
        (
            ("--config=mnist", "--target=usd=2"),
            "--target=usd=2: needs --machine=, what each process costs, among n1-",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, message):
    assert message in commands.read_error_line(run(tmp_path, *words))
    assert not (tmp_path / "out").exists()


def test_a_link_is_refused_where_bytes_cannot_be_counted(tmp_path):
    code = (
        "from pipeline import cli\nfrom pipeline.commands import plan\n"
        "from pipeline.processes import isolation\n"
        "isolation.find_obstacle = lambda: 'the system permits no network namespaces'\n"
        "cli.run(plan.main)"
    )
    words = ("--config=mnist", "--strategy=multi_worker_mirrored", "--link=5")
    done = subprocess.run(
        [sys.executable, "-c", code, *words, f"--storage={tmp_path / 'out'}"],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 64
    assert done.stderr == (
        "error: --link=5: what processes of multi_worker_mirrored send each other is counted in a "
        "network of the run's own, which cannot be made here: the system permits no network "
        "namespaces. Plan it without --link\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_bucket_is_refused():
    line = commands.read_error_line(
        commands.run("pipeline", "plan", "--config=mnist", "--storage=gs://b/x")
    )
    assert "calibration runs here; give a local folder" in line


def test_make_takes_no_config_for_granted():
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    made = subprocess.run(
        ["make", "--silent", "plan"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert made.stdout == ""
    assert made.stderr.startswith("error: name the job to plan: make plan CONFIG=")


@pytest.mark.matrix
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
    assert found["further_server"]["server"] > 0
    assert "each further server takes" in done.stdout
    for one in found["runs"]:
        # 784 x 100 and 100 x 10 numbers with their biases, of 4 bytes, in either direction. Steps
        # are known to a second or so, of the four in which bytes are counted.
        assert one["pulled"] == pytest.approx(318_040, rel=0.4)
        assert one["pushed"] == pytest.approx(318_040, rel=0.4)
        assert 0 < one["worker_cpu"] < 1
        assert 0 < one["server_cpu"] < one["worker_cpu"]
        assert one["checkpoint_bytes"] >= 318_040
    page = (folder / "plan.html").read_text()
    assert "Throughput" in page
    assert "planned for the same cores, the price of n1-standard-4" in page


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.skipif(isolation.find_obstacle() is not None, reason="no network of a run's own here")
def test_what_processes_send_each_other_is_counted_and_limits_them(tmp_path):
    words = ("--strategy=multi_worker_mirrored", "--workers=1,2", "--seconds=4", "--link=1")
    done = run(tmp_path, "--config=mnist_mlp", *words)
    assert done.returncode == 0, done.stderr
    assert "counted in the run's own network" in done.stdout
    [path] = (tmp_path / "out" / "plan").glob("*/plan.json")
    plan = json.loads(path.read_text())
    [found] = plan["calibration"]
    for one in found["runs"]:
        processes = one["workers"] + 1
        ring = 2 * (processes - 1) / processes
        assert one["pushed"] == pytest.approx(318_040 * ring, rel=0.4)
    for one in plan["topologies"]:
        assert one["predicted"]["bottleneck"] == "worker link"
        processes = one["predicted"]["workers"] + 1
        step = found["examples_per_process"] * processes / one["predicted"]["rate"]
        assert step > 0.6 * 318_040 * 2 * (processes - 1) / processes / 125_000
