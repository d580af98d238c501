"""The output of a job: what its script prints, and the programs that the script starts."""

from __future__ import annotations

from pipeline import storage
from pipeline.launchers.slurm import script
from pipeline.runs import log_reader
from pipeline.runs.run_folder import RunFolder

_ERROR = "error: "


def find_last_error(run: RunFolder) -> str:
    """Returns the newest error in the output of a run's job; empty if the output is not here."""
    if not storage.exists(run.log_path(script.LOG)):
        return ""
    lines = log_reader.Logs(run, script.LOG).read_new_lines(last=True)
    found = [line for line in lines if line.startswith(_ERROR)]
    return found[-1].removeprefix(_ERROR) if found else ""
