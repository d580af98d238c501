"""A machine in the attic: trains once there are machines, until it is asked to stop."""

from __future__ import annotations

import json
import pathlib
import sys

from pipeline.cluster.topology import Task
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.pipeline import fake_roles
from tests.pipeline.process_help import wait_until

if __name__ == "__main__":
    state = pathlib.Path(sys.argv[1])
    run = RunFolder(json.loads(state.read_text())["run"])
    wait_until((state.parent / "machines").exists, 600)
    chief = Task("chief", 0)
    log = pathlib.Path(run.log_path(chief.name))
    log.parent.mkdir(exist_ok=True)
    log.write_text("a word from the attic\n")
    fake_roles.say(run, chief, "training", step=7, loss=0.5)
    state.write_text('{"state": "running"}')
    wait_until(lambda: run.read(run_folder.STOP), 600)
    run.write(run_folder.TRAINING_DONE, {"final_step": 7, "reason": "stop requested"})
    run.write(run_folder.RESULT, {"final_step": 7, "metrics": {"test": {"accuracy": 0.5}}})
    fake_roles.say(run, chief, "done", step=7)
    state.write_text('{"state": "finished"}')
