"""The records of a run for its report: how many, their columns, and drift to the run before."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Sequence

from pipeline import config, errors, storage
from pipeline.console.figures import figure
from pipeline.pages import document
from pipeline.pages.document import Markup
from pipeline.records import builds, drift, manifest
from pipeline.records.drift import Compared, RecordSplit
from pipeline.runs import run_record, run_search
from pipeline.runs.run_folder import RunFolder
from pipeline.runs.run_record import RunRecord

# More columns than this would make a page all table.
_COLUMNS = 50
_TRAIN = "train"


@dataclasses.dataclass(frozen=True)
class RecordsReport:
    """The records of a run. `before` is the run of its config that was begun last before it, if
    there is one, and `drift` what they differ in from its records; `problem` says why that is not
    known."""

    contents: manifest.Manifest
    before: str | None = None
    drift: Sequence[Compared] = ()
    problem: str | None = None


def read_report(run: RunFolder, job: config.Config, record: RunRecord) -> RecordsReport | None:
    """Returns what is known of the records of a run; `None` without records of ours, or if they are
    gone."""
    root = storage.parent(storage.parent(run.path))
    contents = _read(root, run, job)
    if contents is None:
        return None
    before = _find_previous_run(root, run, record)
    if before is None:
        return RecordsReport(contents)
    other = _read(root, before, job)
    if other is None:
        return RecordsReport(contents, before.name, problem="its records are gone")
    if other.sha256 == contents.sha256:
        return RecordsReport(contents, before.name)
    if any(_TRAIN not in one.statistics for one in (contents, other)):
        return RecordsReport(contents, before.name, problem="not all records have statistics")
    a, b = RecordSplit(before.name, other, _TRAIN), RecordSplit(run.name, contents, _TRAIN)
    try:
        return RecordsReport(contents, before.name, drift.compare(a, b, job.drift))
    except errors.UsageError as error:  # limits of a column that both lack
        return RecordsReport(contents, before.name, problem=str(error))


def _read(root: str, run: RunFolder, job: config.Config) -> manifest.Manifest | None:
    if not job.data.has_records:
        return None
    try:
        return manifest.read(builds.find_run_build(root, run, job.name))
    except errors.PipelineError:
        return None


def _find_previous_run(root: str, run: RunFolder, record: RunRecord) -> RunFolder | None:
    """Returns the run of the same config that has trained and was begun last before this one. When
    a run is resumed, that changes nothing."""
    began = _find_first_launch(record)
    found: list[tuple[float, str, RunFolder]] = []
    for other in run_search.list_folders(storage.join(root, "runs")):
        try:
            its = run_record.read(other) if other.name != run.name else None
        except errors.PipelineError:
            continue
        if its is None or its.config != record.config or its.manifest is None:
            continue
        if began is not None and (before := _find_first_launch(its)) is not None and before < began:
            found.append((before, other.name, other))
    return max(found, key=lambda one: one[:2])[2] if found else None


def _find_first_launch(record: RunRecord) -> float | None:
    """Returns when a run was launched first, in Unix time."""
    return min((one.started for one in run_record.launches(record)), default=record.started)


def section(data: RecordsReport | None) -> str:
    """Returns the section of the page; nothing without records."""
    if data is None:
        return ""
    splits = data.contents.splits
    counts = [(name, f"{one.records:,}", f"{len(one.shards):,}") for name, one in splits.items()]
    parts = [document.table(("split", "records", "shards"), counts, right={1, 2})]
    if _TRAIN in data.contents.statistics:
        parts.append(_render_columns(data.contents))
    return document.section("Data", *parts, _render_drift(data))


def _render_columns(contents: manifest.Manifest) -> str:
    found = contents.statistics[_TRAIN].columns
    names = [name for name in contents.columns if name in found]
    rows = [
        _render_column(
            name, contents.columns[name], found[name], records=contents.splits[_TRAIN].records
        )
        for name in names[:_COLUMNS]
    ]
    head = ("column", "type", "missing", "different", "mean", "deviation", "least", "greatest")
    left = len(names) - len(rows)
    more = f" And {left:,} more columns." if left else ""
    note = f"Of train.{more} Plots of all splits: make stats"
    table = document.table(head, rows, right=range(2, len(head)))
    return f'<div class="wide">{table}</div><p class=note>{note}</p>'


def _render_column(
    name: str, column: config.Column, found: manifest.ColumnStatistics, *, records: int
) -> tuple[str, ...]:
    kind = f"list of {column.type}" if column.list else column.type
    missing = f"{found.missing / records:.1%}" if records else ""
    different = "" if found.distinct is None else f"{found.distinct:,}"
    deviation = None if found.variance is None else math.sqrt(found.variance)
    # Extremes of what looks personal are values of persons.
    ends = (None, None) if column.sensitive else (found.min, found.max)
    numbers = (found.mean, deviation, *ends)
    return name, kind, missing, different, *map(_format_number, numbers)


def _format_number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else figure(value)


def _render_drift(data: RecordsReport) -> str:
    if data.before is None:
        return "<p class=note>No earlier run of this config is there to compare with.</p>"
    before = html.escape(data.before)
    if data.problem is not None:
        text = f"Drift to run {before} is not known: {html.escape(data.problem)}."
        return f"<p class=note>{text}</p>"
    if not data.drift:
        return f"<p class=note>The records are those of run {before}, the last one before.</p>"
    far = [one for one in data.drift if one.drifted or one.undecided]
    text = f"Since run {before}, the last one before, {_summarize(data.drift)}."
    if not far:
        return f"<p>{text}</p>"
    rows = [_format_drifted(one) for one in far[:_COLUMNS]]
    head = ("column", "", "distance", "limit", "missing before", "missing now", "")
    return f"<p>{text}</p>{document.table(head, rows, right=range(2, 6))}"


def _summarize(found: Sequence[Compared]) -> str:
    drifted = sum(one.drifted for one in found)
    undecided = sum(one.undecided for one in found)
    line = "no column has drifted"
    if drifted:
        line = f"{drifted:,} of {len(found):,} columns {'has' if drifted == 1 else 'have'} drifted"
    return f"{line}; undecided: {undecided:,}" if undecided else line


def _format_drifted(one: Compared) -> tuple[str, ...]:
    verdict = Markup('<span class="bad">drifted</span>') if one.drifted else "undecided"
    if one.broken:
        return one.column, verdict, "", "", "", "", one.problem
    distance = limit = ""
    if one.distance is not None:
        distance = f"{one.measure} {one.distance}"
        limit = f"{one.limit:.3f}"
    shares = (f"{share:.2%}" for share in one.missing)
    return one.column, verdict, distance, limit, *shares, one.remark
