"""Jobs that go into the queue again: when their time is up, or because Slurm has lost a node."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

from pipeline import errors
from pipeline.jobs.job import Job
from pipeline.launchers.slurm import agent, commands
from pipeline.launchers.slurm.settings import Slurm
from pipeline.runs import fatal, run_folder
from pipeline.runs.run_folder import RunFolder

# {"submission": str, "step": newest that was saved, "useless": starts since without a newer one}
_REQUEUES = "slurm/requeues.json"
_MOST_USELESS = 3
# How long Slurm may take to end a job that is to go into the queue again.
_END_BY_SLURM = 600.0
# How often Slurm is asked whether this program still has its job, and seconds in between.
_LOOKS, _PAUSE = 30, 10.0


def has_job(run: RunFolder, number: str, *, wait: Callable[[float], object] = time.sleep) -> bool:
    """False if Slurm has ended the job, or has put it into the queue again, maybe because this node
    is lost: then what happens here is not how the run ends.

    If the controller does not answer, what counts is whether another start has begun.
    """
    for _ in range(_LOOKS):
        try:
            shown = commands.ask("scontrol", "--oneliner", "show", "job", number)
        except errors.RetryableError:
            wait(_PAUSE)
            continue
        except errors.UsageError:  # forgotten
            return False
        state, restarts = re.search(r" JobState=(\w+)", shown), re.search(r" Restarts=(\d+)", shown)
        start = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        is_over = state is not None and state[1] in (*commands.ENDED, *commands.WAITING)
        return not is_over and (restarts is None or int(restarts[1]) == start)
    current = run.impatient.read(agent.CURRENT)
    return current is None or current["start"] == agent.start_of(os.environ)


def end_asked(job: Job, number: str) -> str | None:
    """Puts the job into the queue again, if Slurm has asked it to end because its time is up; then
    Slurm ends this process.

    Otherwise returns why the run ends here, or `None` if another command has asked for another
    number of workers: then there is nothing to record.
    """
    if job.run.read(run_folder.SCALE) is not None:
        return None
    if not Slurm.of(job.config).requeue:
        return "slurm.requeue is off"
    submission, saved = os.environ.get(fatal.SUBMISSION), run_folder.find_saved_step(job.run)
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
