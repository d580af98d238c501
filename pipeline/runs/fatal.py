"""Keeps a platform that restarts whatever ends from trying again what cannot succeed.

Vertex AI starts each process up to five times, and the job three times, whichever exit code they
had (docs/tensorflow-pitfalls.md#restarts-by-the-platform); Kubernetes continues up to a limit. A
process that fails for good leaves a marker in the run folder; all that are started after it in the
same submission end at once, with the same message and exit code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pipeline import errors, redaction
from pipeline.runs.run_folder import RunFolder

# The environment variable that names the submission. Without it no service restarts processes.
SUBMISSION = "PIPELINE_SUBMISSION"
# {"submission": str, "task": str, "exit_code": int, "error": str}
MARKER = "FATAL.json"
# {"submission": str}: the one that the run was last begun in.
BEGUN = "SUBMISSION.json"


@contextlib.contextmanager
def fail_once(run: RunFolder, task: str, submission: str | None) -> Iterator[None]:
    """Lets the block fail for good only once in a submission.

    Raises the `PipelineError` of an earlier process instead of entering the block.
    """
    if not submission:
        yield
        return
    reraise(run, submission)
    try:
        yield
    except errors.PipelineError as error:
        # What failed first is the cause of what fails after it.
        if error.exit_code in errors.FINAL_CODES and _read_marker(run, submission) is None:
            known = {"submission": submission, "task": task}
            run.write(
                MARKER,
                {**known, "exit_code": error.exit_code, "error": redaction.redact(str(error))},
            )
        raise


def reraise(run: RunFolder, submission: str | None) -> None:
    """Raises the `PipelineError` of the process of a submission that has failed for good, if one
    has."""
    earlier = _read_marker(run, submission) if submission else None
    if earlier is not None:
        raise errors.build_from_exit_code(
            int(earlier["exit_code"]), f"{earlier['task']} has failed for good: {earlier['error']}"
        )


def _read_marker(run: RunFolder, submission: str) -> dict[str, Any] | None:
    """Returns the marker of this very submission."""
    found = run.read(MARKER)
    return found if found is not None and found["submission"] == submission else None


def begin(run: RunFolder, submission: str) -> None:
    """Takes note of a submission, for processes that are started again in it."""
    run.write(BEGUN, {"submission": submission})


def has_begun(run: RunFolder, submission: str) -> bool:
    """Tells a platform's restart from the first start of a submission."""
    return run.read(BEGUN) == {"submission": submission}
