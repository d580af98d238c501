"""Google Cloud: jobs run on Vertex AI.

Their processes are those of `trainer.task` in the image of the `Dockerfile`.
"""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
import urllib.parse
from collections.abc import Mapping
from typing import Any, ClassVar

from pipeline import errors
from pipeline.config import price_table
from pipeline.console import figures
from pipeline.jobs import table_memory
from pipeline.jobs.job import Job
from pipeline.jobs.table_memory import Room
from pipeline.launchers import base, image, image_name, inline_config, remote_records
from pipeline.launchers.gcp import job_spec, price_list, service_client
from pipeline.launchers.gcp.service_client import ENDED, WAITING, Service
from pipeline.launchers.gcp.settings import Gcp
from pipeline.launchers.remote import Phase, RemoteLauncher, State, find_final_error
from pipeline.runs import own_package, run_folder
from pipeline.runs.run_record import RunRecord
from pipeline.storage import gcs_preflight, google_api

# Canonical codes of what a job has failed with: RESOURCE_EXHAUSTED; and of what its user can fix,
# INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED and FAILED_PRECONDITION.
_QUOTA, _OF_USER = 8, (3, 5, 7, 9)
# States of a job that has done its part, if there is a result.
_WELL = ("succeeded", "partially_succeeded")
_PULLING = re.compile(r"\bpull\w*\b[^.]*\bimage\b|\bimage\b[^.]*\bpull", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class GcpLauncher(RemoteLauncher):
    """A launcher for Vertex AI. Its names of jobs are `projects/…/customJobs/…`."""

    poll: float = 15.0
    service: ClassVar[str] = "Vertex AI"

    def prepare(self, job: Job) -> Job:
        """Checks config, storage and records, and returns the job with the build it asks for."""
        gcp = Gcp.of(job.config)
        missing = job_spec.check(job)
        if missing and gcp.package is not None:
            own_package.check(gcp.package, missing, image.packages())
        found = gcs_preflight.check_bucket(job.storage_root, gcp.region)
        for note in [*found, *_list_notes(gcp)]:
            print(f"note: {note}", flush=True)
        return remote_records.attach_records(job)

    def room(self, job: Job) -> Room | None:
        """Returns the memory of a machine, if its type tells."""
        role = table_memory.holder(job.config.cluster)
        machine = Gcp.of(job.config).machine(role)
        if machine.memory is None:
            return None
        size = figures.size(round(machine.memory))
        return Room(machine.memory, f"gcp.machines.{role}.type {machine.type} has at most {size}")

    def begin(self, job: Job, record: RunRecord) -> Job:
        """Pins the run to its records."""
        return remote_records.pin(job, record)

    def submit(self, job: Job, submission: str) -> str:
        """Creates the CustomJob."""
        return _build_service(job).create(job_spec.render(job, submission))

    def find(self, job: Job) -> str | None:
        """Finds the job by its label and its folder."""
        return _build_service(job).find(job_spec.label(job.name), job.run.path)

    def look(self, name: str) -> State:
        """Asks the service."""
        found = service_client.service_of_job(name).get(name)
        state = str(found.get("state", "JOB_STATE_UNSPECIFIED"))
        phase = Phase.ENDED if state in ENDED else Phase.RUNNING
        word = service_client.format_state(state)
        said = str(found.get("error", {}).get("message", ""))
        return State(
            Phase.WAITING if state in WAITING else phase,
            word,
            f"{word}: {said}" if said else word,
            was_cancelled=state == "JOB_STATE_CANCELLED",
            answer=found,
        )

    def cancel(self, name: str) -> None:
        """Cancels the job; nothing is saved first."""
        service_client.service_of_job(name).cancel(name)

    def failure(self, job: Job, name: str, state: State) -> errors.PipelineError | None:
        """Returns the error of the process that failed, or else of the service."""
        if state.word not in _WELL:
            return find_final_error(job) or _explain_failure(job, state)
        if job.run.read(run_folder.RESULT) is None:
            return errors.PipelineError(f"{name}: ended well, but left no {run_folder.RESULT}")
        return None

    def find_blocker(self, job: Job, state: State) -> errors.PipelineError | None:
        """A paused job would be followed for ever."""
        if state.word != service_client.format_state(service_client.PAUSED):
            return None
        return errors.RetryableError(
            f"the job of run {job.name!r} was paused, and is cancelled. The same command continues "
            "from its last checkpoint"
        )

    def submissions(self, job: Job) -> int:
        """As the config says: machines may be taken away, also those of the whole job."""
        return Gcp.of(job.config).submissions

    def link(self, name: str) -> str:
        """Returns the page of the job in the console."""
        return service_client.link(name)

    def logs_link(self, name: str) -> str:
        """Returns the page of Cloud Logging."""
        _, project, _, _, _, number = name.split("/")
        query = f'resource.type="ml_job"\nresource.labels.job_id="{number}"'
        return (
            "https://console.cloud.google.com/logs/query;query="
            f"{urllib.parse.quote(query, safe='')}?project={project}"
        )

    def show(self, job: Job) -> base.Shown:
        """Returns the body of the request, of a submission of its own and with the config in it;
        notes on what must be there, what is in its package and what it costs."""
        gcp = Gcp.of(job.config)
        rendered = job_spec.render(job, secrets.token_hex(8), inline=inline_config.text(job))
        body = json.dumps(rendered, indent=2)
        url = f"https://{gcp.region}-aiplatform.googleapis.com/v1"
        head = f"POST {url}/projects/{gcp.project}/locations/{gcp.region}/customJobs"
        cost = price_list.estimate(job.counts, gcp, price_table.read())
        needs = f"IMAGE={gcp.image} and the records in {job.storage_root!r} must be there before"
        notes = [f"would {head}, with the JSON above", needs, image.describe(), cost]
        return base.Shown(body, "\n\n".join(notes))


def _list_notes(gcp: Gcp) -> list[str]:
    """Returns what works, but is not what most people want."""
    if gcp.service_account is not None:
        return []
    return [
        "gcp.service_account is not set, so processes run as the service's own account, which may "
        "do more than they need; docs/google-cloud.md lists the roles of one of your own"
    ]


def _build_service(job: Job) -> Service:
    gcp = Gcp.of(job.config)
    return Service(str(gcp.project), str(gcp.region))


def _explain_failure(job: Job, state: State) -> errors.PipelineError:
    """Returns what the service says that a job has failed with, or the job's processes do."""
    error: Mapping[str, Any] = state.answer.get("error", {})
    reasons = [
        f"{name}: {status.error}"
        for name, status in run_folder.read_statuses(job.run).items()
        if status.error
    ]
    said = str(error.get("message", "")) or "; ".join(reasons) or "the service gives no reason"
    line = f"the job {state.word}: {said.splitlines()[0].rstrip('.')}"
    if error.get("code") == _QUOTA:
        return errors.RetryableError(f"{line}. {google_api.QUOTA}")
    name = str(Gcp.of(job.config).image)
    if error.get("code") in _OF_USER and (image_name.path(name) in said or _PULLING.search(said)):
        return errors.UsageError(
            f"{line}. Look that IMAGE={name} is pushed, and that the service "
            "agent of Vertex AI may read it (roles/artifactregistry.reader)"
        )
    return errors.RetryableError(
        f"{line}. make logs shows more; the same command continues from the last checkpoint"
    )
