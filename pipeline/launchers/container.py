"""A process of a job in the image of the `Dockerfile`: what it is started with."""

from __future__ import annotations

import types
from collections.abc import Mapping

from pipeline.jobs.job import Job
from pipeline.processes.environment import DEFAULTS
from pipeline.runs import fatal, submitted_code

MODULE = "trainer.task"


def arguments(job: Job, config_path: str) -> list[str]:
    """Returns what each process is started with; its place in the cluster it is told otherwise."""
    return [
        "-m",
        MODULE,
        f"--config={config_path}",
        f"--run={job.name}",
        f"--storage={job.storage_root}",
    ]


def environment(
    job: Job, submission: str, more: Mapping[str, str] = types.MappingProxyType({})
) -> list[dict[str, str]]:
    """Returns the environment variables of each process, with those that the place adds."""
    ours = {
        fatal.SUBMISSION: submission,
        submitted_code.VARIABLE: submitted_code.variable(job.config),
    }
    variables = {**DEFAULTS, **more, **ours}
    return [{"name": name, "value": value} for name, value in variables.items()]
