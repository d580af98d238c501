"""What `make evaluate` has found of a run, for its report: intervals, and plots of calibration."""

from __future__ import annotations

import html
import re
from typing import Any

from pipeline import errors, storage
from pipeline.pages import document
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json

PAGE, CONTENT = "evaluation.html", "evaluation.json"
# As `pipeline.pages.document` writes them.
_SECTION = re.compile(r"<section><h2>(.*?)</h2>(.*?)</section>", re.DOTALL)
_FIGURE = re.compile(r"<figure><figcaption>Calibration</figcaption>(.*?)</figure>", re.DOTALL)


def slices(run: RunFolder, step: int | None) -> dict[str, list[dict[str, Any]]]:
    """Returns the slices of each split at a step, in the form of those of an export; nothing if it
    was not evaluated at that step, or predicts several labels."""
    try:
        found = strict_json.loads(storage.read_text(storage.join(run.path, CONTENT)))
    except (errors.PipelineError, OSError, ValueError):  # there is none, or it is being written
        return {}
    entries = found if isinstance(found, list) else []
    return {
        one["split"]: one["slices"]
        for one in entries
        if one.get("step") == step and "label" not in one and one.get("slices")
    }


def section(run: RunFolder) -> str:
    """Returns the plots of calibration that the page of an evaluation has; nothing without one."""
    path = storage.join(run.path, PAGE)
    try:
        text = storage.read_text(path) if storage.exists(path) else ""
    except (errors.PipelineError, OSError):
        return ""
    drawn = [
        f"<figure><figcaption>{title}</figcaption>{plot}</figure>"
        for title, content in _SECTION.findall(text)
        for plot in _FIGURE.findall(content)
    ]
    if not drawn:
        return ""
    note = f'<p class=note>As <a href="{html.escape(PAGE)}">{PAGE}</a> has them.</p>'
    return document.section("Calibration", document.figures(*drawn), note)
