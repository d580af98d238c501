"""All runs of a storage, as rows of a table: what `estimator-pipeline runs` shows."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import math
import re
import time
from collections.abc import Collection, Sequence
from typing import Any

from pipeline import errors, storage
from pipeline.console import figures, text_table
from pipeline.console.figures import figure
from pipeline.console.progress import duration
from pipeline.runs import accounts, launches, liveness, run_folder, run_record, run_search, tags
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.runs.run_record import RunRecord

COLUMNS = ("run", "config", "status", "step", "best", "started", "took", "tags")
# How a list can be sorted.
SORTS = ("newest", "started", "metric", "name", "status", "step", "took")
# What a run can be: of the last two, its files cannot be used.
STATUSES = (
    liveness.NOT_STARTED,
    "starting",
    "running",
    "trained",
    "done",
    "stopped",
    "failed",
    "died",
    "damaged",
    "unreadable",
)
_RIGHT = (3,)
# Runs that are read at a time; a storage elsewhere takes long to answer.
_AT_ONCE = 16
_LOWER = re.compile(r"^ +higher_is_better: *false\b", re.MULTILINE)
_NAME = re.compile(r"^name: *['\"]?([^'\"\n]+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Row:
    """One run. `started` is the Unix time of its first launch, `launched` that of its newest;
    `seconds` is how long all of them took, or have taken, without the time between. `best` is
    {"metric": str, "value": float, "step": int, "interval": its ends, or why there are none}."""

    name: str
    config: str
    status: str
    started: float
    launched: float
    step: int | None = None
    best: dict[str, Any] | None = None
    seconds: float | None = None
    tags: tuple[str, ...] = ()
    higher_is_better: bool = True


def read(storage_root: str, now: float, config: str | None = None) -> list[Row]:
    """Returns a row for each run below a storage root, that with the newest launch first; only
    those of the config of that name if one is given. A thread reads each, since a storage elsewhere
    answers late."""
    root = storage.join(storage.make_absolute(storage_root), "runs")
    runs = run_search.list_folders(root)
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = [row for row in pool.map(lambda run: _read_row(run, now), runs) if row is not None]
    wanted = [row for row in rows if config in (None, row.config)]
    return sorted(wanted, key=lambda row: row.launched, reverse=True)


def select(
    rows: Sequence[Row],
    *,
    statuses: Collection[str] = (),
    tagged: Collection[str] = (),
    sort: str = "newest",
) -> list[Row]:
    """Returns the rows of runs with one of the `statuses` and all tags `tagged`, sorted by one of
    `SORTS`: what was launched or has begun last, what is best, farthest or longest first, names and
    statuses by the alphabet.

    Runs of another metric come after those of the metric that most rows have.
    """
    found = [
        row
        for row in rows
        if (not statuses or row.status in statuses) and set(tagged) <= set(row.tags)
    ]
    metrics = collections.Counter(row.best["metric"] for row in found if row.best)
    places = {metric: place for place, (metric, _) in enumerate(metrics.most_common())}

    def compute_key(row: Row) -> tuple[object, ...]:
        if sort == "metric":
            quality = _compute_quality(row)
            place = len(places) if row.best is None else places[row.best["metric"]]
            return place, math.isnan(quality), -quality
        if sort in ("name", "status"):
            return getattr(row, sort), row.name
        value = {
            "newest": row.launched,
            "started": row.started,
            "step": row.step,
            "took": row.seconds,
        }[sort]
        return (value is None, 0 if value is None else -value)

    return sorted(found, key=compute_key)


def _compute_quality(row: Row) -> float:
    """Returns the best value, negative where less is better; NaN if there is none."""
    value = math.nan if row.best is None else float(row.best["value"])
    return value if row.higher_is_better else -value


def lines(rows: Sequence[Row]) -> list[str]:
    """Returns the table as text; without the column of tags if no run has one."""
    width = len(COLUMNS) if any(row.tags for row in rows) else len(COLUMNS) - 1
    return text_table.lines([row[:width] for row in (COLUMNS, *map(cells, rows))], right=_RIGHT)


def _read_row(run: RunFolder, now: float) -> Row | None:
    """Returns the row of a run; `None` for a folder that is no run, or was removed meanwhile."""
    try:
        written = run_search.find_launch_time(run, None)
    except (OSError, errors.PipelineError):
        return _read_without_config(run, now)
    try:
        return _build_row(run, run_record.read(run), written, now=now)
    except (OSError, errors.PipelineError):  # of another user, say
        return Row(run.name, "", "unreadable", written, written)


def _read_without_config(run: RunFolder, now: float) -> Row | None:
    """Returns the row of a run whose config is gone, so that no command can use it, by its record;
    `None` without one."""
    try:
        record = run_record.read(run)
        if record is None:
            return None
        written = storage.get_modified_time(run.record_path)
        return dataclasses.replace(_build_row(run, record, written, now=now), status="damaged")
    except (OSError, errors.PipelineError):
        return None


def _build_row(run: RunFolder, record: RunRecord | None, written: float, *, now: float) -> Row:
    ended = record is not None and record.status != "running" and record.launcher is not None
    statuses = {} if ended else run_folder.read_statuses(run)
    status, _ = liveness.state_of_run(run, record, statuses, now=now)
    if record is None and status not in liveness.AT_WORK and storage.exists(run.record_path):
        status = "damaged"
    launched = written if record is None or record.started is None else record.started
    best = _read_best((None if record is None else record.best) or run.read(run_folder.BEST) or {})
    spans = _find_spans(run, record, now if status in liveness.AT_WORK else None)
    return Row(
        name=run.name,
        config=record.config if record is not None else _read_config_name(run),
        status=status,
        started=spans[0].began if spans else launched,
        launched=launched,
        step=_find_step(run, record, statuses),
        best=best,
        tags=tags.read(run),
        higher_is_better=best is None or _has_higher_better(run),
        seconds=launches.seconds(spans) or None,
    )


def _find_spans(
    run: RunFolder, record: RunRecord | None, now: float | None
) -> list[launches.LaunchSpan]:
    """Returns the launches of a run. Only if the end of one was not recorded, its processes have to
    be asked: that takes more files."""
    if record is None:
        return []
    last_sign = run_record.find_last_sign(run, record) if now is None else None
    ends = [one.ended for one in run_record.launches(record, last_sign)]
    if now is not None:
        ends = ends[:-1]
    return launches.list_launches(
        record, accounts.read(run) if None in ends else (), last_sign=last_sign, now=now
    )


def _read_best(found: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the best so far, if one is told: the first may be on its way, or not be finite."""
    whole = isinstance(found.get("value"), int | float) and isinstance(found.get("metric"), str)
    return found if whole else None


def _has_higher_better(run: RunFolder) -> bool:
    """Returns whether more of its metric is better, by its config, without parsing all of it."""
    try:
        return not _LOWER.search(storage.read_text(run.config_path))
    except (OSError, errors.PipelineError):
        return True


def _read_config_name(run: RunFolder) -> str:
    """Returns the name in a run's config, without reading all of it."""
    if run.is_of_script:
        return ""
    found = _NAME.search(storage.read_text(run.config_path))
    return found[1].strip() if found else ""


def _find_step(run: RunFolder, record: RunRecord | None, statuses: dict[str, Status]) -> int | None:
    if record is not None and record.final_step is not None:
        return record.final_step
    steps = [status.step for status in statuses.values() if status.step is not None]
    return max(steps) if steps else run_folder.find_saved_step(run)


def _format_metric(best: dict[str, Any]) -> str:
    """Returns a metric with its interval, if it has one."""
    ends = best.get("interval")
    if not isinstance(ends, list):
        return f"{best['metric']} {figure(float(best['value']))}"
    remarks = [remark.partition(":")[0] for remark in ends[2:]]
    sure = ", ".join([figures.interval(*ends[:2]), *remarks])
    return f"{best['metric']} {figure(float(best['value']))} {sure}"


def cells(row: Row) -> tuple[str, ...]:
    """Returns the text of the `COLUMNS`."""
    best = "" if row.best is None else _format_metric(row.best)
    return (
        row.name,
        row.config,
        row.status,
        "" if row.step is None else f"{row.step:,}",
        best,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started)),
        "" if row.seconds is None else duration(row.seconds),
        " ".join(row.tags),
    )
