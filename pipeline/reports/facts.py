"""Gathers what is known of a run: from run.json, status files, event files and its history."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.reports import data, evaluated, events, goodput, unwritten
from pipeline.reports.data import RecordsReport
from pipeline.reports.events import FolderEvents
from pipeline.runs import (
    accounts,
    history,
    launches,
    liveness,
    presence,
    resuming,
    run_folder,
    run_record,
)
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.runs.run_record import RunRecord

_EVALUATIONS = "eval_"


@dataclasses.dataclass(frozen=True)
class Facts:
    """Everything that a report tells. `evaluations` are event files by split; `slices` those that
    accompany an export, by split, as `metrics.json` has them, or that `make evaluate` has found;
    `launches` when it was running; `data` its records."""

    run: RunFolder
    job: config.Config
    record: RunRecord
    state: str
    reason: str
    statuses: dict[str, Status]
    training: FolderEvents
    evaluations: dict[str, FolderEvents]
    history: history.History | None
    slices: dict[str, list[dict[str, Any]]]
    launches: list[launches.LaunchSpan]
    now: float
    data: RecordsReport | None = None

    @property
    def processes(self) -> int:
        """How many processes train."""
        counts = self.record.topology
        return max(1, sum(counts.get(role, 0) for role in topology.TRAINING_ROLES))

    @property
    def seconds(self) -> float:
        """How long it was running, in all its launches."""
        return launches.seconds(self.launches)

    @property
    def process_seconds(self) -> float:
        """The same, of each process of any role for as long as it was part of the job."""
        found = [presence.list_periods(launch) for launch in self.launches]
        spans = [span for tasks in found for spans in tasks.values() for span in spans]
        return sum(max(0.0, ended - began) for began, ended in spans)


def gather(run: RunFolder, now: float | None = None) -> Facts:
    """Returns the facts of a run. Raises `UsageError` for one that has never begun to train,
    `DataError` for one whose record cannot be used."""
    job, record = run.read_config(), run_record.read(run)
    if record is None:
        raise resuming.build_record_error(run)
    now = time.time() if now is None else now
    statuses = run_folder.read_statuses(run)
    state, reason = liveness.state_of_run(run, record, statuses, now=now)
    names = [name for name in storage.listdir(run.path) if name.startswith(_EVALUATIONS)]
    of_splits = {name.removeprefix(_EVALUATIONS): name for name in names}
    return Facts(
        run=run,
        job=job,
        record=record,
        state=state,
        reason=reason,
        statuses=statuses,
        training=events.read(run.path),
        evaluations={
            split: events.read(storage.join(run.path, name))
            for split, name in of_splits.items()
            # Those of make evaluate are not of the training.
            if not split.endswith("_again")
        },
        history=history.read(run),
        slices=_read_slices(run, record),
        launches=launches.list_launches(
            record,
            accounts.read(run),
            last_sign=run_record.find_last_sign(run, record),
            now=now if state in liveness.AT_WORK else None,
        ),
        now=now,
        data=data.read_report(run, job, record),
    )


def _read_slices(run: RunFolder, record: RunRecord) -> dict[str, list[dict[str, Any]]]:
    """Returns those of an export, unless only `make evaluate` has broken metrics down."""
    exported = _read_exported_slices(run, record)
    if any(row["slice"] != "all" for rows in exported.values() for row in rows):
        return exported
    return evaluated.slices(run, record.final_step) or exported


def _read_exported_slices(run: RunFolder, record: RunRecord) -> dict[str, list[dict[str, Any]]]:
    for kind in ("final", "best"):
        path = record.exports.get(kind)
        if not path:
            continue
        try:
            text = storage.read_text(storage.join(run.path, path, "assets.extra", "metrics.json"))
            found = json.loads(text).get("slices", {})
        except (errors.PipelineError, OSError, ValueError, AttributeError):
            continue
        if slices := {split: rows for split, rows in found.items() if rows}:
            return slices
    return {}


def goodput_of(facts: Facts) -> list[goodput.CauseShare]:
    """Returns where the time of all launches went; nothing if no process has said so."""
    times = times_of(facts)
    return goodput.parts(times) if times else []


def times_of(facts: Facts) -> dict[str, dict[str, float]]:
    """Returns where the time of each process went, in seconds by cause; nothing if none has said
    so."""
    known = accounts.read(facts.run)
    if not known:
        return {}
    beat = run_folder.beat_interval(facts.run)
    known = unwritten.extend(known, facts.record.restarts, longest=beat)
    synchronous = strategy_table.STRATEGIES[facts.job.cluster.strategy].synchronous
    alone = facts.processes + facts.record.topology.get(topology.PS, 0) == 1
    return goodput.divide(
        _find_periods(facts, known),
        known,
        _count_survivors(facts, known),
        synchronous=synchronous,
        alone=alone,
    )


def _find_periods(facts: Facts, known: list[accounts.Account]) -> list[goodput.LaunchPeriod]:
    return [
        _find_period(facts, known, task, span=(began, ended))
        for launch in facts.launches
        for task, periods in presence.list_periods(launch).items()
        if task.rpartition("-")[0] in topology.TRAINING_ROLES
        for began, ended in periods
    ]


def _find_period(
    facts: Facts, known: list[accounts.Account], task: str, *, span: presence.Period
) -> goodput.LaunchPeriod:
    """Returns the period of a task in a launch. One that is at work has not written yet what it is
    doing: that time is not counted, unless it has been silent for as long as one that is gone."""
    began, ended = span
    own = [one for one in known if one.task == task and one.began <= ended and one.until >= began]
    if not own:
        return goodput.LaunchPeriod(began, ended, [task])
    newest = max(own, key=lambda one: one.began)
    losses = [
        one.time
        for one in facts.record.restarts
        if one.time is not None and (one.gang or f"{one.role}-{one.index}" == task)
    ]
    lost = any(newest.began < at <= ended for at in losses)
    is_at_work = facts.state in liveness.AT_WORK and ended == facts.launches[-1].ended
    if is_at_work and not lost and not newest.ended:
        lost = ended - newest.until > run_folder.silence(facts.run)
        ended = ended if lost else newest.until
    return goodput.LaunchPeriod(began, ended, [task], lost=lost)


def _count_survivors(facts: Facts, known: list[accounts.Account]) -> float:
    """Returns how many of the examples that were trained on are in the newest checkpoint. Of a run
    that trains, what is not saved yet is not lost. A copy has not made the steps it began with."""
    saved = run_folder.find_saved_step(facts.run) or 0
    if facts.state in liveness.AT_WORK:
        saved = max([saved, *(one.step or 0 for one in facts.statuses.values())])
    begun = (facts.run.read(run_folder.COPIED) or {}).get("step", 0)
    return float((saved - begun) * topology.examples_per_step(facts.job))
