"""A config that is part of a job, so that the job can be submitted by hand as it was shown."""

from __future__ import annotations

from pipeline import errors
from pipeline.config import config_file
from pipeline.jobs.job import Job

VARIABLE = "PIPELINE_CONFIG"
# What processes take in the place of the path of a config.
NAME = f"{config_file.IN_VARIABLE}{VARIABLE}"
# Linux takes 131,072 bytes of one variable.
_MOST = 120_000


def text(job: Job) -> str:
    """Returns the config of a job. Raises `UsageError` for one that must not, or cannot, be in an
    environment variable."""
    secret = [line.partition(" looks like ")[0] for line in config_file.warnings(job.config)]
    if secret:
        raise errors.UsageError(
            f"DRY_RUN=1: {secret[0]} looks like a secret, and the config would be in the job that "
            "is shown. Let your code read it from the environment or a file: docs/security.md"
        )
    found = config_file.dump(job.config)
    size = len(found.encode())
    if size > _MOST:
        raise errors.UsageError(
            f"DRY_RUN=1: the config has {size:,} bytes, and a job can hold {_MOST:,}. Submit it "
            "without DRY_RUN"
        )
    return found
