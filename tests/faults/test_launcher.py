"""The whole command with the real trainer: killed, run again, and in a hostile environment."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.faults import injected
from tests.pipeline.process_help import ROOT, child_environment, is_alive, wait_until

AWS, GOOGLE, PASSWORD = "AKIAIOSFODNN7EXAMPLE", "ya29.a0AfH6SMB_planted", "hunter2-planted"


@pytest.fixture
def command(small_records, tmp_path):
    """Starts `pipeline.launch` on the small records, which are there already."""
    with contextlib.ExitStack() as ended:

        def start(run, *overrides, **environment):
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pipeline.launch", f"--run={run}"),
                    *(f"--config={small_records.config_path}", "--strategy=parameter_server"),
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


def test_a_killed_launcher_leaves_no_process_and_the_same_command_goes_on(command, small_records):
    """Traps A36."""
    settings = ("train.steps=400", "train.save_steps=50", f"train.hooks=[{injected.HOOK}]")
    folder = pathlib.Path(small_records.storage) / "runs" / "killed"
    folder.mkdir(parents=True)
    environment = {"PIPELINE_FAULTS": str(folder)}
    # Paced, so that it is killed within training.
    (folder / "faults.json").write_text('{"faults": [], "pace": 0.02}')
    process, _ = command("killed", *settings, **environment)

    def trains():
        found = statuses(folder)
        return len(found) == 4 and (found["worker-0"]["step"] or 0) > 0 and found

    pids = [status["pid"] for status in wait_until(trains, seconds=60).values()]
    assert all(map(is_alive, pids))
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), seconds=10)
    (folder / "faults.json").write_text('{"faults": [], "pace": 0.0}')
    process, _ = command("killed", *settings, **environment)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    assert output.startswith("resuming run killed")
    assert json.loads((folder / "run.json").read_text())["final_step"] >= 400


def test_proxies_and_secrets_do_no_harm_and_a_finished_run_is_left_alone(command):
    settings = ("train.steps=60", "train.save_steps=50", f"model.params.password={PASSWORD}")
    hostile = {
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": f"http://me:{PASSWORD}@127.0.0.1:9",
        "grpc_proxy": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": AWS,
        "PIPELINE_SHOWN": f"{AWS} {GOOGLE} password={PASSWORD}",
    }
    hook = "train.hooks=[tests.faults.injected:TellTale]"
    process, folder = command("hostile", *settings, hook, **hostile)
    output, _ = process.communicate(timeout=90)
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
