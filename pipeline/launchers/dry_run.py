"""What DRY_RUN=1 shows: the job as it would be sent, what is in its package, what it costs."""

from __future__ import annotations

import dataclasses
import json
import secrets

import yaml

from pipeline import errors
from pipeline.config import config_file
from pipeline.jobs.job import Job
from pipeline.launchers import Place, image, k8s
from pipeline.launchers.slurm import script
from pipeline.launchers.vertex import job_spec, price_list

# Stands for what only a submission has; what is shown of a TFJob is what will be submitted.
_SUBMISSION = "dry-run"


@dataclasses.dataclass(frozen=True)
class Shown:
    """`document` is for a program, whole; `notes` are for whoever reads along."""

    document: str
    notes: str


def show(place: Place, job: Job) -> Shown:
    """Returns what is shown of a job. Needs no credentials, and asks nobody.

    Raises `UsageError` for a config that the place cannot run, or a place that renders nothing.
    """
    if place is Place.GCP:
        gcp = job.config.gcp
        body = json.dumps(job_spec.render(job, _SUBMISSION), indent=2)
        url = f"https://{gcp.region}-aiplatform.googleapis.com/v1"
        head = f"POST {url}/projects/{gcp.project}/locations/{gcp.region}/customJobs"
        cost = price_list.estimate(job.counts, gcp, price_list.read())
        return Shown(
            body, "\n\n".join([f"would {head}, with the JSON above", image.described(), cost])
        )
    if place is Place.K8S:
        # Never like a number: of 1e5, kubectl makes one.
        documents = k8s.documents(job, f"tfjob-{secrets.token_hex(8)}")
        manifest = yaml.safe_dump_all(documents, sort_keys=False)
        legacy = "# For the Training Operator v1, a legacy one: its successor has no TFJob.\n"
        notes = [image.described(), *(f"warning: {w}" for w in config_file.warnings(job.config))]
        return Shown(legacy + manifest.rstrip(), "\n\n".join(notes))
    if place is Place.SLURM:
        notes = [f"warning: {w}" for w in config_file.warnings(job.config)]
        document = script.render(job, _SUBMISSION).rstrip()
        return Shown(document, "\n".join(["would give the script above to sbatch", *notes]))
    raise errors.UsageError("DRY_RUN=1: shows jobs for CLUSTER=gcp, CLUSTER=k8s and CLUSTER=slurm")
