"""Jobs that go into the queue again: when their time is up, or because Slurm has lost a node."""

from __future__ import annotations

import os
import time

from pipeline.jobs.job import Job
from pipeline.launchers.slurm import commands
from pipeline.launchers.slurm.settings import Slurm
from pipeline.runs import fatal, run_folder

# {"submission": str, "step": newest that was saved, "useless": starts since without a newer one}
_REQUEUES = "slurm/requeues.json"
_MOST_USELESS = 3
# How long Slurm may take to end a job that is to go into the queue again.
_END_BY_SLURM = 600.0


def end_asked(job: Job, number: str) -> str | None:
    """Puts the job into the queue again, if Slurm has asked it to end because its time is up; then
    Slurm ends this process.

    Otherwise returns why the run ends here, or `None` if the job was cancelled, requeued or asked
    for another number of workers by another command: then there is nothing to record.
    """
    state, _ = commands.state(number)
    if state != "RUNNING" or job.run.read(run_folder.SCALE) is not None:
        return None
    if not Slurm.of(job.config).requeue:
        return "slurm.requeue is off"
    submission, saved = os.environ.get(fatal.SUBMISSION), run_folder.saved_step(job.run)
    known = job.run.read(_REQUEUES) or {}
    same = known.get("submission") == submission and known.get("step") == saved
    useless = int(known.get("useless", 0)) + 1 if same else 0
    if useless >= _MOST_USELESS:
        return f"{useless} starts in a row saved no newer step: give it more time (slurm.time)"
    job.run.write(_REQUEUES, {"submission": submission, "step": saved, "useless": useless})
    print("time is up: the job goes into the queue again, and resumes from there", flush=True)
    commands.ask("scontrol", "requeue", number)
    time.sleep(_END_BY_SLURM)
    return "Slurm has not put it into the queue again"
