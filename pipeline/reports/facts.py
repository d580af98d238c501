"""Gathers what is known of a run: from run.json, status files, event files and its history."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.reports import events, goodput
from pipeline.reports.events import Events
from pipeline.runs import history, liveness, run_folder, run_record
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.runs.run_record import RunRecord

_EVALUATIONS = "eval_"
# A pace is sustained if it is kept for so many seconds, and for so much of the training.
_WINDOW_SECONDS, _WINDOW_SHARE = 5.0, 0.1


@dataclasses.dataclass(frozen=True)
class Facts:
    """Everything that a report tells. `evaluations` are event files by split; `slices` those that
    accompany an export, by split, as `metrics.json` has them."""

    run: RunFolder
    job: config.Config
    record: RunRecord
    state: str
    reason: str
    statuses: dict[str, Status]
    training: Events
    evaluations: dict[str, Events]
    history: history.History | None
    slices: dict[str, list[dict[str, Any]]]
    now: float

    @property
    def began(self) -> float | None:
        """When the newest launch began, in Unix time, as far as that is known."""
        first = self.training.moments[0].time if self.training.moments else None
        return self.record.started or first

    @property
    def processes(self) -> int:
        """How many processes train."""
        return max(1, sum(self.record.topology.get(role, 0) for role in topology.TRAINING_ROLES))


def gather(run: RunFolder, now: float | None = None) -> Facts:
    """Returns the facts of a run. Raises `UsageError` for one that has never begun to train,
    `DataError` for one whose record cannot be used."""
    job, record = run.read_config(), run_record.read(run)
    if record is None and storage.exists(run.record_path):
        raise errors.DataError(
            f"{run.record_path!r}: is damaged, or of another version of this project. The command "
            f"that trained run {run.name!r} writes it again."
        )
    if record is None:
        raise errors.UsageError(
            f"run {run.name!r}: has no {run_record.FILE_NAME}, so it has never begun. Train it "
            f"with make train RUN={run.name}."
        )
    now = time.time() if now is None else now
    statuses = run_folder.read_statuses(run)
    state, reason = liveness.state_of_run(run, record, statuses, now)
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
        slices=_slices(run, record),
        now=now,
    )


def _slices(run: RunFolder, record: RunRecord) -> dict[str, list[dict[str, Any]]]:
    for kind in ("final", "best"):
        path = record.exports.get(kind)
        if not path:
            continue
        try:
            text = storage.read_text(storage.join(run.path, path, "assets.extra", "metrics.json"))
            found = json.loads(text).get("slices", {})
        except (errors.PipelineError, OSError, ValueError, AttributeError):
            continue
        return {split: rows for split, rows in found.items() if rows}
    return {}


def measured(facts: Facts) -> goodput.Measured | None:
    """Returns where the time of the newest launch went, or `None` if it made no step."""
    began, seconds = facts.began, facts.record.seconds
    moments = [one for one in facts.training.moments if began is None or one.time >= began]
    if began is None or not moments:
        return None
    total = seconds.get("total", facts.now - began)
    # Of a run that trains, what has not been told yet is in its event files.
    start = seconds.get("to_first_step", moments[0].time - began)
    end = seconds.get("evaluation", 0.0)
    training = max(0.0, total - start - end)
    batch = topology.examples_per_step(facts.job)
    newest = max(one.step for one in moments)
    first = moments[0].step
    saved = run_folder.saved_step(facts.run) or 0
    if facts.state in liveness.AT_WORK:
        saved = newest  # what is not saved yet is not lost
    pace = events.best_rate(moments, max(_WINDOW_SECONDS, _WINDOW_SHARE * training))
    if pace is None and training > 0:
        pace = (newest - first) / training or None
    restarts = [one for one in facts.record.restarts if one.time is None or one.time >= began]
    lost = sum(one.steps_lost or 0 for one in restarts) + max(0, newest - saved)
    synchronous = topology.STRATEGIES[facts.record.strategy].synchronous
    saves = facts.training.curves.get("seconds/checkpoint", [])
    return goodput.Measured(
        total=total,
        start=start,
        end=end,
        processes=facts.processes,
        examples=max(0, min(newest, saved) - first) * batch,
        best_rate=None if pace is None else pace * batch,
        lost_examples=lost * batch,
        recovering=[
            (one.seconds_to_next_step, facts.processes if one.gang or one.role == "ps" else 1)
            for one in restarts
            if one.seconds_to_next_step is not None and one.role != topology.EVALUATOR
        ],
        saving=[
            (one.value, facts.processes if synchronous else 1)
            for one in saves
            if began + start <= one.time <= began + total - end
        ],
    )
