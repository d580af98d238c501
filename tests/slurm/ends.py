"""How a job on Slurm ends, as it should."""

from __future__ import annotations

import pathlib

from pipeline.runs import run_folder


def await_end(run, process) -> str:
    """Returns what the command has said when the job is done as it should."""
    said, _ = process.communicate()
    assert process.returncode == 0, f"{said}\n{run.describe()}"
    return said


def check_done(run, steps: int) -> None:
    result = run.folder.read(run_folder.RESULT)
    assert result["final_step"] >= steps
    assert run.record.status == "done"
    finals = list(pathlib.Path(run.folder.exports, "final").glob("*/saved_model.pb"))
    assert len(finals) == 1
