"""`fallbacks.json`: when training continued from a checkpoint that was not the newest.

The chief writes it, wherever it runs: the newest one was damaged, gone, or of a loss that had
become no number.
"""

from __future__ import annotations

import pydantic

from pipeline import errors
from pipeline.runs.run_folder import RunFolder

# {"fallbacks": [{"step": int, "newest": int, "time": float}]}
FILE_NAME = "fallbacks.json"


class Fallback(pydantic.BaseModel):
    """Training continued from the checkpoint that is named after `step`, though one of step
    `newest` had been saved; when, in Unix time."""

    step: int
    newest: int
    time: float


def read(run: RunFolder) -> list[Fallback]:
    """Returns the fall-backs of a run, the oldest first. Raises `DataError` if that cannot be
    told."""
    content = run.read(FILE_NAME) or {}
    try:
        return [Fallback.model_validate(one) for one in content.get("fallbacks", [])]
    except (pydantic.ValidationError, TypeError):
        raise errors.DataError(
            f"{run.name!r}: its {FILE_NAME} is damaged; remove it and run again"
        ) from None


def add(run: RunFolder, fallback: Fallback) -> None:
    """Adds a fall-back, unless one from the same newest checkpoint has been noted."""
    known = read(run)
    if any(one.newest == fallback.newest for one in known):
        return
    rows = [one.model_dump() for one in (*known, fallback)]
    run.write(FILE_NAME, {"fallbacks": rows})
