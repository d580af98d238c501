"""Jobs for Google Cloud, planned without asking anybody."""

from __future__ import annotations

from pipeline.jobs import job
from pipeline.jobs.job import Job

PLACE = (
    "gcp.project=my-project",
    "gcp.region=europe-west4",
    "gcp.bucket=my-bucket",
    "gcp.image=europe-west4-docker.pkg.dev/my-project/images/estimator-pipeline:1",
)


def plan(*overrides: str, storage_root: str = "gs://my-bucket/root") -> Job:
    """Returns the MNIST job with overrides like those of `--set`."""
    return job.plan("mnist", [*PLACE, *overrides], run="r1", storage_root=storage_root, look=False)
