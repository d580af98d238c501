"""Seconds from the kill of a process to the next training step, by role.

The CNN through the launcher; one process gets SIGKILL in the middle of training. Measured by the
steps themselves, not by what the launcher reports.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.result import Result

_ROUNDS = 2
_KILL_AT, _STEPS = 70, 200  # between two saves; long enough for who was killed to step again

# Name to strategy, who is killed, whose step shows that training continues, and seconds allowed.
_CASES = {
    "recovery worker": ("parameter_server", "worker-0", "worker-0", 3.0),
    "recovery chief": ("parameter_server", "chief-0", "chief-0", 6.0),
    "recovery ps": ("parameter_server", "ps-0", "chief-0", 6.0),
    "recovery gang": ("multi_worker_mirrored", "worker-0", "chief-0", 8.0),
}


def run(storage_root: str) -> list[Result]:
    """Kills one process a run."""
    results = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        for number, (name, (strategy, killed, watched, goal)) in enumerate(_CASES.items()):
            seconds = [
                _time_recovery(
                    folder, f"kill-{number}-{again}", strategy, killed=killed, watched=watched
                )
                for again in range(_ROUNDS)
            ]
            results.append(
                Result(
                    name=name,
                    value=statistics.median(seconds),
                    unit="s",
                    against=goal,
                    goal="<= 1.0",
                    peer=f"the goal; {killed} of {strategy} killed",
                    gap="a graph is built and variables are restored before the next step",
                )
            )
    return results


def _time_recovery(folder: str, run: str, strategy: str, *, killed: str, watched: str) -> float:
    """Returns the time from the kill to the first step that needed the new process."""
    steps = os.path.join(folder, f"{run}.steps")
    path = os.path.join(folder, "runs", run)
    settings = [
        f"train.steps={_STEPS}",
        "train.save_steps=20",
        "train.batch_size=32",
        "eval.throttle_seconds=100000",
        "train.hooks=[benchmarks.kill_once:KillOnce]",
    ]
    command = [sys.executable, "-m", "pipeline.launch", "--config=mnist", f"--run={run}"]
    command += [f"--strategy={strategy}", f"--storage={folder}", *(f"--set={s}" for s in settings)]
    what = {"run": path, "task": killed, "at": _KILL_AT, "steps": steps}
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHON_KILL": json.dumps(what)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    with open(steps, encoding="utf-8") as file:
        kill, *rows = [json.loads(line) for line in file]
    later = [row for row in rows if row["task"] == watched and row["pid"] != kill["pid"]]
    if strategy == "multi_worker_mirrored":
        # The chief is another process too, from then on.
        later = [row for row in later if row["pid"] == later[-1]["pid"]]
    elif killed == "ps-0":
        # What the old server had still answered goes beyond the step of the kill.
        later = [row for row in later if row["step"] <= kill["step"]]
    return float(later[0]["time"] - kill["time"])
