"""The whole command with the real trainer: killed, run again, and in a hostile environment."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

from pipeline.processes import isolation
from tests.faults import injected, verdict, witness
from tests.faults.conftest import check_ledger
from tests.pipeline.process_help import ROOT, child_environment, is_alive, wait_until

AWS, GOOGLE, PASSWORD = "AKIAIOSFODNN7EXAMPLE", "ya29.a0AfH6SMB_planted", "hunter2-planted"


@pytest.fixture
def command(small_records, tmp_path):
    """Starts `pipeline.launch` on the small records, which are there already."""
    with contextlib.ExitStack() as ended:

        def start(run, *overrides, **environment):
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "pipeline.launch",
                    f"--run={run}",
                    f"--config={small_records.config_path}",
                    "--strategy=parameter_server",
                    f"--storage={small_records.storage}",
                    *(f"--set={override}" for override in overrides),
                ],
                cwd=ROOT,
                env={**child_environment(), **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            ended.callback(process.wait)
            ended.callback(process.kill)
            return process, pathlib.Path(small_records.storage) / "runs" / run

        yield start


def statuses(folder: pathlib.Path) -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("status/*.json")}


def check_ports(pid: int) -> None:
    """TensorFlow listens on all addresses, whatever it is told; in a network of its own that harms
    nobody. If the first is not so any more, the documentation is wrong
    (docs/tensorflow-pitfalls.md#servers-on-all-addresses)."""
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()]
    rows += [
        line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp6").read_text().splitlines()
    ]
    inodes = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:[")
    }
    listening = [row[1].split(":") for row in rows if row[3] == "0A" and row[9] in inodes]
    assert listening and all(set(address) == {"0"} for address, _ in listening), rows
    for _, port in listening:
        with socket.socket() as outside:
            reached = outside.connect_ex(("127.0.0.1", int(port, 16))) == 0
        assert reached is (isolation.find_obstacle() is not None)


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_process_and_the_same_command_resumes(command, small_records):
    """See docs/tensorflow-pitfalls.md#orphaned-processes."""
    settings = (
        "train.steps=400",
        "train.save_steps=50",
        f"train.hooks=[{injected.HOOK}]",
        *witness.SETTINGS,
    )
    folder = pathlib.Path(small_records.storage) / "runs" / "killed"
    folder.mkdir(parents=True)
    environment = {"PIPELINE_FAULTS": str(folder)}
    # Paced, so that it is killed within training.
    (folder / "faults.json").write_text('{"faults": [], "pace": 0.02}')
    process, _ = command("killed", *settings, **environment)

    def trains():
        found = statuses(folder)
        return len(found) == 4 and (found["worker-0"]["step"] or 0) > 0 and found

    pids = [status["pid"] for status in wait_until(trains, seconds=180).values()]
    assert all(map(is_alive, pids))
    check_ports(statuses(folder)["ps-0"]["pid"])
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)))
    (folder / "faults.json").write_text('{"faults": [], "pace": 0.0}')
    process, _ = command("killed", *settings, **environment)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert output.startswith("resuming run killed")
    job = small_records.config("cluster.strategy=parameter_server", *settings)
    found = verdict.examine(str(folder), small_records.folder, job, pids=pids)
    assert not found.wrong
    check_ledger(json.loads((folder / "run.json").read_text())["input"], twice=found.bound)


@pytest.mark.slow
def test_proxies_and_secrets_do_no_harm_and_a_finished_run_is_left_alone(command):
    settings = ("train.steps=60", "train.save_steps=50", f"model.params.password={PASSWORD}")
    # It takes any params; those of the shipped models are checked.
    settings += ("model.name=tests.trainer.user_code:model_fn", "eval.metric=hit_rate")
    hostile = {
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": f"http://me:{PASSWORD}@127.0.0.1:9",
        "grpc_proxy": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": AWS,
        "PIPELINE_SHOWN": f"{AWS} {GOOGLE} password={PASSWORD}",
    }
    hook = "train.hooks=[tests.faults.injected:TellTale]"
    process, folder = command("hostile", *settings, hook, **hostile)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    record = (folder / "run.json").read_text()
    assert json.loads(record)["status"] == "done"
    logs = {path: path.read_text() for path in folder.glob("logs/*.log")}
    assert (
        "its environment: [hidden] [hidden] password=[hidden]" in logs[folder / "logs/chief-0.log"]
    )
    for text in (output, record, *logs.values(), *map(str, statuses(folder).values())):
        assert not [secret for secret in (AWS, GOOGLE, PASSWORD) if secret in text], text

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    process, _ = command("hostile", *settings, hook, **hostile)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.startswith("run hostile is already finished; nothing to do")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
