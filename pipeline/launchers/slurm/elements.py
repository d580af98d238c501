"""The runs of an array: the same job with other seeds, each a run of its own. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.jobs.job import Job
from pipeline.launchers.slurm.settings import Slurm
from pipeline.records import builds
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

_SEEDS = 2**32


def folder_of(run: RunFolder, index: int) -> RunFolder:
    """Returns the folder of one run of an array, which has no folder itself."""
    return dataclasses.replace(run, path=f"{run.path}-{index}")


def run_of(job: Job, index: int) -> Job:
    """Returns one run of an array. Raises `UsageError` if it was trained on other data or another
    model."""
    train = job.config.train.model_copy(update={"seed": (job.config.train.seed + index) % _SEEDS})
    slurm = Slurm.of(job.config).model_copy(update={"array": None})
    name = f"{job.name}-{index}"
    run = RunFolder(run_folder.run_folder(job.storage_root, name))
    one = dataclasses.replace(
        job,
        config=job.config.model_copy(update={"train": train, "slurm": slurm}),
        name=name,
        run=run,
        records=builds.find_run_build(job.storage_root, run, job.config.name),
    )
    jobs.refuse_other_job(one)
    return one


def select_runs(job: Job, indexes: Collection[int]) -> Job:
    """Returns an array without its other runs."""
    slurm = Slurm.of(job.config)
    if set(indexes) == set(slurm.indexes):
        return job
    _, percent, at_once = (slurm.array or "").partition("%")
    array = f"{','.join(map(str, sorted(indexes)))}{percent}{at_once}"
    asked = slurm.model_copy(update={"array": array})
    return dataclasses.replace(job, config=job.config.model_copy(update={"slurm": asked}))


def index_of(variables: Mapping[str, str]) -> int:
    """Returns which run of an array this job is. Raises `UsageError` outside of one."""
    try:
        return int(variables["SLURM_ARRAY_TASK_ID"])
    except (KeyError, ValueError):
        raise errors.UsageError(
            "SLURM_ARRAY_TASK_ID is not set: this script is of an array. Give it to sbatch"
        ) from None
