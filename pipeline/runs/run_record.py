"""`run.json`: what happened to a run, for machines. Written at the start, the end, and at news."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import pydantic

from pipeline import errors, redaction, versions
from pipeline.runs import accounts, export_files, record_parts, run_folder, server_loads
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.runs.server_loads import ServerLoad

if TYPE_CHECKING:
    from pipeline import config

FILE_NAME = "run.json"
# The reason of a run that was not ended before its time.
ALL_STEPS = "all steps made"
_MOST_LAUNCHES = 1000


class LauncherProcess(pydantic.BaseModel):
    """The process that looks after the run, or did."""

    host: str
    pid: int
    # Its newest sign of life, in Unix time; `None` if it gives none: one that follows a job.
    seen: float | None = None
    # When its command began, in Unix time: before it took hold of the run.
    began: float | None = None


class Restart(pydantic.BaseModel):
    """One restart, as `run.json` tells it.

    `step` is the newest that was seen before the loss, `steps_lost` how far the global step fell
    back, from the newest that was reported to that of the checkpoint which training continued from
    (0 if it continued without), `seconds_to_next_step` the time
    from the loss until training (or the evaluator) went on, in the slowest of the processes that
    hung on it. The last two stay `None` if it never did.
    """

    role: str
    index: int
    cause: str
    step: int | None = None
    steps_lost: int | None = None
    seconds_to_next_step: float | None = None
    # When it was lost, in Unix time; `None` in records of earlier versions.
    time: float | None = None
    # True if all that train were started again.
    gang: bool = False


class WorkerChange(pydantic.BaseModel):
    """Another number of workers while it trained: from when on, in Unix time, and the newest step
    at that time."""

    workers: int
    time: float
    step: int | None = None


class Launch(pydantic.BaseModel):
    """An earlier launch of a run: when it began and ended, in Unix time (`None` if that was not
    recorded), its processes by role at its end, the status that it left ("running" if its launcher
    was killed), when its number of workers changed, and its strategy. Status and strategy are
    `None` in records of earlier versions."""

    started: float
    ended: float | None = None
    topology: dict[str, int]
    status: str | None = None
    scalings: list[WorkerChange] = []
    strategy: str | None = None


class RunRecord(pydantic.BaseModel):
    """One run. `seconds`, `examples_per_second` and `topology` are of the newest launch;
    `restarts` and `launches` count over all of them. It holds no environment and no secret."""

    model_config = pydantic.ConfigDict(extra="ignore")

    # `trained` by hand: it has not been evaluated yet.
    status: Literal["running", "trained", "done", "stopped", "failed"]
    # One line: why it ended as it did.
    reason: str
    exit_code: int | None = None
    # Its name; of a script, what that is called.
    config: str
    strategy: str
    # The command of a script, without secrets.
    command: list[str] | None = None
    # Role to number of processes.
    topology: dict[str, int]
    # Role to addresses; empty for a single process.
    cluster: dict[str, list[str]] = {}
    # `None` if its roles were started by hand.
    launcher: LauncherProcess | None
    # What runs its processes elsewhere, of the newest launch there, such as slurm/<number>. Its
    # beginning says which place it is at: `pipeline.places.Place.jobs`.
    job: str | None = None
    launches: int = 1
    # When the newest launch began and ended, in Unix time; `None` in records of earlier versions.
    started: float | None = None
    ended: float | None = None
    # The launches before that, the newest of them.
    earlier: list[Launch] = []
    final_step: int | None = None
    # Split to metric to value, of the final evaluation.
    metrics: dict[str, dict[str, float]] = {}
    # Split to metric to the value of a constant answer, where it is known.
    baselines: dict[str, dict[str, float]] = {}
    # Split to metric to both ends of its 95 % interval, with a remark if few records carry the
    # metric; or to why it has none.
    intervals: dict[str, dict[str, record_parts.Ends]] = {}
    # Split to the records that these are of, where they are counted.
    evaluated: dict[str, int] = {}
    # Of the best checkpoint: `metric`, `value`, `step` and what else its file has.
    best: record_parts.Best = None
    exports: dict[str, str | None] = {}
    # Export to SHA-256 of each of its files.
    sha256: dict[str, dict[str, str]] = {}
    restarts: list[Restart] = []
    # Those of the newest launch; `topology` is what they have led to.
    scalings: list[WorkerChange] = []
    # Per epoch, by the newest checkpoint's own count: records due; applied once, more often, or
    # never; skipped because they cannot be read; left to be read. Of more than a thousand epochs
    # the first ones are one row, by the number of the last of them. With `cluster.backup_workers`
    # these are records that were handed out: late gradients are dropped.
    input: list[dict[str, int]] | None = None
    # A digest of how often each block of records was applied: equal for runs of one build and seed
    # that were trained on the same records. `None` of an input that is not counted.
    input_sha256: str | None = None
    # Task to records it has applied (or was handed out), once training has ended.
    readers: dict[str, int] = {}
    # Split to cause to records that it did without: `quarantine.count_left_out`.
    left_out: dict[str, dict[str, int]] = {}
    # Steps of checkpoints that were not evaluated, because of newer ones or by the config.
    skipped: list[int] = []
    # Where it has continued with other records, from step to step: `Status.new_data`.
    new_data: list[dict[str, int]] = []
    # to_first_step (from the start of the command), training, evaluation (after training), total.
    seconds: dict[str, float] = {}
    # Task to where the time of its steps went, as its status file tells it.
    step_seconds: dict[str, dict[str, float]] = {}
    # Task to how often its updates were late by how many of others.
    staleness: dict[str, dict[str, int]] = {}
    # Parameter server to what one step of each process asks of it.
    servers: dict[str, ServerLoad] = {}
    # Steps of the newest launch times examples a step, over seconds of training; in a single
    # process those include the evaluations in between.
    examples_per_second: float | None = None
    versions: dict[str, str] = {}
    # SHA-256 of the manifest: names the data that was trained on.
    manifest: str | None = None

    @property
    def state(self) -> str:
        """Its status; `stopped` also if `make stop` has ended it well before its last step."""
        stopped = self.status == "done" and self.reason == run_folder.STOP_REQUESTED
        return "stopped" if stopped else self.status


def begin(job: config.Config, run: RunFolder, *, by_hand: bool = False) -> RunRecord:
    """Returns the record of a run that is about to start, going on from an earlier launch's. One
    whose roles are started `by_hand` has no launcher."""
    from pipeline.cluster import topology  # commands that only look start without it

    return begin_as(
        run,
        config=job.name,
        strategy=job.cluster.strategy,
        topology=topology.role_counts(job.cluster),
        by_hand=by_hand,
    )


def begin_as(
    run: RunFolder,
    *,
    config: str,
    strategy: str,
    topology: Mapping[str, int],
    command: list[str] | None = None,
    by_hand: bool = False,
) -> RunRecord:
    """Returns the record of a run that is about to start, as `begin`, from what it is made of."""
    earlier = read(run)
    return RunRecord(
        status="running",
        reason="started by hand" if by_hand else "training",
        config=config,
        strategy=strategy,
        command=command,
        topology=dict(topology),
        launcher=None if by_hand else LauncherProcess(host=socket.gethostname(), pid=os.getpid()),
        launches=earlier.launches + 1 if earlier else 1,
        started=time.time(),
        earlier=launches(earlier, find_last_sign(run, earlier))[-_MOST_LAUNCHES:],
        restarts=earlier.restarts if earlier else [],
        new_data=earlier.new_data if earlier else [],
        versions={**versions.list_installed(), "code": versions.code_version()},
    )


def note_command(record: RunRecord, began: float) -> None:
    """Keeps when the command of a launcher began: if it is killed, nothing else tells."""
    if record.launcher is not None:
        record.launcher.began = began


def launches(record: RunRecord | None, ended: float | None = None) -> list[Launch]:
    """Returns the launches of a run so far, the newest last; none of a record of an earlier
    version, which does not say when. The newest one has `ended` with its last sign of life, if
    its end was not recorded."""
    if record is None or record.started is None:
        return []
    seen = record.launcher.seen if record.launcher else None
    began = record.started
    if record.launcher is not None and record.launcher.began is not None:
        began = min(began, record.launcher.began)
    if record.ended is not None and "total" in record.seconds:
        # The command began before it took hold of the run, with records to make, say.
        began = min(began, record.ended - record.seconds["total"])
    newest = Launch(
        started=began,
        ended=record.ended or ended or seen,
        topology=record.topology,
        status=record.state,
        scalings=record.scalings,
        strategy=record.strategy,
    )
    return [*record.earlier, newest]


def find_last_sign(run: RunFolder, record: RunRecord | None) -> float | None:
    """Returns when a launch whose end was not recorded gave its last sign of life, in Unix time;
    `None` if it was recorded, or there is no sign.

    The processes of a launcher that was killed give theirs more often than it did. What comes long
    after all others is of a process that was started by hand since.
    """
    if record is None or record.ended is not None:
        return None
    signs = [max(one.time, one.seen or 0.0) for one in run_folder.read_statuses(run).values()]
    signs += [one.until for one in accounts.read(run)]
    found = record.launcher.seen if record.launcher else None
    if found is None:
        return max((sign for sign in signs if sign >= (record.started or 0.0)), default=None)
    for sign in sorted(signs):
        if found < sign <= found + run_folder.silence(run):
            found = sign
    return found


def job_at_work(record: RunRecord | None) -> str | None:
    """Returns the job elsewhere of a run whose end is not recorded yet, or `None`."""
    return record.job if record is not None and record.status == "running" else None


def read(run: RunFolder) -> RunRecord | None:
    """Returns the record of a run, or `None` if there is none that can be used."""
    try:
        content = run.read(FILE_NAME)
        return None if content is None else RunRecord.model_validate(content)
    except (errors.DataError, pydantic.ValidationError):
        return None


def write(run: RunFolder, record: RunRecord) -> None:
    """Stores the record; readers see the old one or the new one."""
    run.write(FILE_NAME, redaction.redact_all(record.model_dump(mode="json")))


@dataclasses.dataclass
class Heartbeat:
    """Writes into the record of a run, now and then, that its launcher is there."""

    record: RunRecord
    run: RunFolder
    clock: Callable[[], float] = time.time
    # For the time between two: it is never set back.
    timer: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._written: float | None = None

    def __call__(self, *, at_once: bool = False) -> bool:
        """Writes it if it is time to, and tells whether it did. A sign of life is not worth failing
        for."""
        now = self.timer()
        interval = run_folder.beat_interval(self.run)
        if self._written is not None and now - self._written < interval and not at_once:
            return False
        self._written = now
        if self.record.launcher is not None:
            self.record.launcher.seen = self.clock()
        try:
            write(self.run, self.record)
        except (errors.PipelineError, OSError):
            return False
        return True


def add_statuses(record: RunRecord, statuses: Mapping[str, Status]) -> None:
    """Fills in where the time of each process went, and what it asked of servers, as it has said
    itself."""
    record.servers = server_loads.add_up(statuses.values())
    for name, status in statuses.items():
        seconds = dict(status.seconds or {})
        if "checkpoints" in seconds:
            record.seconds["checkpoints"] = round(seconds.pop("checkpoints"), 3)
        record.step_seconds |= {name: seconds} if seconds else {}
        record.staleness |= {name: status.staleness} if status.staleness else {}


def add_result(record: RunRecord, run: RunFolder) -> None:
    """Fills in what the evaluating process found, if it has got that far."""
    result = run.read(run_folder.RESULT)
    if result is None:
        return
    record.final_step = result["final_step"]
    record.metrics = result.get("metrics", {})
    record.baselines = result.get("baselines", {})
    record.intervals = result.get("intervals", {})
    record.evaluated = result.get("evaluated", {})
    record.best = result.get("best")
    record.exports = result.get("exports", {})
    record.sha256 = result.get("sha256", {})
    record.input = result.get("input")
    record.input_sha256 = result.get("input_sha256")
    record.readers = result.get("readers", {})
    record.left_out = result.get("left_out", {})
    record.skipped = result.get("skipped", [])


def reason_of_end(run: RunFolder) -> str:
    """Returns why training has ended, as the chief has left it."""
    reason = str((run.read(run_folder.TRAINING_DONE) or {}).get("reason", "steps"))
    return ALL_STEPS if reason == "steps" else reason


def close(
    record: RunRecord, run: RunFolder, error: errors.PipelineError | None, *, stopped: bool
) -> None:
    """Writes how the run ended."""
    if error is None:
        record.status, record.exit_code = "done", 0
    else:
        record.status = "stopped" if stopped else "failed"
        record.reason = str(error) or "preprocessing failed"
        record.exit_code = error.exit_code
    record.ended = time.time()
    # A full disk must not hide why the run ended.
    with contextlib.suppress(errors.PipelineError) if error else contextlib.nullcontext():
        write(run, record)


# What reasons began with when `TRAINING_DONE.json` had no "final".
_FINAL_REASONS = ("early stopping", run_folder.DEADLINE)


def has_ended_for_good(record: RunRecord, run: RunFolder) -> bool:
    """Tells if training ended before its last step for a reason that would end it again at once:
    nothing improves, or its seconds are used up."""
    done = run.read(run_folder.TRAINING_DONE) or {}
    return bool(done.get("final")) or record.reason.startswith(_FINAL_REASONS)


def find_finished(job: config.Config, run: RunFolder) -> RunRecord | None:
    """Returns the record of a run that has nothing left to do, otherwise `None`: a model that is
    no longer there is exported again.

    One that `has_ended_for_good` has more to do only if the config has changed; after `make stop`
    there is more to do.
    """
    record, result = read(run), run.read(run_folder.RESULT)
    if record is None or result is None or record.status != "done":
        return None
    if not export_files.are_published(run, result):
        return None
    if job.train.steps is not None and result["final_step"] >= job.train.steps:
        return record
    if job.train.pause_step is not None and result["final_step"] >= job.train.pause_step:
        return record
    if job.train.epochs is not None and (result.get("epochs") or 0.0) >= job.train.epochs:
        return record
    stays = has_ended_for_good(record, run) and run.read_config() == job
    return record if stays else None
