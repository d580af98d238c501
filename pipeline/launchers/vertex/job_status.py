"""How a run is doing whose processes are a job on Vertex AI, for commands that only look.

Nobody has to follow the job: that it has ended may be known to the service alone.
"""

from __future__ import annotations

import urllib.parse

from pipeline import errors
from pipeline.launchers.vertex import service_client
from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord

_SETTLE = "The command that submitted it, once more, takes note of the end"


def going(record: RunRecord | None) -> str | None:
    """Returns the Vertex AI job of a run whose end is not recorded yet, or `None`."""
    job = run_record.job_at_work(record)
    return job if job is not None and job.startswith("projects/") else None


def has_ended(job: str) -> bool:
    """True if the service says that the job is over."""
    try:
        return service_client.of(job).get(job).get("state") in service_client.ENDED
    except errors.RetryableError:
        return False


def stop(run: RunFolder) -> str | None:
    """Returns what has been done to end the job of a run, or `None` if its processes are to be
    asked. A job that still waits for machines has nothing to save: it is cancelled.

    Raises `UsageError` if it has ended, and its end is not recorded yet.
    """
    job = going(run_record.read(run))
    if job is None:
        return None
    service = service_client.of(job)
    state = str(service.get(job).get("state"))
    if state in service_client.ENDED:
        raise errors.UsageError(
            f"run {run.name!r}: nothing to stop, its job on Vertex AI is "
            f"{service_client.word(state)}. {_SETTLE}"
        )
    if state not in service_client.WAITING:
        return None
    service.cancel(job)
    return "its job had no machines yet, and is cancelled"


def refuse_while_going(run: RunFolder) -> None:
    """Raises `UsageError` if the processes of a run are at work on Vertex AI."""
    job = going(run_record.read(run))
    if job is None:
        return
    if service_client.of(job).get(job).get("state") not in service_client.ENDED:
        raise errors.UsageError(
            f"run {run.name!r}: is at work on Vertex AI ({service_client.link(job)}). Follow it "
            "with CLUSTER=gcp, end it with make stop, or use another RUN="
        )


def described(run: RunFolder) -> list[str]:
    """Returns what the service says of the job of a run, in lines; none for other runs."""
    job = going(run_record.read(run))
    if job is None:
        return []
    try:
        service = service_client.of(job)
        found = service.get(job)
    except errors.PipelineError as error:
        return [f"its job cannot be asked about: {error}", f"job      {service_client.link(job)}"]
    state = str(found.get("state"))
    word = service_client.word(state)
    said = str(found.get("error", {}).get("message", ""))
    lines = [f"Vertex AI: {word}" + (f": {said}" if said else "")]
    if state in service_client.ENDED:
        lines.append(_SETTLE)
    return [*lines, f"job      {service_client.link(job)}", f"all logs {logs_link(job)}"]


def logs_link(job: str) -> str:
    """Returns where Cloud Logging shows all that a job's processes have put out."""
    _, project, _, _, _, number = job.split("/")
    query = f'resource.type="ml_job"\nresource.labels.job_id="{number}"'
    return (
        "https://console.cloud.google.com/logs/query;query="
        f"{urllib.parse.quote(query, safe='')}?project={project}"
    )
