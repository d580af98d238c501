"""Kubernetes: the job is a TFJob for a legacy operator, and is only shown."""

from __future__ import annotations

import dataclasses
import secrets

import yaml

from pipeline import errors
from pipeline.config import config_file
from pipeline.jobs.job import Job
from pipeline.launchers import base, image
from pipeline.launchers.k8s import tfjob
from pipeline.runs.run_record import RunRecord

_LEGACY = "# For the Training Operator v1, a legacy one: its successor has no TFJob.\n"


@dataclasses.dataclass(frozen=True)
class TfJobLauncher(base.Launcher):
    """Shows what `kubectl apply` takes, and submits nothing."""

    def run(self, job: Job, *, started: float) -> RunRecord:
        """Raises `UsageError`."""
        raise errors.UsageError(
            "CLUSTER=k8s: the job is only shown, with DRY_RUN=1; what that prints is for kubectl "
            "apply"
        )

    def show(self, job: Job) -> base.Shown:
        """Returns the documents, of a submission of their own: they are submitted as shown."""
        # Never like a number: of 1e5, kubectl makes one.
        documents = tfjob.documents(job, f"tfjob-{secrets.token_hex(8)}")
        manifest = yaml.safe_dump_all(documents, sort_keys=False)
        notes = [image.described(), *(f"warning: {w}" for w in config_file.warnings(job.config))]
        return base.Shown(_LEGACY + manifest.rstrip(), "\n\n".join(notes))
