"""Puts the report of a run into its folder."""

from __future__ import annotations

from pipeline import storage
from pipeline.reports import facts, page
from pipeline.runs.run_folder import RunFolder


def write(run: RunFolder) -> str:
    """Writes the report and returns its path. Raises `UsageError` for a run that never began."""
    path = storage.join(run.path, page.FILE_NAME)
    storage.write_text(path, page.render(facts.gather(run)))
    return path


def attempt(run: RunFolder) -> str:
    """Writes the report at the end of a run, which a mistake in it must not fail. Returns its path,
    or why there is none."""
    try:
        return write(run)
    except Exception as error:
        return f"not written ({type(error).__name__}: {error})"
