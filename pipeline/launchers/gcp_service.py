"""Vertex AI's job service, through its REST API: what is sent is what DRY_RUN=1 shows."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline import cloud_errors, errors

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT = 60.0  # seconds for one request
ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED")
QUOTA = "The quota is used up: wait, ask for more, or use other machines or another REGION="
# No machine is there yet.
WAITING = ("JOB_STATE_QUEUED", "JOB_STATE_PENDING")


class Service:
    """The custom jobs of one project in one region.

    Every method raises `UsageError` for what has to be changed first, and `RetryableError` for
    what passes; both say what to do.
    """

    def __init__(self, project: str, region: str) -> None:
        self._place = f"projects/{project}/locations/{region}"
        self._root = f"https://{region}-aiplatform.googleapis.com/v1"
        self._session: Any = None

    def create(self, job: Mapping[str, Any]) -> str:
        """Submits a job; returns its name, `projects/…/customJobs/…`."""
        return str(self._ask("POST", f"{self._place}/customJobs", json=job)["name"])

    def get(self, name: str) -> dict[str, Any]:
        """Returns a job: `state`, and `error` if it has failed."""
        return self._ask("GET", name)

    def find(self, label: str, run: str) -> str | None:
        """Returns the name of the job with the `label` of a run, in the folder `run`, that has not
        ended, or `None`: runs in other buckets may have the same name."""
        found = self._ask(
            "GET", f"{self._place}/customJobs", params={"filter": f"labels.run={label}"}
        )
        going = [
            one
            for one in found.get("customJobs", [])
            if one.get("state") not in ENDED
            and one["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"].rstrip("/") == run
        ]
        return str(going[0]["name"]) if going else None

    def cancel(self, name: str) -> None:
        """Ends a job at once; nothing is saved first."""
        self._ask("POST", f"{name}:cancel", json={})

    def _ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        with self._explained():
            response = self._connected().request(
                method, f"{self._root}/{path}", timeout=_TIMEOUT, **content
            )
        if response.ok:
            return dict(response.json())
        said = cloud_errors.explanation(response.text)
        raise refusal(response.status_code, said, self._place)

    def _connected(self) -> Any:
        if self._session is None:
            import google.auth
            from google.auth.transport.requests import AuthorizedSession

            credentials, _ = google.auth.default(scopes=[_SCOPE])
            self._session = AuthorizedSession(credentials)
        return self._session

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's own end of life, years ahead
            import google.auth.exceptions as auth
            import requests
        try:
            yield
        except auth.DefaultCredentialsError:
            raise cloud_errors.no_credentials(self._place) from None
        except auth.RefreshError as error:
            raise refusal(401, str(error.args[0] if error.args else error), self._place) from None
        except (auth.TransportError, requests.exceptions.RequestException) as error:
            raise errors.RetryableError(
                f"{self._root}: cannot be reached ({str(error).splitlines()[0]}). Look at the "
                "network and the region, then run the same command again: a job that was submitted "
                "is found"
            ) from None


def of(job: str) -> Service:
    """Returns the service that has the job of that name."""
    _, project, _, region, *_ = job.split("/")
    return Service(project, region)


def link(job: str) -> str:
    """Returns where a job is in the console."""
    _, project, _, region, _, number = job.split("/")
    return (
        f"https://console.cloud.google.com/vertex-ai/locations/{region}/training/{number}"
        f"?project={project}"
    )


def word(state: str) -> str:
    """Returns a state as people say it, such as `running`."""
    return state.removeprefix("JOB_STATE_").lower()


def refusal(status: int, said: str, place: str) -> errors.PipelineError:
    """Returns the error for an HTTP status of the service; `said` is its own explanation."""
    line = f"Vertex AI, {place}: {said.rstrip('.')} ({status})"
    what = {
        400: "Correct the gcp: section of the config; DRY_RUN=1 shows what is sent",
        401: "Google does not accept the credentials. Log in with gcloud auth application-default "
        "login, or set GOOGLE_APPLICATION_CREDENTIALS",
        403: "Grant the account roles/aiplatform.user, and enable aiplatform.googleapis.com",
        404: "Look at PROJECT= and REGION=",
        429: QUOTA,
    }
    if status == 429 or status >= 500 or status == 408:
        advice = what.get(status, "The service has a problem; run the same command again")
        return errors.RetryableError(f"{line}. {advice}")
    return errors.UsageError(f"{line}. {what.get(status, what[400])}")
