"""A job on Dataflow from its submission to its end, whichever process waits for it.

Which it is, and where it writes, is kept in the records folder. So the command that submitted it
may be left: the same command finds the job again, and does what is to be done at its end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from pipeline import errors, storage
from pipeline.console import interrupts
from pipeline.launchers.gcp.settings import Gcp
from pipeline.storage import gcs_errors, google_api, strict_json
from pipeline.storage.google_api import Api
from preprocessing.runners import error_transport
from preprocessing.shards import record_folders

ENDED = ("JOB_STATE_DONE", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_DRAINED")
_POLL = 15.0  # seconds
# After so many without a worker's report something is missing: machines take some minutes.
_SILENCE = 900.0
# So many requests in a row may fail before it is given up to follow: the job itself continues.
_MISSED = 20
# What the service says before it gives up, and what to do about it.
_KNOWN = (
    (errors.RetryableError, re.compile(r"quota|RESOURCE_POOL_EXHAUSTED", re.I), google_api.QUOTA),
    (
        errors.UsageError,
        re.compile(r"pull\w*\b.*\bimage\b|\bimage\b.*\bpull|ImagePullBackOff", re.I),
        "Look that IMAGE= (gcp.dataflow.image) is pushed, and that the account of the workers has "
        "roles/artifactregistry.reader",
    ),
    (
        errors.UsageError,
        re.compile(r"permission", re.I),
        "Give the account of the workers roles/dataflow.worker, and roles/storage.objectAdmin on "
        "the bucket",
    ),
)


@dataclasses.dataclass(frozen=True)
class Follower:
    """Asks about jobs of one project in one region. Some fields are what tests put others for."""

    project: str
    region: str
    sleep: Callable[[float], None] = time.sleep
    wants_to_cancel: Callable[[str], bool] = interrupts.wants_to_cancel
    # What is most likely missing if no worker reports for a while.
    hint: str = ""

    @property
    def place(self) -> str:
        """What names of its jobs begin with."""
        return f"projects/{self.project}/locations/{self.region}"

    @property
    def api(self) -> Api:
        """The service."""
        host = "dataflow.googleapis.com"
        return Api(f"https://{host}/v1b3", "Dataflow", self.place, host, "roles/dataflow.admin")

    def look(self, job: str) -> dict[str, Any]:
        """Returns a job; requests may fail, though not many in a row."""
        for _ in range(_MISSED):
            try:
                return self.api.ask("GET", job)
            except errors.RetryableError:
                self.sleep(_POLL)
        return self.api.ask("GET", job)

    def await_end(self, job: str) -> str:
        """Says each new state of a job, and returns the last."""
        before = ""
        for looks in itertools.count():
            state = str(self.look(job).get("currentState"))
            if looks == round(_SILENCE / _POLL) and self.hint and not self._has_reports(job):
                minutes = round(_SILENCE / 60)
                print(
                    f"note: no worker has reported for {minutes} minutes: {self.hint}", flush=True
                )
            if state != before:
                print(f"Dataflow: {_shorten_state(state)}", flush=True)
            before = state
            if state in ENDED:
                return state
            self.sleep(_POLL)
        raise AssertionError("unreachable")

    def _has_reports(self, job: str) -> bool:
        """Tells if a worker has reported anything, or that cannot be known now."""
        with contextlib.suppress(errors.PipelineError):
            return bool(self.api.ask("GET", f"{job}/metrics").get("metrics"))
        return True

    def cancel(self, job: str) -> None:
        """Ends a job at once."""
        self.api.ask("PUT", job, json={"requestedState": "JOB_STATE_CANCELLED"})

    def list_problems(self, job: str) -> list[str]:
        """Returns what the service has said of errors of a job."""
        least = {"minimumImportance": "JOB_MESSAGE_ERROR"}
        answer = self.api.ask("GET", f"{job}/messages", params=least)
        return [str(one.get("messageText", "")) for one in answer.get("jobMessages", [])]


class DataflowJob:
    """The job that makes a build of a base in a folder, of what has a certain fingerprint."""

    def __init__(self, follower: Follower, records: str, base: str, *, fingerprint: str) -> None:
        self._follower, self._records, self._fingerprint = follower, records, fingerprint
        self._path = record_folders.name_job_file(records, base)

    def read_folders(self) -> record_folders.Folders | None:
        """Returns the folders of the job if it has been submitted, and left.

        Raises `UsageError` if one is running on other raw data.
        """
        kept = self._read_request()
        if kept is None:
            return None
        if kept["fingerprint"] == self._fingerprint:
            return record_folders.Folders(self._records, kept["build"], kept["temporary"])
        if self._follower.look(kept["job"]).get("currentState") not in ENDED:
            raise errors.UsageError(
                f"{self._records!r}: a job for other raw data is running "
                f"({build_link(kept['job'])}). Wait for it, or cancel it there"
            )
        self._forget()
        return None

    def note_submission(self, folders: record_folders.Folders, result: Any) -> None:
        """Notes what Beam has submitted, and follows it."""
        kept = {
            "job": f"{self._follower.place}/jobs/{result.job_id()}",
            "fingerprint": self._fingerprint,
            "build": folders.build_name,
            "temporary": folders.temporary_name,
        }
        storage.write_text(self._path, strict_json.dumps(kept, indent=1) + "\n")
        self.follow()

    def follow(self) -> None:
        """Returns when the job has ended well. Raises what it failed with; `StoppedError` if it
        was left, which it is by Ctrl-C unless it is to be cancelled."""
        name = (self._read_request() or {})["job"]
        print(f"job      {build_link(name)}", flush=True)
        try:
            state = self._follower.await_end(name)
        except KeyboardInterrupt:
            if self._follower.wants_to_cancel("the job on Dataflow"):
                self._follower.cancel(name)
                self._forget()
                raise errors.StoppedError("the job on Dataflow is cancelled") from None
            raise errors.StoppedError(
                "the job on Dataflow keeps running. The same command follows it again, and "
                "publishes the records at its end"
            ) from None
        self._forget()
        if state != "JOB_STATE_DONE":
            raise _find_failure(name, state, self._follower.list_problems(name))

    def is_at_work(self) -> bool:
        """True if the job still has to be followed, and so needs its folders."""
        return self._read_request() is not None

    def explain(self, status: int, said: str) -> errors.PipelineError:
        """Returns the error for a status of the service."""
        return self._follower.api.refusal(status, said)

    def _read_request(self) -> dict[str, str] | None:
        exists = storage.exists(self._path)
        return dict(strict_json.loads(storage.read_text(self._path))) if exists else None

    def _forget(self) -> None:
        storage.remove(self._path)


@contextlib.contextmanager
def translate_errors(job: DataflowJob | None) -> Iterator[None]:
    """Turns what the service says to Beam's own client into ours."""
    try:
        yield
    except Exception as error:
        status = getattr(error, "status_code", None)
        if job is not None and type(error).__module__.startswith("httplib2"):
            raise errors.RetryableError(
                f"Dataflow cannot be reached ({error}). Look at the network and its proxy, which "
                "Beam takes from https_proxy, then run the same command again"
            ) from None
        if job is None or not isinstance(status, int):
            raise
        content = getattr(error, "content", b"")
        text = content.decode(errors="replace") if isinstance(content, bytes) else str(content)
        raise job.explain(status, gcs_errors.explanation(text)) from None


def build_follower(gcp: Gcp, *, hint: str = "") -> Follower:
    """Returns the follower for a config that has been checked."""
    return Follower(str(gcp.project), str(gcp.region), hint=hint)


def build_link(job: str) -> str:
    """Returns where a job is in the console."""
    _, project, _, region, _, number = job.split("/")
    return f"https://console.cloud.google.com/dataflow/jobs/{region}/{number}?project={project}"


def _find_failure(job: str, state: str, said: list[str]) -> errors.PipelineError:
    """Returns what a worker meant to say, or what the service says."""
    if (meant := error_transport.find(RuntimeError("\n".join(said)))) is not None:
        return meant
    lines = [text.strip().splitlines()[-1].rstrip(".") for text in said if text.strip()]
    for kind, words, advice in _KNOWN:
        for line in lines:
            if words.search(line):
                return kind(f"the job {_shorten_state(state)}: {line}. {advice}")
    last = lines[-1] if lines else "it gives no reason"
    return errors.RetryableError(
        f"the job {_shorten_state(state)}: {last}. Look at {build_link(job)}"
    )


def _shorten_state(state: str) -> str:
    return state.removeprefix("JOB_STATE_").lower()
