"""Scripts of the docs under `estimator-pipeline run`: slowed down, waited for, and killed."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import ROOT, child_environment, wait_until

_HURRY = "hurry"
_SLOW = f"""
import os, time

class Slow(tf.estimator.SessionRunHook):
    def after_run(self, context, values):
        time.sleep(0 if os.path.exists("{_HURRY}") else 0.05)

"""


def read_parts() -> tuple[str, str]:
    """Returns the page on scripts: that of stock scripts, and that of `trainer.run`."""
    before, _, after = (ROOT / "docs" / "own-script.md").read_text().partition("\n## With ")
    return before, after


def read_script(part: str) -> str:
    """Returns the script that a part of the page shows."""
    [found] = re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S)
    return found


def slow_steps(text: str, call: str, slow: str) -> str:
    """Returns a script whose steps take so long that there is time for a kill. `call` is a piece of
    it, which becomes `slow`, with `hooks=[Slow()]`."""
    found = text.replace("\ndef rows", f"{_SLOW}\ndef rows").replace(call, slow)
    assert found.count("Slow") == 2
    return found


def hurry_steps(folder: pathlib.Path) -> None:
    """Has the steps of the script in a folder take no longer than they must, once a test has seen
    what it is about."""
    (folder / _HURRY).touch()


def build_environment() -> dict[str, str]:
    """Returns an environment with the programs of this Python."""
    bin_ = pathlib.Path(sys.executable).parent
    given = child_environment()
    return {**given, "PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def start(folder: pathlib.Path, *options: str) -> subprocess.Popen[str]:
    """Starts `estimator-pipeline run` with a chief, a worker and a parameter server, in a folder
    with a `train.py`; `options` are those after the script."""
    own = ["run", "--run=r", "--workers=1", "--ps=1", "--", sys.executable, "train.py"]
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *own, *options],
        cwd=folder,
        env=build_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_record(folder: pathlib.Path, name: str) -> dict:
    """Returns the record of a run."""
    return json.loads((folder / "output" / "runs" / name / "run.json").read_text())


def wait_for_step(run: RunFolder, step: int) -> None:
    """Returns once the chief has made more steps than `step` since it was started last."""

    def has_made() -> bool:
        status = run_folder.read_status(run, "chief-0")
        trains = status is not None and status.state == "training"
        return trains and status.has_stepped and status.step > step

    wait_until(has_made, 900)


def wait_for_restarts(run: RunFolder, count: int) -> None:
    """Returns once the record has so many restarts."""
    path = pathlib.Path(run.record_path)
    wait_until(lambda: len(json.loads(path.read_text())["restarts"]) >= count, 300)


def kill(run: RunFolder, name: str) -> list[int]:
    """Kills the script's own process in a role, from outside; returns it and what starts it."""
    pid = run_folder.read_status(run, name).pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [child] = map(int, children)
    os.kill(child, signal.SIGKILL)
    return [pid, child]
