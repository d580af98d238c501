"""How a run is doing whose processes are a job on Vertex AI, for commands that only look.

Nobody has to follow the job: that it has ended may be known to the service alone.
"""

from __future__ import annotations

import urllib.parse

from pipeline import errors, run_record
from pipeline.launchers import gcp_service
from pipeline.run_folder import RunFolder
from pipeline.run_record import RunRecord

_SETTLE = "The command that submitted it, once more, takes note of the end"


def going(record: RunRecord | None) -> str | None:
    """Returns the job of a run of which nobody has recorded the end, or `None`."""
    return record.job if record is not None and record.status == "running" else None


def has_ended(job: str) -> bool:
    """True if the service says that the job is over."""
    try:
        return gcp_service.of(job).get(job).get("state") in gcp_service.ENDED
    except errors.RetryableError:
        return False


def stop(run: RunFolder) -> str | None:
    """Returns what has been done to end the job of a run, or `None` if its processes are to be
    asked. A job that still waits for machines has nothing to save: it is cancelled.

    Raises `UsageError` if it has ended, though nobody has recorded it.
    """
    job = going(run_record.read(run))
    if job is None:
        return None
    service = gcp_service.of(job)
    state = str(service.get(job).get("state"))
    if state in gcp_service.ENDED:
        raise errors.UsageError(
            f"run {run.name!r}: nothing to stop, its job on Vertex AI is "
            f"{gcp_service.word(state)}. {_SETTLE}"
        )
    if state not in gcp_service.WAITING:
        return None
    service.cancel(job)
    return "its job had no machines yet, and is cancelled"


def refuse_while_going(run: RunFolder) -> None:
    """Raises `UsageError` if the processes of a run are at work on Vertex AI."""
    job = going(run_record.read(run))
    if job is not None and gcp_service.of(job).get(job).get("state") not in gcp_service.ENDED:
        raise errors.UsageError(
            f"run {run.name!r}: is at work on Vertex AI ({gcp_service.link(job)}). Follow it with "
            "CLUSTER=gcp, end it with make stop, or use another RUN="
        )


def described(run: RunFolder) -> list[str]:
    """Returns what the service says of the job of a run, in lines; none for other runs."""
    job = going(run_record.read(run))
    if job is None:
        return []
    try:
        service = gcp_service.of(job)
        found = service.get(job)
    except errors.PipelineError as error:
        return [f"its job cannot be asked about: {error}", f"job      {gcp_service.link(job)}"]
    state = str(found.get("state"))
    word = gcp_service.word(state)
    said = str(found.get("error", {}).get("message", ""))
    lines = [f"Vertex AI: {word}" + (f": {said}" if said else "")]
    if state in gcp_service.ENDED:
        lines.append(_SETTLE)
    return [*lines, f"job      {gcp_service.link(job)}", f"all logs {logs_link(job)}"]


def logs_link(job: str) -> str:
    """Returns where Cloud Logging shows all that a job's processes have put out."""
    _, project, _, _, _, number = job.split("/")
    query = f'resource.type="ml_job"\nresource.labels.job_id="{number}"'
    return (
        "https://console.cloud.google.com/logs/query;query="
        f"{urllib.parse.quote(query, safe='')}?project={project}"
    )
