"""Vertex AI's job service, through its REST API: what is sent is what DRY_RUN=1 shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.storage import google_api
from pipeline.storage.google_api import Api

ENDED = (
    "JOB_STATE_SUCCEEDED",
    "JOB_STATE_PARTIALLY_SUCCEEDED",
    "JOB_STATE_FAILED",
    "JOB_STATE_CANCELLED",
    "JOB_STATE_EXPIRED",
)
# No machine is there yet.
WAITING = ("JOB_STATE_QUEUED", "JOB_STATE_PENDING")
# Stays as it is until somebody resumes or cancels it.
PAUSED = "JOB_STATE_PAUSED"


class Service:
    """The custom jobs of one project in one region.

    Every method raises what `Api.ask` does.
    """

    def __init__(self, project: str, region: str) -> None:
        self._place = f"projects/{project}/locations/{region}"
        host = f"{region}-aiplatform.googleapis.com"
        self._api = Api(
            f"https://{host}/v1",
            "Vertex AI",
            self._place,
            "aiplatform.googleapis.com",
            "roles/aiplatform.user",
        )

    def create(self, job: Mapping[str, Any]) -> str:
        """Submits a job; returns its name, `projects/…/customJobs/…`."""
        return str(self._api.ask("POST", f"{self._place}/customJobs", json=job)["name"])

    def get(self, name: str) -> dict[str, Any]:
        """Returns a job: `state`, and `error` if it has failed, as one has that was deleted."""
        try:
            return self._api.ask("GET", name)
        except google_api.NotThere as error:
            return {"name": name, "state": "JOB_STATE_FAILED", "error": {"message": str(error)}}

    def find(self, label: str, run: str) -> str | None:
        """Returns the name of the job with the `label` of a run, in the folder `run`, that has not
        ended, or `None`: runs in other buckets may have the same name."""
        wanted = " AND ".join([f"labels.run={label}", *(f'state!="{state}"' for state in ENDED)])
        for one in self._list_jobs(wanted):
            if one.get("state") not in ENDED and _find_folder(one) == run:
                return str(one["name"])
        return None

    def _list_jobs(self, wanted: str) -> Iterator[dict[str, Any]]:
        """Yields the jobs that a filter lets through, page by page."""
        page = ""
        while True:
            asked = {"filter": wanted, **({"pageToken": page} if page else {})}
            found = self._api.ask("GET", f"{self._place}/customJobs", params=asked)
            yield from found.get("customJobs", [])
            page = str(found.get("nextPageToken", ""))
            if not page:
                return

    def cancel(self, name: str) -> None:
        """Ends a job at once; nothing is saved first."""
        self._api.ask("POST", f"{name}:cancel", json={})


def _find_folder(job: Mapping[str, Any]) -> str:
    """Returns where a job's run is; jobs of others need not say."""
    place = job["jobSpec"].get("baseOutputDirectory", {})
    return str(place.get("outputUriPrefix", "")).rstrip("/")


def service_of_job(job: str) -> Service:
    """Returns the service that has the job of that name."""
    _, project, _, region, *_ = job.split("/")
    return Service(project, region)


def link(job: str) -> str:
    """Returns where a job is in the console."""
    _, project, _, region, _, number = job.split("/")
    return (
        f"https://console.cloud.google.com/agent-platform/locations/{region}/training/{number}"
        f"?project={project}"
    )


def format_state(state: str) -> str:
    """Returns a state as people say it, such as `running`."""
    return state.removeprefix("JOB_STATE_").lower()
